# make run    the window (without a display: the chat in the terminal)
# make test   every test, without a display
# make lint   format, lint and types
# make bench  plain against MTP on the small model in the box
# make app    the macOS application
# make venv   only the environment; make lock  renew requirements.lock; make clean  remove what make made
#
# Written for the make (3.81) and /bin/sh that come with macOS as well as for Debian's. Everything stays inside this folder,
# but for the system libraries that Qt needs on Debian, which only root installs.

SHELL = /bin/sh
BIN = .venv/bin
STAMP = .venv/.stamp

# What the Qt wheel needs of the system: the libraries of its offscreen and xcb platforms, and a font worth looking at.
DEBIAN_PACKAGES = libegl1 libgl1 libopengl0 libglib2.0-0 libdbus-1-3 libfontconfig1 libfreetype6 \
	libxkbcommon0 libxkbcommon-x11-0 libx11-6 libx11-xcb1 libxcb1 libxcb-cursor0 libxcb-glx0 libxcb-icccm4 \
	libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 libxcb-render0 libxcb-shape0 libxcb-shm0 \
	libxcb-sync1 libxcb-util1 libxcb-xfixes0 libxcb-xkb1 libsm6 libice6 \
	fonts-inter fonts-dejavu-core

.PHONY: run test lint bench app venv lock clean

run: $(STAMP)
	@$(BIN)/foreword

test: $(STAMP)
	@QT_QPA_PLATFORM=offscreen $(BIN)/pytest

lint: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

bench: $(STAMP)
	@$(BIN)/foreword bench guide

app:
	@echo "The .app is not built yet in this version: start the window with make run." >&2; exit 1

venv: $(STAMP)

# An environment is either as the lock says or it is not there: packages that the lock does not name are removed, and the
# stamp is written last.
$(STAMP): requirements.lock pyproject.toml Makefile
	@if command -v dpkg-query >/dev/null 2>&1; then \
		missing=; \
		for package in $(DEBIAN_PACKAGES); do \
			case "$$(dpkg-query -W -f='$${Status}' $$package 2>/dev/null)" in \
				*"ok installed") ;; \
				*) missing="$$missing $$package" ;; \
			esac; \
		done; \
		if [ -z "$$missing" ]; then :; \
		elif [ "$$(id -u)" = 0 ]; then \
			echo "Installing system packages:$$missing"; \
			export DEBIAN_FRONTEND=noninteractive; \
			apt-get -qq update && apt-get -qq install -y --no-install-recommends $$missing >/dev/null || exit 1; \
		else \
			echo "These system packages are missing, the window may not open:$$missing"; \
		fi; \
	fi
	@$(FIND_UV); \
	rm -f $(STAMP); \
	if [ ! -x $(BIN)/python ]; then \
		python=$$("$$uv" python find --system --no-python-downloads '>=3.11,<3.15' 2>/dev/null) || python=3.12; \
		"$$uv" venv --quiet --clear --python "$$python" .venv || exit 1; \
	fi; \
	VIRTUAL_ENV="$(CURDIR)/.venv"; export VIRTUAL_ENV; \
	"$$uv" pip sync --quiet --require-hashes requirements.lock && \
	"$$uv" pip install --quiet --no-deps --no-build-isolation --editable . && \
	touch $(STAMP)

# The one tool that must be there first. Without it on the PATH it is installed from PyPI into .uv/, by whichever python3 there is.
FIND_UV = uv=$$(command -v uv) || { \
		uv=.uv/bin/uv; \
		if [ ! -x .uv/bin/uv ]; then \
			if ! python3 -c 'import ensurepip' 2>/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
				apt-get -qq update && \
				DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends python3-venv >/dev/null; \
			fi; \
			{ python3 -m venv .uv && .uv/bin/pip --quiet --disable-pip-version-check install uv; } || { \
				rm -rf .uv; \
				echo "Foreword's environment is made with uv, and neither uv nor a python3 with venv is here. Install uv and try again." >&2; \
				exit 1; \
			}; \
		fi; \
	}

lock:
	@$(FIND_UV); \
	"$$uv" pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
		--group dev pyproject.toml --output-file requirements.lock

clean:
	rm -rf .venv .uv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find app engine tests -name __pycache__ -type d -prune -exec rm -rf {} +
