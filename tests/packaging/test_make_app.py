"""What the build on a Mac decides before and after Briefcase does its part."""

import platform
import subprocess
import sys
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import bundle
import make_app
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
IDENTITY = "Developer ID Application: Somebody (AB12CD34EF)"
ACCOUNT = {"FOREWORD_APPLE_ID": "somebody@example.com", "FOREWORD_APPLE_PASSWORD": "abcd-efgh"}

# ------------------------------------------------------------ signing


def test_without_a_certificate_it_is_signed_by_nobody() -> None:
    assert make_app.signing({}).arguments == ["--adhoc-sign"]


def test_with_a_certificate_it_is_signed_and_with_an_account_notarised() -> None:
    signed = make_app.signing({"FOREWORD_IDENTITY": IDENTITY})
    assert signed.arguments == ["--identity", IDENTITY, "--no-notarize"]
    signed = make_app.signing({"FOREWORD_IDENTITY": IDENTITY} | ACCOUNT)
    assert signed.arguments == ["--identity", IDENTITY]
    assert (signed.team, signed.profile) == ("AB12CD34EF", "briefcase-macOS-AB12CD34EF")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"FOREWORD_IDENTITY": IDENTITY, "FOREWORD_APPLE_ID": "somebody"}, "set both"),
        ({"FOREWORD_IDENTITY": IDENTITY, "FOREWORD_APPLE_PASSWORD": "abcd"}, "set both"),
        (ACCOUNT, "set FOREWORD_IDENTITY as well"),
        ({"FOREWORD_IDENTITY": "Somebody"}, "whole name of a certificate"),
    ],
)
def test_half_of_what_signing_needs_is_refused_before_anything_is_built(
    environment: dict[str, str], words: str
) -> None:
    with pytest.raises(SystemExit, match=words):
        make_app.signing(environment)


def test_a_password_is_not_shown_by_accident() -> None:
    assert "abcd-efgh" not in repr(make_app.signing({"FOREWORD_IDENTITY": IDENTITY} | ACCOUNT))


def test_a_failed_command_does_not_tell_what_it_was_given() -> None:
    with pytest.raises(SystemExit) as ended:
        make_app.run(sys.executable, "-c", "raise SystemExit(3)", "--password", "abcd-efgh")
    assert "abcd-efgh" not in str(ended.value)
    assert "exit code 3" in str(ended.value)


def test_a_command_that_does_not_end_is_not_waited_for_for_ever() -> None:
    with pytest.raises(SystemExit, match=r"tail did not end within 0\.1 s\."):
        make_app.run("tail", "-f", "/dev/null", limit_s=0.1)


# ------------------------------------------------------------ what it is made with


def test_briefcase_and_all_it_needs_have_one_version_and_hashes() -> None:
    """They run with the key at hand that releases are signed with."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["bundle"]
    lines = (ROOT / "packaging" / "briefcase.lock").read_text().splitlines()
    pinned = dict(line.removesuffix(" \\").split("==") for line in lines if not line.startswith(" "))
    for each in map(Requirement, said):
        assert pinned[each.name] in each.specifier
    assert all("--hash=sha256:" in after for line, after in pairwise(lines) if not line.startswith(" "))
    assert f"--python-version {bundle.PYTHON} " in (ROOT / "Makefile").read_text()


# ------------------------------------------------------------ newer versions


def test_the_address_for_newer_versions_is_what_the_app_itself_would_ask() -> None:
    assert make_app.updates({}) == make_app.updates({"FOREWORD_UPDATES": " "}) == ""
    address = "https://example.com/foreword.json"
    assert make_app.updates({"FOREWORD_UPDATES": f"{address}\n"}) == address


@pytest.mark.parametrize("address", ["http://example.com/foreword.json", "example.com", "https://", "https:// a"])
def test_another_address_is_refused_before_anything_is_built(address: str) -> None:
    with pytest.raises(SystemExit, match="begins with https"):
        make_app.updates({"FOREWORD_UPDATES": address})


# ------------------------------------------------------------ what is made


def test_the_system_is_told_which_macos_it_needs_and_which_version_it_is() -> None:
    template = {"LSMinimumSystemVersion": "11.0", "CFBundleShortVersionString": "0.2.0", "CFBundleVersion": "1"}
    made = make_app.completed(template | bundle.declared()["macOS"]["info"], "26.2")
    assert {key: made[key] for key in template} == {
        "LSMinimumSystemVersion": "26.2",
        "CFBundleShortVersionString": "0.2.0",
        "CFBundleVersion": "0.2.0",
    }


def test_a_plist_that_lost_what_was_declared_is_not_shipped() -> None:
    info = bundle.declared()["macOS"]["info"]
    short = {key: value for key, value in info.items() if key != "CFBundleURLTypes"}
    with pytest.raises(SystemExit, match="CFBundleURLTypes"):
        make_app.completed(short, "14.4")


def test_both_images_can_lie_in_one_folder() -> None:
    assert make_app.image_name("0.1.0", "") == "Foreword-0.1.0.dmg"
    assert make_app.image_name("0.1.0", "26") == "Foreword-0.1.0-macos26.dmg"


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(make_app, "ROOT", tmp_path)
    (tmp_path / "dist").mkdir()
    return tmp_path / "dist"


def packing(dist: Path, words: str) -> Callable[[], None]:
    """What Briefcase does: every image has the same name, and one of that name is removed first."""

    def pack() -> None:
        (dist / "Foreword-0.1.0.dmg").unlink(missing_ok=True)
        (dist / "Foreword-0.1.0.dmg").write_text(words)

    return pack


def contents(dist: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in dist.iterdir()}


def test_the_image_for_26_leaves_the_usual_one_where_it_is(dist: Path) -> None:
    assert make_app.packed(packing(dist, "usual"), "0.1.0", "") == dist / "Foreword-0.1.0.dmg"
    assert make_app.packed(packing(dist, "26"), "0.1.0", "26") == dist / "Foreword-0.1.0-macos26.dmg"
    both = {"Foreword-0.1.0.dmg": "usual", "Foreword-0.1.0-macos26.dmg": "26"}
    assert contents(dist) == both
    make_app.packed(packing(dist, "newer"), "0.1.0", "")
    assert contents(dist) == both | {"Foreword-0.1.0.dmg": "newer"}


def test_an_image_that_could_not_be_made_leaves_the_usual_one_where_it_is(dist: Path) -> None:
    make_app.packed(packing(dist, "usual"), "0.1.0", "")
    half = packing(dist, "half")

    def refused() -> None:
        half()
        raise SystemExit("briefcase failed")

    with pytest.raises(SystemExit, match="briefcase failed"):
        make_app.packed(refused, "0.1.0", "26")
    assert contents(dist) == {"Foreword-0.1.0.dmg": "usual"}


def test_a_notarisation_that_was_broken_off_is_not_gone_on_with(dist: Path) -> None:
    (dist / "Foreword-0.1.0.dmg.notarization-request").write_text("identity = 'AB12'")
    make_app.packed(packing(dist, "usual"), "0.1.0", "")
    assert contents(dist) == {"Foreword-0.1.0.dmg": "usual"}


def test_the_parts_of_the_app_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {
        "Contents/MacOS/Foreword": 10,
        "Contents/Frameworks/Python.framework/Versions/3.13/Python": 500,
        "Contents/Resources/app/app/main.py": 20,
        "Contents/Resources/app/app/__pycache__/main.cpython-313.pyc": 30,
        "Contents/Resources/app_packages/mlx/lib/libmlx.dylib": 400,
        "Contents/Resources/app_packages/mlx-0.32.4.dist-info/WHEEL": 5,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    monkeypatch.setattr(make_app, "APP", tmp_path)
    assert make_app.parts() == {"Python": 500, "mlx": 405, "Foreword": 30, "bytecode": 30}


@pytest.mark.skipif(platform.system() == "Darwin", reason="a Mac builds it")
def test_elsewhere_than_on_a_mac_it_says_so() -> None:
    for command in ([sys.executable, "packaging/make_app.py"], ["make", "app"]):
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode != 0
        assert "can only be built on a Mac with Apple silicon" in ran.stderr
