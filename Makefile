# Each target does its own set-up; `make` alone lists them.

SETUP := .venv/.set-up

# Many images of containers set this. With it, each start of a command would compile up to 1,500 modules of Python.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo "make demo    real flights through the whole of Hourline, checked at the end; KEEP=1 leaves it up, WORKSPACE=folder says where"
	@echo "make test    all checks, and the tests that are not marked heavy, in 15 to 40 minutes on 2 cores"
	@echo "make test-all  those, too, as CI does: processes that are killed, Kafka that is away, the real Airflow, and variants"
	@echo "make test-fast  the tests that need neither tables nor processes, in two minutes; make test-long has more seeds and stories"
	@echo "make install sets up .venv, the jars and the classes that Java shares, which the others do as well"
	@echo "make soak    processes and Kafka killed every few seconds, every read compared with the oracle; SOAK_MINUTES=20, SEED=n repeats its choices"
	@echo "make check   lint, format, types and import contracts alone"
	@echo "make docs    generates the reference, and builds the documentation into site/; no warning is allowed"
	@echo "make mutants breaks each rule of the protocol in a copy of the code, and shows that some test turns red"
	@echo "make bench   what things cost beside their peers, in minutes; make bench-full in some two and a half hours; benchmarks/FIGURES.md has the last figures"
	@echo "make clean   removes the environment, caches and workspaces of this checkout (not the jars, which all checkouts share)"

install: $(SETUP)
	@echo 'ready. Next: . .venv/bin/activate && hourline init shop (see README.md)'

demo: $(SETUP)
	KEEP="$(KEEP)" WORKSPACE="$(WORKSPACE)" .venv/bin/python -m examples.nyc_flights.demo

# What to run at each save: no broker, no Spark, no Delta protocol.
test-fast: $(SETUP)
	.venv/bin/python -m pytest -n 2 tests/unit

# Tests run short-lived Java: its second compiler takes more from the other tests than it gives. Without it, Java has
# little memory for compiled code. A worker's Spark lives for all of its tests, and needs as much as usual.
test test-all test-long: export JAVA_TOOL_OPTIONS := -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m

# Files go to the workers in their order, so that no long file is left for the end (tests/support/scheduling.py).
test: SELECTED := not heavy and not long
test-all: SELECTED := not long
test test-all: check
	.venv/bin/python -m pytest -m "$(SELECTED)" -n 3 --dist loadfile --no-loadscope-reorder --durations 25

# More seeds, more stories and more examples than `make test-all` has, on the same two cores.
test-long: $(SETUP)
	HYPOTHESIS_PROFILE=long PROTOCOL_EXAMPLES=40 .venv/bin/python -m pytest -n 3 --dist loadfile --durations 25 -m "long or hypothesis"

soak: $(SETUP)
	SOAK_MINUTES="$(SOAK_MINUTES)" SEED="$(SEED)" .venv/bin/python tests/soak.py

check: $(SETUP)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

# The variable silences an advertisement.
docs: $(SETUP)
	.venv/bin/python -m docs.generate
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

mutants: $(SETUP)
	.venv/bin/python tests/mutants.py

bench: $(SETUP)
	.venv/bin/python -m benchmarks

bench-full: $(SETUP)
	.venv/bin/python -m benchmarks --full

clean:
	rm -rf .venv .uv examples/nyc_flights/tables dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log
	find . -depth \( -name __pycache__ -o -name .hourline \) -exec rm -rf {} +

$(SETUP): uv.lock pyproject.toml hourline_core/runtime/jars.lock benchmarks/peers/jars.lock infra/setup.sh
	@bash infra/setup.sh
	@touch $@

.PHONY: help install demo test test-all test-fast test-long soak check docs mutants bench bench-full clean
