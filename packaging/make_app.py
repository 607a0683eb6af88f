"""Makes the .app and its disk image, on a Mac with Apple silicon: `make app`.

    FOREWORD_MACOS=26           for macOS 26.2 and later, with MLX's kernels for the M5
    FOREWORD_IDENTITY           "Developer ID Application: NAME (TEAM)", a certificate in the keychain; without one,
                                another Mac that downloads it opens it only after Open Anyway
    FOREWORD_APPLE_ID           with an identity: the account with which Apple is asked to notarise the image,
    FOREWORD_APPLE_PASSWORD     and its app-specific password
    FOREWORD_UPDATES            the https address of a JSON file with the newest version; without one, and until the
                                user says yes, the app asks nobody

The .app lies in build/foreword then, and the image in dist.
"""

from __future__ import annotations

import os
import platform
import plistlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bundle

ROOT = bundle.ROOT
TOOLS = ROOT / "build" / "briefcase"
"""An environment for Briefcase: the Python that runs it is the one that it packs."""
APP = ROOT / "build" / "foreword" / "macos" / "app" / "Foreword.app"
RESOURCES = APP / "Contents" / "Resources"
SELFTEST_S = 300
"""Seconds until a self-test is given up: what cannot start shows a dialog, and nobody may be there to close it."""


@dataclass(frozen=True)
class Signing:
    """Who signs, and with which account Apple is asked to notarise. Nobody, and none, by default."""

    identity: str = ""
    account: str = ""
    password: str = field(default="", repr=False)

    @property
    def team(self) -> str:
        return self.identity.rpartition("(")[2].rstrip(")")

    @property
    def profile(self) -> str:
        """The name under which Briefcase looks for the account in the keychain."""
        return f"briefcase-macOS-{self.team}"

    @property
    def arguments(self) -> list[str]:
        """What Briefcase is told."""
        if not self.identity:
            return ["--adhoc-sign"]
        return ["--identity", self.identity, *([] if self.account else ["--no-notarize"])]


def signing(environment: Mapping[str, str]) -> Signing:
    """Who signs, by the environment. Raises SystemExit where what it says is not enough."""
    names = ("FOREWORD_IDENTITY", "FOREWORD_APPLE_ID", "FOREWORD_APPLE_PASSWORD")
    identity, account, password = (environment.get(name, "") for name in names)
    if bool(account) != bool(password):
        raise SystemExit("To notarise, set both FOREWORD_APPLE_ID and FOREWORD_APPLE_PASSWORD.")
    if account and not identity:
        raise SystemExit("Apple notarises only what is signed: set FOREWORD_IDENTITY as well.")
    if identity and not re.search(r"\([0-9A-Z]+\)$", identity):
        raise SystemExit(
            'FOREWORD_IDENTITY is the whole name of a certificate: "Developer ID Application: NAME (TEAM)".'
        )
    return Signing(identity, account, password)


def updates(environment: Mapping[str, str]) -> str:
    """The address that is asked for a newer version, by the environment; empty where none is. Raises SystemExit for one
    that the app would not ask."""
    address = environment.get("FOREWORD_UPDATES", "").strip()
    if address and not re.fullmatch(r"https://[^/\s]+\S*", address):
        raise SystemExit("FOREWORD_UPDATES is an address that begins with https://, or not set.")
    return address


def completed(plist: dict[str, Any], minimum: str) -> dict[str, Any]:
    """The Info.plist with what Briefcase's template does not take over: which macOS it needs, so that an older one says
    it in the user's language, and the version by which the system tells copies apart. Raises SystemExit where
    something that pyproject.toml declares is not in it."""
    info = bundle.declared()["macOS"]["info"]
    if lacking := [key for key, value in info.items() if plist.get(key) != value]:
        raise SystemExit(f"Info.plist has not got {', '.join(lacking)} as pyproject.toml says.")
    return plist | {"LSMinimumSystemVersion": minimum, "CFBundleVersion": plist["CFBundleShortVersionString"]}


def image_name(version: str, flavour: str) -> str:
    """What the disk image is called."""
    return f"Foreword-{version}-macos{flavour}.dmg" if flavour else f"Foreword-{version}.dmg"


def run(*command: str | Path, where: Path = ROOT, limit_s: float | None = None, **environment: str) -> None:
    """Run a command, and end with a line for people where it fails or takes longer than `limit_s`. Its arguments may be
    secret, so it names none."""
    name, arguments = Path(command[0]).name, list(map(str, command))
    try:
        ran = subprocess.run(arguments, cwd=where, env=os.environ | environment, check=False, timeout=limit_s)
        code = ran.returncode
    except OSError as error:
        raise SystemExit(f"{name} could not be started: {error.strerror}.") from None
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{name} did not end within {limit_s:g} s.") from None
    if code:
        raise SystemExit(f"{name} failed with exit code {code}.")


# ------------------------------------------------------------ the steps


def main() -> int:
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        raise SystemExit("The .app can only be built on a Mac with Apple silicon. Start the window with make run.")
    flavour, signed, address = os.environ.get("FOREWORD_MACOS", ""), signing(os.environ), updates(os.environ)
    os.environ.pop("FOREWORD_APPLE_PASSWORD", None)  # of all that runs here, one command is given it
    cooking = bundle.recipe(flavour)
    uv = Path(shutil.which(os.environ.get("UV", "uv")) or "uv").resolve()
    path = f"{uv.parent}:{os.environ['PATH']}"  # Briefcase looks for uv there

    run(uv, "venv", "--quiet", "--clear", "--python", bundle.PYTHON, TOOLS)
    tools = ("--python", TOOLS / "bin" / "python", "--require-hashes", "--only-binary", ":all:")
    run(uv, "pip", "sync", "--quiet", *tools, "packaging/briefcase.lock")
    run(sys.executable, "packaging/icon.py", ROOT / "build" / "bundle")

    briefcase = TOOLS / "bin" / "briefcase"
    minimum = f'min_os_version="{cooking.minimum}"'
    shutil.rmtree(ROOT / "build" / "foreword", ignore_errors=True)
    run(briefcase, "create", "macOS", "app", "--no-input", "-C", minimum, PATH=path)
    complete(cooking, address)
    run(briefcase, "build", "macOS", "app", "--no-input", "--no-update", "-C", minimum, PATH=path)
    try_moved()
    if signed.account:
        store = ("xcrun", "notarytool", "store-credentials", signed.profile)
        run(*store, "--apple-id", signed.account, "--team-id", signed.team, "--password", signed.password)
    package = (briefcase, "package", "macOS", "app", "--no-input", "--packaging-format", "dmg", "-C", minimum)
    version = plistlib.loads((APP / "Contents" / "Info.plist").read_bytes())["CFBundleShortVersionString"]
    image = packed(lambda: run(*package, *signed.arguments, PATH=path), version, flavour)
    run("codesign", "--verify", "--deep", "--strict", "--verbose=1", APP)
    if signed.identity:
        try_moved()  # once more: only now the system holds it to its entitlements
    return report(cooking, image)


def complete(cooking: bundle.Recipe, address: str) -> None:
    """Bring what Briefcase has put together to what is shipped, and look whether it would run. `address` is the one
    for newer versions."""
    info = APP / "Contents" / "Info.plist"
    info.write_bytes(plistlib.dumps(completed(plistlib.loads(info.read_bytes()), cooking.minimum)))
    if found := bundle.findings(RESOURCES / "app_packages", cooking.minimum, cooking.largest - bundle.BESIDE):
        raise SystemExit("\n".join(["The .app would not run everywhere:", *(f"- {line}" for line in found)]))
    licences = RESOURCES / "app" / "resources" / "licences.json"
    run(sys.executable, "packaging/licences.py", RESOURCES / "app_packages", licences)
    if address:  # without one the app never asks for a newer version
        (RESOURCES / "app" / "resources" / "update_address.txt").write_text(address + "\n", encoding="utf-8")
    library = [path.parent for path in APP.glob(f"Contents/Frameworks/**/python{bundle.PYTHON}/os.py")]
    if not library:
        raise SystemExit("Python's own library is not where Briefcase used to put it.")
    for folder in (RESOURCES / "app", RESOURCES / "app_packages", *library):
        bundle.compile_folder(TOOLS / "bin" / "python", folder)


def packed(pack: Callable[[], None], version: str, flavour: str) -> Path:
    """The image that Briefcase makes in `pack`. It calls each the same and removes what was called so before, so the
    usual image waits under another name while the other one is made. Of a notarisation that was broken off nothing may
    be left: Briefcase would go on with that one, and not pack what is built now."""
    made, image = (ROOT / "dist" / image_name(version, each) for each in ("", flavour))
    made.with_name(f"{made.name}.notarization-request").unlink(missing_ok=True)
    waiting = made.rename(made.with_suffix(".waiting")) if image != made and made.exists() else None
    try:
        pack()
        made.rename(image)
    finally:
        if waiting is not None:
            waiting.rename(made)
    return image


def try_moved() -> None:
    """Let a copy in another place, under another name, test itself: nothing may hang on where it was built."""
    with tempfile.TemporaryDirectory() as elsewhere:
        moved = Path(elsewhere) / "Moved Foreword.app"
        run("ditto", APP, moved)
        program = moved / "Contents" / "MacOS" / "Foreword"
        run(program, "--selftest", ROOT / "build" / "selftest.json", where=Path("/"), limit_s=SELFTEST_S)


def report(cooking: bundle.Recipe, image: Path) -> int:
    """Say what the parts weigh; 1 where it is more than there is room for."""
    print(bundle.table(parts()))
    whole = sum(parts().values())
    print(f"{image.relative_to(ROOT)}: {image.stat().st_size / 1e6:.0f} MB, for macOS {cooking.minimum} and later")
    if whole > cooking.largest:
        print(f"The .app has {whole / 1e6:.0f} MB; there is room for {cooking.largest / 1e6:.0f}.", file=sys.stderr)
        return 1
    return 0


def parts() -> dict[str, int]:
    """Bytes of the .app: Python, Foreword, each package, and all bytecode."""
    weighed: dict[str, int] = {}
    for path in bundle.files(APP):
        inside = path.relative_to(APP).parts
        if path.suffix == ".pyc":
            part = "bytecode"
        elif inside[:3] == ("Contents", "Resources", "app_packages"):
            part = inside[3].partition("-")[0]
        else:
            part = "Python" if inside[1] == "Frameworks" else "Foreword"
        weighed[part] = weighed.get(part, 0) + path.stat().st_size
    return dict(sorted(weighed.items(), key=lambda each: -each[1]))


if __name__ == "__main__":
    raise SystemExit(main())
