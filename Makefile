# Everything a checkout needs. A fresh machine has Python >= 3.11, make and git; `make demo` and
# `make test` do the rest. Stamp files in the environment make a second run start at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLD_OPENENV := .venv-compat/openenv-0.3

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-long test-ray test-extras test-trainers docs test-browser lock check lint format clean

help:
	@echo "make demo    install, then play a full episode on this machine's device"
	@echo "make serve   install, then serve on 127.0.0.1:8000"
	@echo "make test    install with the development tools, then check style and types and run the tests"
	@echo "make test-long  the tests that test leaves out, as they take long"
	@echo "make test-ray  the tests of the pool on a Ray cluster, which they start on this machine"
	@echo "make test-extras  training with TRL, level 4 and Helion, with what they need"
	@echo "make test-browser  the page by clicks; needs Chromium on the path"
	@echo "make test-trainers  the test of the environment for verifiers; needs a network"
	@echo "make docs    the documentation as a site in build/docs; dead links fail"
	@echo "make check   style and types only"
	@echo "make lock    write the versions that the image is built with (needs uv)"
	@echo "make format  apply the formatter"
	@echo "make clean   remove the environments and build output"

demo: $(VENV)/.installed
	$(BIN)/kernel-env demo

serve: $(VENV)/.installed
	$(BIN)/kernel-env serve

test: check $(OLD_OPENENV)/.installed
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test-long: $(VENV)/.developed
	$(BIN)/python -m pytest -n auto --dist loadfile -m long

# Not part of `test`: Ray is 80 MB, and its cluster and workers take minutes on two cores.
test-ray: $(VENV)/.developed
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[ray]'
	$(BIN)/python -m pytest tests/test_ray_pool.py

# Not part of `test`: TRL, Transformers and Helion are 200 MB with what they need.
test-extras: $(VENV)/.developed
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[trl,level4,helion]'
	$(BIN)/python -m pytest tests/test_trl.py tests/test_level4.py tests/test_helion.py

# Not part of `test`: Playwright is 50 MB, and the browser is the system's own.
test-browser: $(VENV)/.developed
	$(BIN)/python -m pip install --disable-pip-version-check 'playwright>=1.50'
	$(BIN)/python -m pytest tests/test_browser.py

# Not part of `test`: verifiers prepares the program of each turn with uv, over a network.
test-trainers: $(VENV)/.developed
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[verifiers]'
	$(BIN)/python -m pytest tests/test_verifiers.py

docs: $(VENV)/.developed
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir build/docs

check lint: $(VENV)/.developed
	scripts/check $(BIN)

# The versions in the image: Python 3.12 on x86-64, torch for CUDA.
lock:
	uv pip compile pyproject.toml requirements/torch.txt --all-extras --python-version 3.12 --no-header \
		--python-platform x86_64-manylinux_2_28 --no-annotate --quiet --output-file requirements/lock.txt

format: $(VENV)/.developed
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-compat build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

# torch first and exactly: the packages that depend on it accept what is there.
$(VENV)/.torch: requirements/torch.txt | $(VENV)/.created
	$(BIN)/python -m pip install --disable-pip-version-check -r $<
	touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.torch
	$(BIN)/python -m pip install --disable-pip-version-check --editable .
	touch $@

$(VENV)/.developed: pyproject.toml | $(VENV)/.torch
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/.installed

# A client of another release, for the conformance tests: its code alone, on our dependencies.
$(OLD_OPENENV)/.installed: | $(VENV)/.created
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps \
		--target $(OLD_OPENENV) openenv==0.3.0
	touch $@
