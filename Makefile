# make demo: install and watch a network forget.   make test: install and check everything.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed
TRAINING_TESTS := tests/training tests/subnetworks tests/learners/test_learner_contract.py tests/learners/test_snv.py tests/test_before.py

.PHONY: install demo test test-avx2 test-all check lint types fuzz bench shape tables clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: install
	$(BIN)/snv demo

check: lint types

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal
	@$(MAKE) --no-print-directory test-avx2

# What trains, once more with the instructions of other processors, unless they are this one's own.
test-avx2: install
	@if $(BIN)/python -c "import torch; raise SystemExit(torch.backends.cpu.get_cpu_capability() == 'AVX512')"; \
	then echo "This processor has no AVX-512, so the tests above were the AVX2 pass."; \
	else ONEDNN_MAX_CPU_ISA=AVX2 OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal $(TRAINING_TESTS); fi

test-all: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m 'not reproduction'

# Spoilt files of every kind, each reader for so many seconds: it reads them or says what is wrong.
SECONDS ?= 60
fuzz: install
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/fuzz.py --seconds $(SECONDS)

bench: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench,ray]'
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/valuation.py --quick
	$(BIN)/python benchmarks/compact.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/busy.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/safety.py

# Figures that say whether the library can still be read.
shape: install
	$(BIN)/python tools/shape.py

# Brings the tables of README and docs up to date with the records in results/.
tables: install
	$(BIN)/python tools/tables.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build
