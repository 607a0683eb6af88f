"""What a model is called in the window, before it is loaded and after it is gone."""

import pytest

from app.chats.chat import Answer, Chat
from app.chats.exchange import markdown
from app.model_names import model_name
from tests.app.house import House

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CACHED = f"/home/somebody/hub/models--maker--Tiny-4bit/snapshots/{COMMIT}"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("guide", "Guide"),
        ("/Applications/Foreword.app/Contents/Resources/models/guide", "Guide"),
        ("/home/somebody/models/Tiny-4bit", "Tiny-4bit"),
        ("/home/somebody/models--mine/Tiny-4bit", "Tiny-4bit"),
        (CACHED, "Tiny-4bit"),
        ("", ""),
    ],
)
def test_a_model_has_the_name_of_its_repo_or_of_its_folder(path: str, name: str) -> None:
    assert model_name(path) == name


def test_a_model_of_the_cache_goes_by_its_name_wherever_it_is_named(house: House) -> None:
    house.session.use_model(CACHED)
    assert house.session.model.title == "Tiny-4bit"
    chat = Chat()
    chat.ask("q").add(Answer(text="a", outcome="done", model=CACHED))
    assert "## Tiny-4bit\n\na" in markdown(chat)
