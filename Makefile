# Targets that people type; each sets up what it needs. `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
HALLMARK := $(BIN)/hallmark

.PHONY: help setup bench demo test lint figures faults profiles clusters plan audit render pin image bases launch \
	rollback status logs stop certify history report relock adopt preflight

help: ## this list
	@grep -hE '^[a-z ]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z ]+):.*## /  \1|/' | column -t -s '|'

setup: $(BIN)/.complete ## make .venv with the command `hallmark`

$(BIN)/.complete: requirements.lock pyproject.toml
	$(PYTHON) scripts/setup.py
	@touch $@

demo: setup ## prove, refuse, certify and roll back two real vLLM ranks on this machine, without a GPU
	@$(BIN)/python -m scripts.demo

test: setup ## all tests, the ones with real vLLM included
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: setup ## style, types, shell scripts, and that generated files are fresh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/shellcheck .ci/run $(wildcard dockerfiles/*.sh launch/*/*.sh)
	$(BIN)/python -m recipe.catalogue.lint
	$(BIN)/python -m scripts.pages --check

figures: setup ## measure what docs/figures.md says
	$(BIN)/python -m scripts.figures

faults: setup ## play every fault on real vLLM and on nodes that are cut off, and write docs/faults.md; as root
	$(BIN)/python -m scripts.faults

audit: setup ## patches × releases, every cell a state
	@$(HALLMARK) audit

relock: setup ## after a patch or a release has changed: baselines, patches.lock, the audit's record, the pages
	$(HALLMARK) relock
	$(HALLMARK) audit --out recipe/patches/audit.json
	$(BIN)/python -m scripts.pages

profiles clusters: setup ## list them
	@$(HALLMARK) $@

plan: setup ## PROFILE=NAME: state of every patch
	@$(HALLMARK) plan $(PROFILE)

pin: setup ## PROFILE=NAME: resolve its base image and model to digests in configs/pins.lock
	@$(HALLMARK) pin $(PROFILE)

image: setup ## PROFILE=NAME [BASE=REF]: build its patched image, or no image at all
	@$(HALLMARK) image $(PROFILE) $(if $(BASE),--base $(BASE))

bases: setup ## make the base images that no registry has (vLLM for the CPU), for the engine that docker talks to
	@$(BIN)/python -m scripts.bases cpu

render preflight launch status logs stop adopt certify history: setup ## CLUSTER=NAME
	@$(HALLMARK) $@ $(CLUSTER)

bench: setup ## CLUSTER=NAME or URL=ADDRESS [PRESET=NAME]: throughput, latency, acceptance
	@$(HALLMARK) bench $(or $(CLUSTER),$(URL)) $(if $(PRESET),--preset $(PRESET))

report: setup ## CLUSTER=NAME OUT=FILE.html: the evidence behind what is certified, as one page
	@$(HALLMARK) report $(CLUSTER) --out $(OUT)

rollback: setup ## CLUSTER=NAME [TO=REVISION|DIGEST|TAG]: back to a certified revision
	@$(HALLMARK) rollback $(CLUSTER) $(if $(TO),--to $(TO))
