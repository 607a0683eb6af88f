"""Puts together on this system what the .app would hold, and lets it test itself: python packaging/rehearse.py

Same sources, same packages by the lock, same things left out, same bytecode, in the same folders; only Python and the
libraries for the Mac are this system's. It is moved before it starts, begins with an empty environment, and must not
have written anything into itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import bundle

ROOT = bundle.ROOT
LIMIT_S = 120


def put_together(resources: Path, uv: str = "uv") -> None:
    """Fill the folder that is Contents/Resources in an .app. Raises SystemExit, and CalledProcessError."""
    app, packages = resources / "app", resources / "app_packages"
    for source in bundle.declared()["sources"]:
        shutil.copytree(ROOT / source, app / Path(source).name, ignore=shutil.ignore_patterns("__pycache__"))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    about = app / f"foreword-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: foreword\nVersion: {version}\n")
    bundle.install(packages, "--python", sys.executable, uv=uv)
    bundle.clean(packages, bundle.recipe().cleanup)
    licences = app / "resources" / "licences.json"
    subprocess.run([sys.executable, "packaging/licences.py", str(packages), str(licences)], cwd=ROOT, check=True)
    for folder in (app, packages):
        bundle.compile_folder(sys.executable, folder)


def try_out(resources: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Let it test itself, in `home` and with nothing of this environment. Raises SystemExit where it takes longer than
    LIMIT_S."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "QT_QPA_PLATFORM": "offscreen",
        "PYTHONDONTWRITEBYTECODE": "1",  # as the program of an .app has it
        "PYTHONPATH": os.pathsep.join([str(resources / "app"), str(resources / "app_packages")]),
    }
    command = [sys.executable, "-S", "-m", "foreword", "--selftest", str(home / "report.json")]
    try:
        return subprocess.run(
            command, cwd="/", env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise SystemExit(f"What the .app would hold did not test itself within {LIMIT_S} s.\n{late.stderr!r}") from None


def state(folder: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of everything in a folder."""
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="foreword-rehearsal-") as made:
        built, moved, home = (Path(made, name) for name in ("Foreword.app", "Moved Foreword.app", "home"))
        put_together(built / "Contents" / "Resources", os.environ.get("UV", "uv"))
        built.rename(moved)
        home.mkdir()
        before = state(moved)
        ran = try_out(moved / "Contents" / "Resources", home)
        after = state(moved)
        changed = sorted(path.relative_to(moved) for path in before | after if before.get(path) != after.get(path))
    if ran.returncode:
        print(ran.stdout, ran.stderr, sep="\n")
    for path in changed:
        print(f"- it wrote into itself: {path}")
    if ran.returncode or changed:
        print("What the .app would hold does not run as it should.")
        return 1
    print("What the .app would hold runs here, from another place and without a change to itself.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
