"""What `foreword` opens: a command, the window, or the chat in the terminal."""

import io
import sys
import types

import pytest

from app import preflight
from app.__main__ import main


@pytest.fixture
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for variable in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("no_display")
def test_without_a_display_the_chat_is_in_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["foreword"])
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main() == 0
    assert capsys.readouterr().err.splitlines() == [
        "There is no display for the window, so here is the chat in the terminal."
    ]


def test_with_a_display_the_window_opens_and_its_code_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    window = types.ModuleType("app.main")
    window.main = lambda: 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "app.main", window)
    monkeypatch.setenv("DISPLAY", ":0")
    for arguments in ([], ["-psn_0_12345"]):  # the second is what older systems say to an app that they open
        monkeypatch.setattr(sys, "argv", ["foreword", *arguments])
        assert main() == 3


@pytest.mark.usefixtures("no_display")
def test_a_command_needs_no_display(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["foreword", "--version"])
    with pytest.raises(SystemExit) as leaves:
        main()
    assert leaves.value.code == 0
    assert capsys.readouterr().out.startswith("foreword ")


def test_ctrl_c_while_it_is_still_importing_ends_it_without_a_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(preflight, "refuse", interrupted)
    assert main() == 130
    assert capsys.readouterr() == ("", "")
