"""The whole app: real window, real worker, real model.

A constructed model always runs; Guide too, where it is in the box. The first never ends a reply by itself, so every
message to it has a limit.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.bridge import Bridge, State
from app.main import build as build_window
from app.main import make_worker
from app.settings import Settings
from app.views.notice import FailureCard
from app.views.reply import ReplyView
from app.views.window import Window
from engine.decode.round import Decoder, Launched
from engine.decode.verify import Verdict
from engine.types import MtpWish, Reply
from tests.app.house import EARLIER
from tests.checkpoints import build as build_model

GUIDE_IS_HERE = (Path(__file__).parents[2] / "resources" / "models" / "guide" / "config.json").exists()
PATIENCE_MS = 60_000
ROOT = Path(__file__).parents[2]

needs_guide = pytest.mark.skipif(not GUIDE_IS_HERE, reason="Guide is not in the box")


@pytest.fixture(scope="module")
def constructed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("models") / "small", seed=0)


class Home:
    """The app with one model, from the first paint to the last event."""

    def __init__(self, settings: Settings) -> None:
        self.loaded: list[object] = []
        self.bridge = Bridge(make_worker)
        self.bridge.loaded.connect(self.loaded.append)
        self.window: Window = build_window(settings, self.bridge)
        self.window.resize(1280, 840)
        self.session = self.window.session
        self.drawn = True
        self.bridge.ticked.connect(self._note_drawn)
        self.window.show()

    def _note_drawn(self) -> None:
        self.drawn = not self.session.replies.busy

    def ask(self, qtbot: QtBot, text: str) -> None:
        self.drawn = False
        field = self.window.chat.composer.input
        qtbot.keyClicks(field, text)
        qtbot.keyClick(field, Qt.Key.Key_Return)

    @property
    def reply(self) -> ReplyView:
        return [turn for turn in self.window.chat.transcript.turns if isinstance(turn, ReplyView)][-1]

    def idle(self) -> bool:
        """Nothing is under way, and a tick has drawn it."""
        return self.bridge.state == State.IDLE and not self.session.replies.busy and self.drawn

    def measured(self) -> Reply:
        answer = self.session.current.turns[-1].latest
        assert answer is not None
        assert answer.error is None, answer.error
        assert answer.reply is not None
        return answer.reply


@pytest.fixture(scope="module")
def home(qapp: QApplication, constructed: Path) -> Iterator[Home]:
    home = Home(Settings(last_model=str(constructed), recent_models=[EARLIER]))
    yield home
    home.window.close()


@pytest.fixture
def chat(home: Home, qtbot: QtBot) -> Home:
    """The app, idle, in a new chat whose replies have a limit and a pinned seed."""
    qtbot.waitUntil(lambda: home.session.model.info is not None and home.idle(), timeout=PATIENCE_MS)
    home.window.new_chat()
    home.session.current.max_tokens = 60
    home.session.current.seed = 5
    home.session.model.set_wish(MtpWish())
    return home


def test_type_return_and_the_reply_grows(chat: Home, qtbot: QtBot) -> None:
    chat.session.current.max_tokens = 200
    lengths: list[int] = []
    chat.session.replies.text_added.connect(lambda *_: lengths.append(len(chat.reply.source())))
    chat.ask(qtbot, "neji toro")
    qtbot.waitUntil(lambda: chat.session.replies.busy, timeout=PATIENCE_MS)
    qtbot.waitUntil(chat.idle, timeout=PATIENCE_MS)
    assert len(set(lengths)) >= 3, "the reply grew in steps"
    assert lengths == sorted(lengths)
    assert chat.reply.source() == chat.measured().text
    assert not chat.reply.writing


def test_the_plots_receive_points_and_the_panel_numbers(chat: Home, qtbot: QtBot) -> None:
    speed = chat.window.inspector.speed
    chat.session.model.set_wish(MtpWish("on", 2))
    chat.session.current.max_tokens = 400
    chat.ask(qtbot, "neji toro")
    qtbot.waitUntil(chat.idle, timeout=PATIENCE_MS)
    assert speed.speed_plot.plot is not None
    assert speed.speed_plot.plot.points("mtp") > 1
    assert speed.acceptance_plot.plot.points("mtp") > 1
    counted = chat.measured().stats
    assert speed.tokens_per_round.value.text() == f"{counted.tokens_per_round:.2f}"
    assert speed.drafts[0].isVisible()
    assert chat.window.header.chip.text.startswith(f"{counted.tokens_per_second:.0f} tok/s")


def test_what_came_from_accepted_drafts_is_known_to_the_character(chat: Home, qtbot: QtBot) -> None:
    chat.session.model.set_wish(MtpWish("on", 2))
    chat.session.current.max_tokens = 200
    lengths: list[int] = []
    chat.bridge.tokens.connect(lambda _, ids, each: lengths.extend(each))
    chat.ask(qtbot, "neji toro")
    qtbot.waitUntil(chat.idle, timeout=PATIENCE_MS)
    answer = chat.session.current.turns[-1].latest
    assert answer is not None
    stats = chat.measured().stats
    assert len(lengths) == stats.tokens
    assert sum(lengths) <= len(answer.text)
    drafted = sum(end - start for start, end in answer.drafted)
    assert (drafted > 0) == (stats.accepted > 0)
    assert drafted <= sum(sorted(lengths)[len(lengths) - stats.accepted :])


def test_stop_ends_the_reply_and_the_next_message_works(chat: Home, qtbot: QtBot) -> None:
    chat.session.current.max_tokens = None
    chat.ask(qtbot, "neji toro")
    qtbot.waitUntil(lambda: chat.bridge.state == State.WRITING, timeout=PATIENCE_MS)
    qtbot.mouseClick(chat.window.chat.composer.stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(chat.idle, timeout=PATIENCE_MS)
    stopped = chat.measured()
    assert stopped.finish_reason == "cancelled"
    assert chat.reply.source() == stopped.text != ""

    chat.session.current.max_tokens = 20
    chat.ask(qtbot, "and more")
    qtbot.waitUntil(chat.idle, timeout=PATIENCE_MS)
    following = chat.measured()
    assert following.finish_reason == "length"
    assert following.reused_tokens > 0, "the second turn goes on from the first"


def test_a_fault_of_the_engine_in_mid_reply_is_a_card_and_the_next_message_is_answered(
    chat: Home, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.ask(qtbot, "neji toro")
    qtbot.waitUntil(chat.idle, timeout=PATIENCE_MS)
    first, worker, loads = chat.measured(), chat.bridge.worker, len(chat.loaded)

    rounds, read = 0, Decoder.read

    def read_until_it_breaks(decoder: Decoder, running: Launched) -> list[Verdict]:
        nonlocal rounds
        rounds += 1
        if rounds > 8:
            raise RuntimeError("the kernel could not be run")
        return read(decoder, running)

    with monkeypatch.context() as faulty:
        faulty.setattr(Decoder, "read", read_until_it_breaks)
        chat.ask(qtbot, "and more")
        qtbot.waitUntil(chat.idle, timeout=PATIENCE_MS)
    broken = chat.session.current.turns[-1].latest
    assert broken is not None
    assert (broken.outcome, broken.error and broken.error.code) == ("failed", "internal")
    assert chat.reply.source() == broken.text != "", "what was written until then is kept"
    card = chat.reply.findChild(FailureCard)
    assert card is not None
    assert "Your chat is kept." in card.accessibleName()
    assert card.button is not None
    assert card.button.text() == "Try again"
    assert chat.session.current.turns[0].question == "neji toro"
    before = chat.session.current.turns[0].latest
    assert before is not None
    assert before.text == first.text

    chat.ask(qtbot, "go on")
    qtbot.waitUntil(chat.idle, timeout=PATIENCE_MS)
    assert chat.measured().finish_reason == "length"
    assert len(chat.session.current.turns) == 3
    assert (chat.bridge.worker, len(chat.loaded)) == (worker, loads), "nothing was started or loaded again"


def test_the_override_switches_mtp_without_loading_again_and_changes_no_word(chat: Home, qtbot: QtBot) -> None:
    loads = len(chat.loaded)
    texts = {}
    for override in ("on", "off", "auto"):
        chat.session.model.set_wish(MtpWish(override))  # type: ignore[arg-type]
        chat.window.new_chat()
        chat.session.current.max_tokens, chat.session.current.seed = 60, 5
        chat.ask(qtbot, "neji toro")
        qtbot.waitUntil(chat.idle, timeout=PATIENCE_MS)
        reply = chat.measured()
        assert reply.decision.mode == ("plain" if override == "off" else "mtp")
        if override != "auto":  # which drafts where it pays, and on a processor that is nowhere
            assert (reply.stats.drafted == 0) == (override == "off")
        texts[override] = reply.text
    assert len(chat.loaded) == loads
    assert texts["on"] == texts["off"] == texts["auto"] != ""


def test_the_speed_up_appears_once_both_ways_were_timed(chat: Home, qtbot: QtBot) -> None:
    for override in ("off", "on"):
        chat.session.model.set_wish(MtpWish(override))  # type: ignore[arg-type]
        chat.ask(qtbot, "neji toro")
        qtbot.waitUntil(chat.idle, timeout=PATIENCE_MS)
    figure = chat.window.inspector.speed.figure
    found = chat.session.model.speed.comparison(chat.session.current.id)
    assert {0} < {timings.drafts for timings in found.timings}
    if found.unsteady:  # something else keeps this computer busy
        assert figure.heading.text() == "Speed with MTP"
    else:
        assert figure.heading.text() == "Net speed-up"
        assert figure.number.text() == f"{found.speed_up:.2f}"


@needs_guide
def test_guide_answers_a_prompt_of_the_empty_page(qtbot: QtBot) -> None:
    home = Home(Settings(last_model="guide", recent_models=[EARLIER]))
    try:
        qtbot.waitUntil(lambda: home.session.model.info is not None, timeout=PATIENCE_MS)
        qtbot.mouseClick(home.window.chat.empty.buttons[0], Qt.MouseButton.LeftButton)
        qtbot.waitUntil(home.idle, timeout=PATIENCE_MS)
        assert home.measured().finish_reason == "stop"
        assert len(home.reply.source()) > 20
        assert home.window.inspector.speed.speed_plot.plot.points("mtp") >= 1
    finally:
        home.window.close()


def test_w02_the_event_loop_turns_and_the_process_ends_cleanly(constructed: Path, tmp_path: Path) -> None:
    """A whole run in its own process: start, load, a reply, close.

    The bounds are on the processor time that the window's thread spends in one turn of its event loop. Wall time on
    a shared machine measures the neighbours. What it cannot see is waiting for the other thread's lock.
    """
    run = subprocess.run(
        [sys.executable, "-m", "tests.app.heartbeat", str(constructed)],
        cwd=ROOT,
        env={**os.environ, "FOREWORD_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    turns = json.loads(run.stdout.splitlines()[-1])
    print(turns)
    assert turns["mlx on the window's thread"] is False
    assert turns["outcome"] == "done"
    assert turns["before"]["over 100 ms"] <= 1
    assert turns["after"]["turns"] > 100
    assert turns["after"]["p99 ms"] <= 16.0
