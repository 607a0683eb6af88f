"""The window comes first: what is slow to import is imported after it has been painted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app import bench_start

ROOT = Path(__file__).parents[2]

BEFORE_THE_FIRST_PAINT = {
    *("app", "engine", "PySide6", "shiboken6", "shibokensupport", "signature_bootstrap"),
    *("markdown_it", "mdurl", "pygments", "platformdirs"),
}
"""All that is not Python's own and may be imported by then."""
OF_THE_ENGINE = {"types", "errors", "whole_file", "parts", "tool_calls", "sizes"}
"""What the window needs of it: plain types, how a reply is read, and how sizes are said."""
MODULES = 350
"""How many modules may be there by then that are not our own; 319 when this was written."""

# The worker is made as the first thing after the first paint.
RUN = """
import json, os, sys
import app.main as main

def painted():
    print(json.dumps(sorted(sys.modules)), flush=True)
    os._exit(0)

main.make_worker = painted
sys.argv = ["foreword"]
from app.__main__ import main as enter
enter()
"""


def test_only_what_the_first_paint_needs_is_imported_before_it(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=ROOT,
        env={**os.environ, "FOREWORD_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    modules: list[str] = json.loads(run.stdout)
    foreign = {name.split(".")[0] for name in modules} - sys.stdlib_module_names
    assert {name for name in foreign if not name.startswith(("_", "sitecustomize"))} - BEFORE_THE_FIRST_PAINT == set()
    of_the_engine = {name.split(".")[1] for name in modules if name.startswith("engine.")}
    assert of_the_engine - OF_THE_ENGINE == set()
    assert len([name for name in modules if name.split(".")[0] not in ("app", "engine")]) <= MODULES


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="each system counts what is resident in its own way")
def test_before_a_model_is_loaded_the_app_takes_less_than_100_mb_of_its_own() -> None:
    bench_start.run(loads=False)  # whoever imports for the first time compiles, which takes 15 MB
    assert bench_start.run(loads=False)["idle"]["own"] < 100  # 92 when this was written


def test_what_the_engines_thread_imports_has_nothing_of_qt() -> None:
    """Qt makes its classes when Python asks for them, and two threads must not ask at once."""
    code = (
        "import sys, app.main, importlib\n"
        "qt = {name for name in sys.modules if name.startswith(('PySide6', 'shiboken6'))}\n"
        "for name in (*app.main.IMPORTS, 'mlx_lm.utils', 'engine.service'): importlib.import_module(name)\n"
        "print({name for name in sys.modules if name.startswith(('PySide6', 'shiboken6'))} - qt)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout) == (0, "set()\n"), run.stderr


def test_the_hub_is_asked_without_a_library_for_terminals() -> None:
    code = "import sys, engine.http_client, httpx; httpx.Client().close(); print('rich' in sys.modules); import click"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout) == (0, "False\n"), run.stderr
