# make run    the window (without a display: the chat in the terminal)
# make test   every test, without a display
# make lint   format, lint and types
# make bench  the benchmark, about five minutes, onto engine/BENCHMARKS.md
# make bench-ui  what reading costs in the window, about three minutes
# make app    the macOS application, on a Mac
# make check-bundle  whether what goes into it would run on a Mac; on any system, about a minute
# make venv   only the environment; make lock  bring the locks up to pyproject.toml; make clean  remove what make made
#
# Written for the make (3.81) and /bin/sh that come with macOS as well as for Debian's. Everything stays inside
# this folder, but for the system libraries that Qt needs on Debian, which only root installs.

SHELL = /bin/sh
BIN = .venv/bin
STAMP = .venv/.stamp

# Tests that start engine threads have processes of their own, so that what one leaves in MLX ends with them: on a CPU,
# MLX 0.32 counts work behind a kernel that failed as unfinished, and waits for ever once there are ten pieces of it.
# The long ones come first.
WITH_WORKER = tests/engine/server tests/engine/worker tests/engine/test_drafters.py tests/test_cli.py \
	tests/engine/test_counting.py tests/engine/test_downloads_cli.py tests/engine/test_fitting.py \
	tests/engine/test_inspection.py tests/engine/test_judge.py tests/engine/test_trials.py tests/app

# What the Qt wheel needs of the system for its offscreen, xcb and wayland platforms, and fonts worth looking at.
DEBIAN_PACKAGES = libegl1 libgl1 libopengl0 libglib2.0-0 libdbus-1-3 libfontconfig1 libfreetype6 \
	libgssapi-krb5-2 libxkbcommon0 libxkbcommon-x11-0 libx11-6 libx11-xcb1 libxcb1 libxcb-cursor0 libxcb-glx0 \
	libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 libxcb-render0 libxcb-shape0 \
	libxcb-shm0 libxcb-sync1 libxcb-util1 libxcb-xfixes0 libxcb-xkb1 libwayland-client0 libwayland-cursor0 \
	libwayland-egl1 fonts-inter fonts-jetbrains-mono fonts-dejavu-core

# An environment whose Python is gone, say after an upgrade of the system's, is no environment.
$(shell [ -x $(BIN)/python ] || rm -f $(STAMP))

.PHONY: run test lint bench bench-ui app check-bundle venv lock clean

run: $(STAMP)
	@$(BIN)/foreword

# Bytecode is kept even where the shell says otherwise: without it, each process that a test starts compiles all that it
# imports, and every run compiles all tests again.
# Files are handed out in their order: by itself the plugin begins with those of many tests, and one process would be
# left with a file of a single long test at the end, the other with nothing to do.
PYTEST = PYTHONDONTWRITEBYTECODE= QT_QPA_PLATFORM=offscreen $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

test: $(STAMP)
	@$(PYTEST) $(WITH_WORKER)
	@$(PYTEST) $(addprefix --ignore=,$(WITH_WORKER))

lint: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

bench: $(STAMP)
	@$(BIN)/foreword bench --page engine/BENCHMARKS.md

bench-ui: $(STAMP)
	@QT_QPA_PLATFORM=offscreen $(BIN)/python -m tests.app.bench_ui

app:
	@[ "$$(uname -sm)" = "Darwin arm64" ] || { \
		echo "The .app can only be built on a Mac with Apple silicon. Start the window with make run." >&2; exit 1; }
	@$(MAKE) --no-print-directory venv
	@$(FIND_UV); export UV=$$uv; $(BIN)/python packaging/make_app.py

check-bundle: $(STAMP)
	@$(FIND_UV); export UV=$$uv; \
	$(BIN)/python packaging/bundle.py && $(BIN)/python packaging/bundle.py 26 && $(BIN)/python packaging/rehearse.py

venv: $(STAMP)

# An environment is either as the lock says or it is not there: packages that the lock does not name are removed,
# and the stamp is written last.
$(STAMP): requirements.lock pyproject.toml Makefile
	@if command -v dpkg-query >/dev/null 2>&1; then \
		missing=; \
		for package in $(DEBIAN_PACKAGES); do \
			case "$$(dpkg-query -W -f='$${Status}' $$package 2>/dev/null)" in \
				*"ok installed") ;; \
				*) missing="$$missing $$package" ;; \
			esac; \
		done; \
		if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ]; then \
			echo "Installing system packages:$$missing"; \
			($(APT_INSTALL) $$missing) >/dev/null && missing=; \
		fi; \
		[ -z "$$missing" ] || echo "Going on without system packages that the window may need:$$missing" >&2; \
	fi
	@$(FIND_UV); \
	rm -f $(STAMP); \
	if [ ! -x $(BIN)/python ]; then \
		python=$$($$uv python find --system --no-python-downloads '>=3.11,<3.14' 2>/dev/null) || python=3.12; \
		$$uv venv --quiet --clear --python "$$python" .venv || exit 1; \
	fi; \
	$$uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock && \
	$$uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable . && \
	touch $(STAMP)

# The one tool that must be there first. Where it is not on the PATH, whichever python3 there is puts it into .uv/.
FIND_UV = uv=uv; uv --version >/dev/null 2>&1 || { \
		uv=.uv/bin/uv; \
		[ -x $$uv ] || { \
			if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
				! python3 -c 'import ensurepip' 2>/dev/null; then \
				$(APT_INSTALL) python3-venv >/dev/null; \
			fi; \
			python3 -m venv .uv && .uv/bin/pip --quiet --disable-pip-version-check install uv; \
		} || { \
			rm -rf .uv; \
			echo "Could not install uv, with which the environment is made. Install uv, then try again." >&2; \
			exit 1; \
		}; \
	}
APT_INSTALL = apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends

lock:
	@$(FIND_UV); \
	$$uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
		--group dev pyproject.toml --output-file requirements.lock && \
	$$uv pip compile --quiet --python-version 3.13 --python-platform aarch64-apple-darwin --only-binary :all: \
		--generate-hashes --no-header --no-annotate --no-emit-index-url \
		--group bundle --output-file packaging/briefcase.lock

clean:
	rm -rf .venv .uv .briefcase build dist logs .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find app engine packaging tests -name __pycache__ -type d -prune -exec rm -rf {} +
