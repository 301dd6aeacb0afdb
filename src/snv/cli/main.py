"""`snv`: every command parses, calls one public function and prints where the result is."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys

import typer

from snv.cli import analyse, bench, demo, doctor, evaluate, figure, lists, model, report, run, show, table, tune, value
from snv.errors import Interrupted, UserError
from snv.text import printable_lines
from snv.threads import set_waiting_default

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Networks that learn task after task, forget nothing and store no old data.",
)
for module in (demo, model, run, tune, show, evaluate, table, figure, report, analyse, value, bench, lists, doctor):
    module.register(app)


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2, never a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files are bytes, and some are no text
    set_waiting_default()  # commands load PyTorch when they are called, so this comes first
    try:
        _check_company()
        app()
    except UserError as error:
        _fail(f"error: {error}", 2)
    except Interrupted as stop:
        from snv.machine import ranks

        if not ranks.speaks():
            sys.exit(128 + stop.signum)
        _fail(f"\nStopped; everything so far is in {stop}. Run the same command again to continue.", 128 + stop.signum)
    except KeyboardInterrupt:
        _fail("\nStopped.", 128 + signal.SIGINT)
    except BrokenPipeError:  # the reader of our output has gone (`snv … | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno == errno.EROFS:
            _fail(f"error: {error.filename} cannot be written ({error.strerror}). Choose another place.", 2)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" while writing {error.filename}" if error.filename else ""
        _fail(f"error: The disk is full{where}. Free some space and run the same command again to continue.", 2)


def _check_company() -> None:
    """Of all commands only `run` is for several processes; any other would be done several times over."""
    many, command = int(os.environ.get("WORLD_SIZE", "1")), next(iter(sys.argv[1:]), "")
    if many > 1 and command != "run":
        raise UserError(
            f"torchrun started {many} processes, and of all commands only snv run can share its work among them; got "
            f"snv {command}. Start it without torchrun."
        )


def _fail(text: str, code: int) -> None:
    sys.stderr.write(printable_lines(text) + "\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
