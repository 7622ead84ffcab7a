# `make demo` runs the main job on this machine, `make test` everything that CI runs; both make what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FUZZ_S ?= 3600
RACKS := tests/real tests/rig tests/real_ssh tests/recovery
FUZZ := tests/unit/config/test_fuzz.py tests/unit/config/test_importers_fuzz.py tests/unit/probe/test_fuzz.py \
	tests/unit/transport/test_channels_fuzz.py tests/unit/transport/test_odd_replies.py tests/unit/cli/test_tar_stream.py \
	tests/unit/runtime/test_channels_fuzz.py tests/unit/runtime/test_heartbeat_attacks.py tests/unit/runtime/test_lease.py

# Layers whose tests race real clocks: what fails on a busy machine is tried once more, alone, and said. `make test` says
# at its end which tests that were: each of them has to be mended.
AGAIN := $(VENV)/.again
CACHE = .pytest_cache/$@
NAME_FAILED = import json; print(*json.load(open("$(CACHE)/v/cache/lastfailed")), sep="\n")
define patiently
	@$(BIN)/python -m pytest -o cache_dir=$(CACHE) $(1) || { echo "== once more, alone: what has just failed"; \
		$(BIN)/python -c '$(NAME_FAILED)' >> $(AGAIN); \
		$(BIN)/python -m pytest -o cache_dir=$(CACHE) --last-failed --last-failed-no-failures none $(2); }
endef

# Tests start hundreds of processes, and many machines for builds have this set: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test forget check soak fuzz programs lint types contracts unit fake command real containers rig rig-able recovery racks wheel bench docs docs-rig clean

help:
	@echo "make demo   two slices on local racks: up, status, logs, down (about a minute)"
	@echo "make test   everything that CI runs (about three quarters of an hour; needs root, for the rig)"
	@echo "make check  the fast layers: lint, types, contracts, unit, property, corpus, fake (two minutes)"
	@echo "make command  the command itself, on imaginary fleets"
	@echo "make soak   for hours: drawn cases, 50 times as many and other ones each time; the long failures on racks of hosts"
	@echo "make programs  torchrun, Accelerate, Ray Train and Ray's jobs as people start them, with lost nodes; a part of soak"
	@echo "make fuzz   an hour of files, answers and bytes on each channel, drawn at random (FUZZ_S=60: a minute); a part of soak"
	@echo "make real   real Ray on local racks"
	@echo "make containers  runs in containers of a real Docker and Podman (needs root)"
	@echo "make rig    real sshd and real Ray on racks of hosts in this machine (needs root)"
	@echo "make recovery  each kind of failure on those racks, with a program that counts what it lost (needs root)"
	@echo "make racks  real, rig and recovery side by side, in half the time (needs root)"
	@echo "make wheel  the wheel alone, in an empty environment"
	@echo "make docs   refresh the parts of README and docs that are made from the program (half a minute)"
	@echo "make docs-rig  refresh the pictures of the guide, which are taken on racks of hosts in this machine (needs root)"
	@echo "make bench  figures: placement, start-up, launches and recoveries beside others (over an hour; needs root)"
	@echo "make clean  remove $(VENV) and what tests leave"

$(READY): pyproject.toml
	@echo "== environment: $(VENV) (once; Ray is large)"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))' || \
		{ echo "$(PYTHON) is not Python 3.10 to 3.13; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)
	@sh tests/demo.sh $(BIN)/nvlaunch

test: forget rig-able check command containers racks wheel
	@echo "== all passed"
	@test ! -s $(AGAIN) || { echo "== these only with their second try:"; cat $(AGAIN); }

forget:
	@rm -f $(AGAIN)

check: lint types contracts unit fake

soak: fuzz
	@echo "== soak: many cases, anew"
	@NVLAUNCH_SOAK=1 $(BIN)/python -m pytest -n 2 --timeout 0 tests/unit tests/property tests/soak tests/fake tests/command
	@NVLAUNCH_SOAK=1 $(BIN)/python -m pytest --timeout 0 tests/recovery tests/real_ssh/test_attacker.py \
		tests/real_ssh/test_sick_nodes.py tests/real_ssh/test_left_behind.py tests/real/buckets
	@$(MAKE) programs

# Stock programs, each with a node that is lost. They need 1 GB: PyTorch of Debian (`apt-get install python3-torch`), and
# an environment of its own with Ray's dashboard and Ray Train, whose agents would slow down all other tests.
PROGRAMS := .venv-programs
programs: rig-able
	@echo "== programs: torchrun, Accelerate, Ray Train and Ray's jobs (needs root, and Debian's python3-torch)"
	@/usr/bin/python3 -c 'import torch' || { echo "run: apt-get install --no-install-recommends python3-torch"; exit 1; }
	@test -x $(PROGRAMS)/bin/pytest || { $(PYTHON) -m venv $(PROGRAMS) && \
		$(PROGRAMS)/bin/pip install --quiet --editable '.[dev,programs]'; }
	@$(PROGRAMS)/bin/python -m pytest --timeout 900 tests/programs

# Task files, foreign inventories, what nodes and strangers send on each channel: other ones in each round, until the
# time is over.
fuzz: $(READY)
	@echo "== fuzz: everything that is read, for $(FUZZ_S) s"
	@end=$$(($$(date +%s) + $(FUZZ_S))); rounds=0; while [ $$(date +%s) -lt $$end ]; do \
		NVLAUNCH_SOAK=1 $(BIN)/python -m pytest -q --timeout 0 $(FUZZ) || exit 1; rounds=$$((rounds + 1)); done; \
		echo "== $$rounds rounds without an error of ours"

lint: $(READY)
	@echo "== lint"
	@$(BIN)/ruff check launcher tests
	@$(BIN)/ruff format --check launcher tests

types: $(READY)
	@echo "== types"
	@$(BIN)/mypy

contracts: $(READY)
	@echo "== contracts"
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -n 2 tests/contracts

unit: $(READY)
	@echo "== unit, property, corpus"
	@$(BIN)/python -m pytest -n 2 tests/unit tests/property tests/corpus tests/soak

fake: $(READY)
	@echo "== fake: the real driver over an imaginary fleet"
	$(call patiently,-n 4 tests/fake,tests/fake)

command: $(READY)
	@echo "== command: as people type it, in processes of their own, on imaginary fleets"
	$(call patiently,-n 4 tests/command,tests/command)

real: $(READY)
	@echo "== real: Ray on local racks"
	$(call patiently,--timeout 600 tests/real,--timeout 600 tests/real)

containers: $(READY)
	@echo "== containers: a real Docker and Podman (needs root)"
	$(call patiently,--timeout 600 tests/containers,--timeout 600 tests/containers)

# First of all in `make test`: who cannot run the rig is told so at once, and not after ten minutes.
rig-able: $(READY)
	@$(BIN)/python -m tests.rig.able

rig: rig-able
	@echo "== rig: real sshd and real Ray on racks of hosts in this machine (needs root)"
	$(call patiently,-n 2 --dist loadfile --timeout 600 tests/rig tests/real_ssh,--timeout 600 tests/rig tests/real_ssh)

recovery: rig-able
	@echo "== recovery: each kind of failure on racks of hosts in this machine (needs root)"
	$(call patiently,-n 2 --timeout 600 tests/recovery,--timeout 600 tests/recovery)

# These three wait most of their time: for Ray, for deadlines, for nodes that boot.
racks: rig-able
	@echo "== real, rig and recovery side by side (needs root)"
	$(call patiently,-n 3 --dist loadgroup --timeout 600 $(RACKS),--timeout 600 $(RACKS))

wheel: $(READY)
	@echo "== wheel: installed alone, used from another folder"
	@$(BIN)/python -m pytest tests/wheel

bench: $(READY)
	@$(BIN)/python tests/bench/bench_place.py
	@$(BIN)/python tests/bench/bench_turnover.py
	@$(BIN)/python tests/bench/bench_blame.py
	@$(BIN)/python tests/bench/bench_defragment.py
	@$(BIN)/python tests/bench/bench_fragmentation.py
	@$(BIN)/python tests/bench/bench_start.py
	@$(BIN)/python tests/bench/bench_fleet.py
	@$(BIN)/python tests/bench/bench_fleet_size.py
	@$(BIN)/python tests/bench/bench_loop.py
	@$(BIN)/python tests/bench/bench_run_size.py
	@$(BIN)/python tests/bench/bench_ray_limit.py
	@$(BIN)/python tests/bench/bench_ray_limit.py record
	@$(BIN)/python tests/bench/bench_scale.py
	@$(BIN)/python tests/bench/bench_launch.py
	@$(BIN)/python tests/bench/bench_launch.py --bastion
	@$(BIN)/python tests/bench/bench_ray_up.py
	@$(BIN)/python tests/bench/bench_recovery.py

docs: $(READY)
	@$(BIN)/python -m tests.docs

docs-rig: rig-able
	@$(BIN)/python -m tests.docs --rig

clean:
	rm -rf $(VENV) .venv-programs dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
