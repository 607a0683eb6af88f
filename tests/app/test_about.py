"""About names this copy and everything it is made with; a build is refused where a licence is not known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app import about, licences
from app.licences import Part
from app.views.about import AboutWindow
from app.views.controls import Label
from tests.app.house import House

ROOT = Path(__file__).parents[2]


def package(folder: Path, name: str, metadata: str = "", **texts: str) -> None:
    """Put the metadata of a package into `folder`, with these files of its own."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}")
    for file, text in texts.items():
        (info / file).write_text(text)
    (info / "RECORD").write_text("".join(f"{info.name}/{file.name},,\n" for file in info.iterdir()))


def build(packages: Path, to: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "packaging" / "licences.py"), str(packages), str(to)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_build_writes_what_its_packages_say_of_themselves(tmp_path: Path) -> None:
    package(tmp_path / "in", "a-lib", "License-Expression: BSD-3-Clause\nLicense: old words\n", LICENSE="by A, freely")
    package(tmp_path / "in", "b-lib", "Classifier: License :: OSI Approved :: Apache Software License\n")
    package(tmp_path / "in", "c-lib", "License: MIT\nAuthor: C. Writer\n")
    ended = build(tmp_path / "in", tmp_path / "licences.json")
    assert ended.returncode == 0, ended.stdout
    written = {each["name"]: Part(**each) for each in json.loads((tmp_path / "licences.json").read_text())}
    assert written["a-lib"] == Part("a-lib", "1.0", "BSD-3-Clause", "by A, freely")
    assert written["b-lib"].licence == "Apache Software License"
    assert "Apache License" in written["b-lib"].text
    assert written["c-lib"].text.startswith("Copyright (c) C. Writer\n\nPermission is hereby granted")
    assert {"Foreword", "Python", "Guide"} <= set(written)


def test_a_build_is_refused_where_a_licence_is_not_known(tmp_path: Path) -> None:
    package(tmp_path / "in", "nameless", LICENSE="some words")
    package(tmp_path / "in", "wordless", "License: BSD\n")
    ended = build(tmp_path / "in", tmp_path / "licences.json")
    assert ended.returncode == 1
    assert "not known: nameless, wordless" in ended.stdout


def test_everything_that_is_installed_here_has_a_licence_and_its_text() -> None:
    found = licences.collected()
    assert licences.missing(found) == []
    named = {part.name: part for part in found}
    assert {"mlx", "PySide6_Essentials", "Qt", "STIX Two Math", "DejaVu Sans", "Python", "Guide"} <= set(named)
    qt = named["Qt"]
    assert qt.licence == "LGPL-3.0-only"
    for words in ("put a version that you changed in their place", "GNU LESSER GENERAL PUBLIC LICENSE", "code.qt.io"):
        assert words in qt.text
    assert "GNU GENERAL PUBLIC LICENSE" in named["shiboken6"].text


def test_what_a_build_wrote_is_shown_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = [Part("Only", "2.0", "MIT", "words")]
    licences.write(written, tmp_path / "licences.json")
    monkeypatch.setattr(licences, "WRITTEN", tmp_path / "licences.json")
    assert licences.parts() == written


@pytest.mark.parametrize(
    ("tag", "oldest", "words"),
    [
        ("py3-none-macosx_14_0_arm64", (14, 0), "for macOS 14, without M5’s neural accelerators"),
        ("py3-none-macosx_26_0_arm64", (26, 0), "for macOS 26, with M5’s neural accelerators"),
        ("cp311-cp311-manylinux_2_35_x86_64", None, "for the processor"),
    ],
)
def test_the_kernels_are_known_from_the_wheel(tag: str, oldest: tuple[int, int] | None, words: str) -> None:
    wheel = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n"
    assert about.kernels_macos(wheel) == oldest
    assert words in about.kernels(wheel)


def test_the_window_names_version_chip_and_licences(house: House) -> None:
    house.window.menus["about"].trigger()
    shown = house.window.findChild(AboutWindow)
    assert shown is not None
    words = [label.text() for label in shown.findChildren(Label)]
    assert f"Version {about.own_version()}" in words
    assert "Intel Xeon" in words
    assert shown.text.toPlainText().startswith("Foreword")
    shown.list.setCurrentRow([part.name for part in shown.parts].index("mlx"))
    assert "Apple Inc." in shown.text.toPlainText()
    house.window.menus["about"].trigger()
    assert len(house.window.findChildren(AboutWindow)) == 1
