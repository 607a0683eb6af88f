"""Who cannot run the app is told so in plain words, before anything is imported that would fail; so is whoever runs it
from where it should not stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app import preflight
from app.preflight import Host, macos_version, misplaced, why_not
from app.views.notice import HintCard
from tests.app.house import House

ROOT = Path(__file__).parents[2]
M1 = Host("darwin", "arm64", (14, 4))


@pytest.mark.parametrize(
    "host", [M1, Host("darwin", "arm64", (26, 2)), Host("darwin", "arm64"), Host("linux", "x86_64")]
)
def test_p05_where_it_runs_nothing_is_said(host: Host) -> None:
    assert why_not(host) == ""


@pytest.mark.parametrize(
    ("host", "needs", "says"),
    [
        (Host("darwin", "x86_64", (14, 4)), (14, 0), "needs a Mac with Apple silicon"),
        (Host("darwin", "x86_64", (14, 4), translated=True), (14, 0), "turn off “Open using Rosetta”"),
        (Host("darwin", "arm64", (13, 6)), (14, 0), "needs macOS 14 or later, and this Mac has macOS 13.6"),
        (Host("darwin", "arm64", (15, 1)), (26, 2), "needs macOS 26.2 or later, and this Mac has macOS 15.1"),
        (Host("win32", "AMD64"), (14, 0), "runs on Macs with Apple silicon"),
    ],
)
def test_p05_where_it_cannot_run_it_says_why_and_what_to_do(host: Host, needs: tuple[int, int], says: str) -> None:
    assert says in why_not(host, needs)


def test_p02_kernels_for_a_newer_macos_are_refused_with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "metal_wheel", lambda: "Tag: py3-none-macosx_26_0_arm64\n")
    told: list[str] = []
    assert preflight.refuse(M1, told.append)
    assert "needs macOS 26 or later" in told[0]
    assert not preflight.refuse(Host("darwin", "arm64", (26, 0)), told.append)
    assert len(told) == 1


def test_versions_of_macos_are_read_as_it_tells_them() -> None:
    told = {"14.4.1": (14, 4), "26.2": (26, 2), "15": (15, 0), "10.16": None, "": None}
    assert {words: macos_version(words) for words in told} == told


def test_p05_the_entry_refuses_before_qt_or_mlx_are_imported() -> None:
    code = (
        "import sys\n"
        "from app import __main__ as entry, preflight\n"
        "preflight.this_host = lambda: preflight.Host('darwin', 'x86_64', (14, 4))\n"
        "sys.argv = ['foreword']\n"
        "code = entry.main()\n"
        "print(code, [name for name in ('PySide6', 'mlx', 'engine.cli') if name in sys.modules])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout == "1 []\n", run.stderr
    assert "needs a Mac with Apple silicon" in run.stderr


@pytest.mark.parametrize(
    ("executable", "says"),
    [
        ("/Applications/Foreword.app/Contents/MacOS/Foreword", ""),
        ("/Users/a/My Apps/Renamed.app/Contents/MacOS/Foreword", ""),
        ("/private/var/folders/x/T/AppTranslocation/5-A/d/Foreword.app/Contents/MacOS/Foreword", "into Applications"),
        ("/Volumes/Foreword/Foreword.app/Contents/MacOS/Foreword", "eject the disk image"),
    ],
)
def test_whoever_runs_it_from_a_passing_place_is_told_where_to_move_it(executable: str, says: str) -> None:
    told = misplaced(executable, lambda _: True)
    assert (told is not None and says in told[1]) if says else told is None


def test_an_app_on_a_disk_of_its_own_is_left_alone() -> None:
    assert misplaced("/Volumes/Work/Foreword.app/Contents/MacOS/Foreword", lambda _: False) is None


def test_the_window_tells_of_a_passing_place_on_a_card(house: House) -> None:
    told = misplaced("/private/var/AppTranslocation/x/Foreword.app")
    assert told is not None
    house.window.tell_of_place(*told)
    assert isinstance(house.cards[0], HintCard)
    assert "move Foreword into Applications" in house.cards[0].accessibleName()
    assert house.cards[0].button is not None
    house.cards[0].button.click()
    assert house.cards == []
