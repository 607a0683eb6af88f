"""Where the .app begins. In it `sys.executable` is the app, here a script that starts it as the .app does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    made = tmp_path / "Foreword"
    path = os.pathsep.join([str(ROOT), str(ROOT / "packaging")])
    made.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" -m foreword "$@"\n')
    made.chmod(0o755)
    return made


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_it_does_what_its_arguments_ask_for(program: Path) -> None:
    asked = run(program, "--version")
    assert asked.returncode == 0
    assert asked.stdout.startswith("foreword ")


def test_p04_a_pool_of_processes_opens_no_window(program: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.py"
    pool.write_text(
        "import multiprocessing\n"
        f"multiprocessing.set_executable({str(program)!r})\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "        print(pool.map(abs, [-1, -2, -3]))\n"
    )
    ran = run(sys.executable, pool)
    assert ran.stdout == "[1, 2, 3]\n", ran.stderr


def test_p04_what_python_starts_is_answered_as_python_answers_it(program: Path) -> None:
    ran = run(program, "-I", "-B", "-c", "import sys; print(sys.argv, __name__)", "-c", "more")
    assert ran.stdout == "['-c', '-c', 'more'] __main__\n", ran.stderr


def test_a_c_among_the_arguments_of_foreword_is_not_pythons(program: Path) -> None:
    assert "unrecognized arguments: -c" in run(program, "models", "list", "-c", "print('run')").stderr
