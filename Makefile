# Everything people do in a checkout; `make help` lists it. Each target sets up what it needs first (scripts/setup), and is quick
# when nothing changed.

.DEFAULT_GOAL := help
.PHONY: help build demo test check bench soak format lint docs clean distclean

help:  ## this list
	@echo "make …"
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target text; do \
	  printf '  %-10s %s\n' "$$target" "$$text"; done

build:  ## compile; leaves the command at .venv/bin/headrace and the Python package in .venv
	@scripts/build

demo: build  ## see what Headrace does, in under a minute
	@scripts/demo

test: build  ## all tests, also under sanitizers and fuzzers; ends with "N passed, M failed"
	@.venv/bin/python scripts/test

check: build  ## the tests that take under three minutes: use this while working
	@.venv/bin/python scripts/test --quick

bench: build  ## measure against baselines on this machine (docs/performance.md); NAMES="folder" for some only
	@scripts/bench $(NAMES)

soak: build  ## the tests for longer, and against more S3 servers; an hour or so
	@.venv/bin/python scripts/test --soak

format:  ## put C++ and Python into the one format
	@scripts/setup lint
	@.venv/bin/python scripts/lint --fix

lint:  ## formats, clang-tidy, ruff, includes that point up the map; FILES="src/store/*.cc" for some files only
	@scripts/setup lint
	@.venv/bin/python scripts/lint $(FILES)

docs: build  ## check links and commands in the documentation
	@.venv/bin/python scripts/check_docs

clean:  ## remove what was built; .venv and .tools stay
	rm -rf build dist

distclean: clean  ## remove .venv and .tools too
	rm -rf .venv .tools
