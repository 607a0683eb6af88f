"""`foreword models search` and `show`, against a hub on this computer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli import main
from engine.sizes import count_words
from tests.checkpoints import build
from tests.engine.folders import write_folder
from tests.hub import Answer, Hub


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.endpoint)
        yield served


def test_show_says_what_a_model_would_be_here_part_by_part(
    tmp_path: Path, served: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    served.add("somebody/tiny", build(tmp_path / "m"))
    assert main(["models", "show", "somebody/tiny"]) == 0
    shown = capsys.readouterr().out
    rows = [line.split("  ")[0].strip() or line.split()[0] for line in shown.splitlines()]
    assert rows[:5] == ["Model", "Parameters", "Made for", "On disk", "Fit"]
    assert "Fits well" in shown
    assert "MTP ready. On: " in shown


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (183_000, "183,000"),
        (2_860_000, "2.86 million"),
        (999_990_000, "1 billion"),
        (1_026_000_000_000, "1.03 trillion"),
    ],
)
def test_the_weights_of_a_model_are_counted_in_words_that_suit_them(count: int, words: str) -> None:
    assert count_words(count) == words


def test_show_as_json_gives_every_number_and_the_receipt(
    tmp_path: Path, served: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = served.add("somebody/tiny", build(tmp_path / "m"))
    assert main(["models", "show", f"{served.endpoint}/somebody/tiny", "--json", "--context", "1024"]) == 0
    found = json.loads(capsys.readouterr().out)
    memory = found["memory"]
    assert (found["repo"], found["commit"], found["fit"]) == ("somebody/tiny", commit, "well")
    parts = ("weights", "kv", "recurrent", "head", "draft", "working")
    assert memory["total"] == sum(memory[part] for part in parts)
    assert found["mtp"]["kind"] == "ready"
    assert found["receipt"]["resolved"]["mode"] == "mtp"
    assert found["error"] is None


def test_show_leaves_with_one_where_a_model_cannot_be_used(
    tmp_path: Path, served: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    served.add("somebody/unknown", write_folder(tmp_path / "m", model_type="nothing-like-it"))
    assert main(["models", "show", "somebody/unknown"]) == 1
    assert "does not know models of the kind" in capsys.readouterr().err
    assert main(["models", "show", "somebody/unknown", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "unsupported_model"
    assert main(["models", "show", "somebody/none", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not_found"
    assert main(["models", "show", "nothing"]) == 1
    assert "owner/name" in capsys.readouterr().err


def test_search_lists_models_for_mlx(served: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(31):
        served.add(f"somebody/qwen-{number}", {"config.json": b"{}"}, downloads=number)
    assert main(["models", "search", "qwen"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 30
    assert printed.out.startswith("somebody/qwen-30 ")
    assert "--pages 2" in printed.err
    assert main(["models", "search", "qwen", "--pages", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["models"]) == 31
    assert found["more"] is False


def test_search_that_finds_nothing_or_nobody_leaves_with_one(served: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "search", "nothing"]) == 1
    served.misbehave("", Answer(503), stage="search")
    assert main(["models", "search", "nothing", "--json"]) == 1
    assert "error" in capsys.readouterr().out


def test_search_without_words_suggests_and_asks_nobody(served: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    main(["models", "search", "--json"])
    found = json.loads(capsys.readouterr().out)["suggestions"]
    assert all(each["why"] for each in found)
    assert not served.requests
