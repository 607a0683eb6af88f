"""`foreword bench`: one case in this process, or the standard edition, each of its cases in a process of its own.

A case runs alone in its process so that its command can be repeated by hand, and because a BLAS library can only be
put in place of another before a process begins. MLX's CPU build links the reference BLAS, which is bound by arithmetic
as the GPUs of M1 and M2 are for packed weights; with OpenBLAS in its place float32 is bound by memory traffic, as on
later chips. So both regimes are seen on one Linux machine. On a Mac there is one, Metal.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from engine import device
from engine.errors import EngineError

OPENBLAS = Path(f"/usr/lib/{platform.machine()}-linux-gnu/openblas-pthread/libopenblas.so.0")
"""Where Debian's libopenblas0-pthread puts it."""
NO_OPENBLAS = (
    "Only one of two regimes is benched, since OpenBLAS is not here. On Debian and Ubuntu it is installed with: "
    "sudo apt install libopenblas0-pthread"
)

PACKAGES = ("foreword", "mlx", "mlx-lm")


@dataclass(frozen=True)
class Regime:
    """A way of running: its title, the variables that make it, and the arguments of `foreword bench` for each case."""

    title: str
    variables: Mapping[str, str]
    cases: tuple[str, ...]


COMPUTE_BOUND = Regime(
    "Bound by arithmetic: the CPU with the reference BLAS",
    {},
    (
        "guide --context 128 --against mlx-lm --cycles 9",
        "constructed:150m:float32:0.85 --context 32 --tokens 16 --depths 1,2 --cycles 3",
        "constructed:host:float32:0.85 --context 64 --tokens 32 --cycles 5 --against mlx-lm",
    ),
)
BANDWIDTH_BOUND = Regime(
    "Bound by memory: the CPU with OpenBLAS",
    {"LD_PRELOAD": str(OPENBLAS), "OPENBLAS_NUM_THREADS": "1"},
    (
        "guide --context 128 --against mlx-lm --cycles 9",
        "constructed:350m:float32:0.85 --context 128 --tokens 16 --cycles 9 --against mlx-lm",
    ),
)
METAL = Regime(
    "Metal",
    {},
    (
        "guide --context 128 --against mlx-lm --cycles 9",
        "constructed:350m:bf16:0.85 --context 512 --cycles 9 --against mlx-lm",
        "constructed:350m:4bit:0.85 --context 512 --cycles 9 --against mlx-lm",
        "constructed:350m:4bit:0.85 --context 4096 --cycles 9",
        "constructed:150m:4bit:0.85 --context 16384 --cycles 9",
    ),
)


def regimes() -> list[Regime]:
    """Those that this machine has. Says so where one could be installed."""
    if platform.system() == "Darwin":
        return [METAL]
    if not OPENBLAS.exists():
        print(NO_OPENBLAS, file=sys.stderr)
        return [COMPUTE_BOUND]
    return [COMPUTE_BOUND, BANDWIDTH_BOUND]


def machine() -> dict[str, str]:
    """What a page says of where it was made."""
    this, mac = device.probe(), platform.mac_ver()[0]
    return {
        "chip": this.name,
        "cores": str(os.cpu_count()),
        "memory": f"{this.memory / 1e9:.0f} GB",
        "system": f"macOS {mac}" if mac else f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def bench_case(
    subject: str, options: Mapping[str, Any], json_file: Path | None, progress: Callable[[str, float], None]
) -> str:
    """Bench one case in this process; its section of the page. The figures go to `json_file` as well. `progress` hears
    what is being done and how much of all is. Raises EngineError (not_writable, and those of the model)."""
    from engine.bench.case import Case, run
    from engine.bench.page import case_section

    if json_file is not None:
        _writable(json_file)
    result = run(Case(subject, **options), progress)
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(result), indent=1))
    return case_section(result, in_terminal=sys.stdout.isatty())


def bench_edition(page_file: Path) -> str:
    """Run the standard edition and write its page, with the figures in a JSON file beside it. Returns the page.

    Raises EngineError (bench_failed) where a case ends with an error, (not_writable) before any is run.
    """
    from engine.bench.page import page

    _writable(page_file)
    results: list[dict[str, Any]] = []
    sections: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="foreword-bench-") as folder:
        for regime in regimes():
            pieces = []
            for arguments in regime.cases:
                json_file = Path(folder) / f"{len(results)}.json"
                section = _child(regime, arguments, json_file)
                pieces.append(f"{section}\n`{_by_hand(regime, arguments)}`\n")
                results.append({"regime": regime.title, **json.loads(json_file.read_text())})
            sections.append((regime.title, "\n".join(pieces)))
    today, here = date.today().isoformat(), machine()
    content = page(today, list(here.items()), sections)
    page_file.write_text(content, encoding="utf-8")
    figures = {"date": today, "machine": here, "cases": results}
    page_file.with_suffix(".json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return content


def _child(regime: Regime, arguments: str, json_file: Path) -> str:
    code = "import sys; from engine.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "bench", *shlex.split(arguments), "--json", str(json_file)]
    print(_by_hand(regime, arguments), file=sys.stderr)
    done = subprocess.run(command, env=os.environ | regime.variables, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise EngineError("bench_failed", f"“foreword bench {arguments}” ended with an error, which is shown above.")
    return done.stdout


def _by_hand(regime: Regime, arguments: str) -> str:
    variables = [f"{name}={value}" for name, value in regime.variables.items()]
    return " ".join([*variables, "foreword bench", arguments])


def _writable(file: Path) -> None:
    """Raises EngineError (not_writable): better before the minutes that it takes to get what goes there."""
    was_there = file.exists()
    try:
        with file.open("a"):
            pass
        if not was_there:
            file.unlink()  # a bench that is broken off leaves no empty one
    except OSError as error:
        what = f"{file} cannot be written: {error.strerror}."
        raise EngineError("not_writable", what, next_step="Name another file.") from error
