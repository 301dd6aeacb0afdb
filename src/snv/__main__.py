"""`python -m snv` is `snv`, and `torchrun -m snv` is many of it."""

from __future__ import annotations

from snv.cli.main import main

if __name__ == "__main__":
    main()
