"""A short life of the window with several chats at once; `tests.app.life` leads longer ones."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from tests import checkpoints
from tests.app.life import live


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.build(tmp_path_factory.mktemp("life") / "model", seed=0)


def test_sp01_the_disk_has_what_was_shown_and_each_reply_is_what_it_is_alone(qapp: QApplication, model: Path) -> None:
    life = live(model, seed=1, steps=24, compared=5)
    assert life.most > 1
    assert life.asked
