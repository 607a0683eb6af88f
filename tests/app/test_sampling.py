"""The Sampling tab."""

import pytest
from PySide6.QtCore import QLocale, Qt
from pytestqt.qtbot import QtBot

from app.bridge import Bridge
from app.session import Session
from app.settings import Settings
from app.views.number_field import NumberField, NumberRow
from app.views.room import MEMORY
from app.views.sampling import MAX_TOKENS, SAMPLING, SEED, SamplingPanel
from engine.types import ErrorReport, SamplingChoice
from tests.app.house import House
from tests.app.scripted_worker import ScriptedWorker, model_info

BY_NAME = {quantity.name: quantity for quantity in (*SAMPLING, SEED, MAX_TOKENS)}


@pytest.fixture
def worker() -> ScriptedWorker:
    return ScriptedWorker()


@pytest.fixture
def session(qtbot: QtBot, worker: ScriptedWorker) -> Session:
    bridge = Bridge(lambda: worker)
    session = Session(bridge, Settings())
    session.use_model("guide")
    worker.get_ready(model_info())
    bridge.tick()
    return session


@pytest.fixture
def panel(qtbot: QtBot, session: Session) -> SamplingPanel:
    panel = SamplingPanel(session)
    qtbot.addWidget(panel)
    panel.show()
    return panel


def enter(qtbot: QtBot, field: NumberField, text: str) -> None:
    field.setText(text)
    qtbot.keyClick(field, Qt.Key.Key_Return)


@pytest.mark.parametrize("typed", ["0.95", "0,95"])
def test_se04_point_and_comma_are_both_decimal(
    qtbot: QtBot, panel: SamplingPanel, session: Session, typed: str
) -> None:
    before = QLocale()
    QLocale.setDefault(QLocale(QLocale.Language.German))
    try:
        enter(qtbot, panel.fields["top_p"], typed)
        assert session.current.sampling.top_p == 0.95
        assert panel.fields["top_p"].text() == "0.95"
    finally:
        QLocale.setDefault(before)


@pytest.mark.parametrize(
    ("name", "typed", "kept"),
    [
        ("temperature", "-1", 0.0),
        ("temperature", "1e9", 5.0),
        ("top_k", "1.5", 1),
        ("top_k", "-3", 0),
        ("top_p", "0", 0.01),
        ("top_p", "7", 1.0),
        ("min_p", "1.2", 1.0),
        ("repetition_penalty", "0.5", 1.0),
        ("presence_penalty", "-9", -2.0),
        ("frequency_penalty", "3", 2.0),
        ("seed", "18446744073709551615", 2**64 - 1),
        ("max_tokens", "0", 1),
    ],
)
def test_s07_a_value_out_of_range_is_brought_into_it(name: str, typed: str, kept: float) -> None:
    assert BY_NAME[name].read(typed) == kept


@pytest.mark.parametrize("typed", ["", "  ", "abc", "nan", "0.5.5", "1;2"])
def test_what_is_no_number_is_no_value(typed: str) -> None:
    assert BY_NAME["top_p"].read(typed) is None


def test_an_infinite_number_is_brought_into_range() -> None:
    assert BY_NAME["temperature"].read("inf") == 5.0
    assert BY_NAME["top_k"].read("inf") == 1_000_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("top_k", 0), ("top_p", 1.0), ("min_p", 0.0), ("repetition_penalty", 1.0)),
        *(("presence_penalty", 0.0), ("frequency_penalty", 0.0)),
    ],
)
def test_s09_the_neutral_value_reads_off(
    qtbot: QtBot, panel: SamplingPanel, session: Session, name: str, value: float
) -> None:
    enter(qtbot, panel.fields[name], str(value))
    assert panel.fields[name].text() == "off"
    assert getattr(session.current.sampling, name) == value
    enter(qtbot, panel.fields[name], "Off")
    assert getattr(session.current.sampling, name) == value


def test_s08_an_empty_field_says_what_the_model_recommends(panel: SamplingPanel) -> None:
    assert panel.fields["temperature"].text() == ""
    assert panel.fields["temperature"].placeholderText() == "0.7 from the model"
    assert panel.fields["top_k"].placeholderText() == "off"


def test_s08_the_longest_recommendation_fits_its_field(panel: SamplingPanel) -> None:
    field = panel.fields["repetition_penalty"]
    words = field.fontMetrics().horizontalAdvance("1.05 from the model")
    assert words <= field.width() - 2 * 8 - 4, "8 px of padding on both sides, and the line edit's own 2"


def test_s08_what_was_set_wins_and_the_rest_is_left_to_the_model(
    qtbot: QtBot, panel: SamplingPanel, session: Session, worker: ScriptedWorker
) -> None:
    enter(qtbot, panel.fields["temperature"], "0.2")
    enter(qtbot, panel.fields["max_tokens"], "64")
    session.send("hello")
    request = worker.requests[-1]
    assert request.sampling == SamplingChoice(temperature=0.2)
    assert request.max_tokens == 64
    assert request.seed is None


def test_s06_a_pinned_seed_goes_with_every_message(
    qtbot: QtBot, panel: SamplingPanel, session: Session, worker: ScriptedWorker
) -> None:
    enter(qtbot, panel.fields["seed"], "42")
    session.send("hello")
    assert worker.requests[-1].seed == 42


def test_emptying_a_field_gives_it_back_to_the_model(qtbot: QtBot, panel: SamplingPanel, session: Session) -> None:
    enter(qtbot, panel.fields["temperature"], "0.2")
    enter(qtbot, panel.fields["temperature"], "")
    assert session.current.sampling.temperature is None


def test_nonsense_leaves_the_value_that_was_there(qtbot: QtBot, panel: SamplingPanel, session: Session) -> None:
    enter(qtbot, panel.fields["temperature"], "0.2")
    enter(qtbot, panel.fields["temperature"], "warm")
    assert panel.fields["temperature"].text() == "0.2"
    assert session.current.sampling.temperature == 0.2


@pytest.mark.parametrize(
    ("name", "typed", "says"),
    [
        ("temperature", "99", "Temperature goes from 0 to 5, so it is now 5."),
        ("temperature", "-1", "Temperature goes from 0 to 5, so it is now 0."),
        ("top_k", "20.5", "Top-k is a whole number, so it is now 20."),
        ("temperature", "warm", "“warm” is not a number, so nothing was changed."),
        ("temperature", "0,7", ""),
        ("top_p", "off", ""),
        ("seed", "18446744073709551615", ""),
        ("temperature", "", ""),
    ],
)
def test_a_number_that_is_not_taken_as_it_was_typed_is_said_beneath_it(
    qtbot: QtBot, panel: SamplingPanel, name: str, typed: str, says: str
) -> None:
    field = panel.fields[name]
    enter(qtbot, field, typed)
    line = field.parentWidget()
    assert isinstance(line, NumberRow)
    assert line.objection.accessibleName() == says
    assert line.objection.isVisible() == bool(says)
    panel.setFocus()  # to leave the field is no new answer
    assert line.objection.isVisible() == bool(says)
    qtbot.keyClicks(field, "1")
    assert not line.objection.isVisible()


def test_a_number_is_spoken_of_without_its_unit() -> None:
    assert MEMORY.objection("5000") == "Chat memory goes from 0 to 1000, so it is now 1000."


def test_what_a_number_was_in_one_chat_is_not_said_in_another(
    qtbot: QtBot, panel: SamplingPanel, session: Session
) -> None:
    session.send("hello")
    enter(qtbot, panel.fields["temperature"], "99")
    assert session.current.sampling.temperature == 5
    session.new_chat()
    line = panel.fields["temperature"].parentWidget()
    assert isinstance(line, NumberRow)
    assert not line.objection.isVisible()


def test_each_chat_has_its_own_settings(qtbot: QtBot, panel: SamplingPanel, session: Session) -> None:
    first = session.current
    enter(qtbot, panel.fields["temperature"], "0.2")
    session.send("hello")
    session.new_chat()
    assert panel.fields["temperature"].text() == ""
    session.show_chat(first)
    assert panel.fields["temperature"].text() == "0.2"


def test_one_button_gives_everything_back(qtbot: QtBot, panel: SamplingPanel, session: Session) -> None:
    assert not panel.reset.isEnabled()
    enter(qtbot, panel.fields["top_k"], "20")
    enter(qtbot, panel.fields["seed"], "1")
    assert panel.reset.isEnabled()
    panel.reset.click()
    assert session.current.sampling == SamplingChoice()
    assert session.current.seed is None
    assert not panel.reset.isEnabled()


def test_se01_the_nearer_setting_wins_and_the_form_says_whose_it_is(
    qtbot: QtBot, panel: SamplingPanel, session: Session, worker: ScriptedWorker
) -> None:
    field = panel.fields["temperature"]
    for level, value in (("all", "0.9"), ("model", "0.5"), ("chat", "0.1")):
        panel.level.button(level).click()
        enter(qtbot, field, value)
    panel.level.button("chat").click()
    assert session.model.sampling(session.current.sampling).temperature == 0.1
    enter(qtbot, field, "")
    assert field.placeholderText() == "0.5 for this model"
    assert session.model.sampling(session.current.sampling).temperature == 0.5
    panel.level.button("model").click()
    panel.reset.click()
    assert field.placeholderText() == "0.9 for all chats"
    panel.level.button("all").click()
    assert field.text() == "0.9"
    enter(qtbot, field, "")
    assert field.placeholderText() == "0.7 from the model"
    panel.level.button("model").click()
    enter(qtbot, field, "0.3")
    session.send("hello")
    assert worker.requests[-1].sampling == SamplingChoice(temperature=0.3)


def test_se01_what_is_set_for_one_model_is_not_set_for_another(
    qtbot: QtBot, panel: SamplingPanel, session: Session, worker: ScriptedWorker
) -> None:
    panel.level.button("model").click()
    enter(qtbot, panel.fields["top_k"], "40")
    session.use_model("/models/other")
    worker.get_ready(model_info("Other", "/models/other"))
    session.bridge.tick()
    assert panel.fields["top_k"].text() == ""
    session.send("hello")
    assert worker.requests[-1].sampling == SamplingChoice()


def test_whose_a_value_is_fits_its_field(panel: SamplingPanel) -> None:
    field = panel.fields["repetition_penalty"]
    for words in ("1.05 for this model", "1.05 for all chats"):
        assert field.fontMetrics().horizontalAdvance(words) <= field.width() - 2 * 8 - 4


# ---------------------------------------------------------------- typed and not finished


def typing(qtbot: QtBot) -> tuple[House, NumberField]:
    """A window with a temperature that was typed, and the cursor still behind it."""
    house = House(qtbot)
    house.load()
    house.exchange("Hello", "Yes")
    house.window.inspector.show_tab(1)
    panel = house.window.findChild(SamplingPanel)
    assert panel is not None
    field = panel.fields["temperature"]
    house.window.activateWindow()
    qtbot.waitUntil(house.window.isActiveWindow)
    field.setFocus()
    qtbot.keyClicks(field, "0.25")
    return house, field


def test_what_was_typed_counts_for_the_level_it_was_typed_at(qtbot: QtBot) -> None:
    house, field = typing(qtbot)
    panel = house.window.findChild(SamplingPanel)
    assert panel is not None
    qtbot.mouseClick(panel.level.button("model"), Qt.MouseButton.LeftButton)
    assert house.session.current.sampling.temperature == 0.25
    assert field.text() == ""


def test_what_was_typed_counts_for_the_message_that_is_sent_with_a_click(qtbot: QtBot) -> None:
    house, field = typing(qtbot)
    house.window.chat.composer.input.insertPlainText("And now?")
    qtbot.mouseClick(house.window.chat.composer.send, Qt.MouseButton.LeftButton)
    assert house.worker.subject.messages[-1].content == "And now?"
    assert house.worker.subject.sampling.temperature == 0.25
    assert field.text() == "0.25"


def test_what_is_typed_for_a_model_does_not_go_to_another_one(house: House) -> None:
    panel = house.window.inspector.sampling
    house.window.inspector.show_tab(1)
    panel.level.button("model").click()
    house.session.use_model("/no-model")
    fields = (panel.fields["temperature"], panel.room.limit)
    for field in fields:
        house.qtbot.keyClicks(field, "1")
    house.worker.refuse(ErrorReport("no_model", "There is none."))
    house.tick()
    assert house.session.model.path == "guide"
    assert [field.text() for field in fields] == ["", ""]


def test_what_was_typed_counts_for_what_is_done_with_a_key(qtbot: QtBot) -> None:
    house, field = typing(qtbot)
    house.window.menus["copy"].trigger()
    assert field.isModified(), "this belongs to the typing"
    house.window.menus["regenerate"].trigger()
    assert house.worker.subject.sampling.temperature == 0.25
