"""`foreword models list`, `pull`, `verify` and `remove`, against a hub on this computer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli import main
from engine.downloads_cli import pace_words
from engine.types import Download, ErrorReport
from tests.checkpoints import build
from tests.hub import Answer, Drop, Hub

REPO = "somebody/tiny"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("made") / "tiny", shards=2)


@pytest.fixture
def hub(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        hub.add(REPO, made)
        yield hub


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["models", *words]) == code
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, object]:
    found: dict[str, object] = json.loads(run(capsys, *words, "--json", code=code))
    return found


def test_a_model_is_pulled_listed_verified_and_removed(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(capsys, "pull", REPO).strip()
    assert (Path(folder) / "config.json").is_file()
    assert f"{REPO}  installed" in run(capsys, "list")
    assert "files are as the hub has them" in run(capsys, "verify", REPO)
    assert "free again" in run(capsys, "remove", REPO, "--yes")
    assert REPO not in run(capsys, "list")


def test_an_address_with_a_version_pulls_that_version(hub: Hub, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = as_json(capsys, "pull", REPO)["commit"]
    hub.add(REPO, {"config.json": b"{}"})
    found = as_json(capsys, "pull", f"{hub.endpoint}/{REPO}/tree/{old}")
    assert (found["commit"], found["state"]) == (old, "done")


def test_json_gives_every_figure(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "pull", REPO)
    assert found["have"] == found["total"] > 0  # type: ignore[operator]
    assert found["error"] is None
    listed = as_json(capsys, "list")
    assert [model["name"] for model in listed["models"]] == ["guide", REPO]  # type: ignore[attr-defined]
    checked = as_json(capsys, "verify", REPO)
    assert checked["good"] is True
    assert as_json(capsys, "remove", REPO, "--yes")["freed"] == listed["models"][1]["size"]  # type: ignore[index]


def test_a_pull_that_fails_leaves_with_one_says_why_and_goes_on_next_time(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.misbehave("model-00002-of-00002.safetensors", Answer(403))
    assert main(["models", "pull", REPO]) == 1
    said = capsys.readouterr().err
    assert "What was downloaded so far is kept." in said
    assert "partial" in run(capsys, "list")
    run(capsys, "verify", REPO, code=1)
    run(capsys, "pull", REPO)
    assert len(hub.bodies("model-00001-of-00002.safetensors")) <= 2
    assert "installed" in run(capsys, "list")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["pull", "somebody/unknown"], "not_found"),
        (["verify", "nowhere"], "model_missing"),
        (["pull", "x"], "not_a_repo"),
    ],
)
def test_errors_come_as_json_where_json_was_asked_for(
    hub: Hub, capsys: pytest.CaptureFixture[str], words: list[str], code: str
) -> None:
    error = as_json(capsys, *words, code=1)["error"]
    assert error["code"] == code  # type: ignore[index]
    assert error["what"]  # type: ignore[index]


def test_removing_asks_and_without_an_answer_deletes_nothing(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "pull", REPO)
    assert main(["models", "remove", REPO]) == 1
    assert "--yes" in capsys.readouterr().err
    assert "installed" in run(capsys, "list")


def test_what_cannot_be_deleted_is_refused_before_anybody_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "remove", "guide"]) == 1
    assert capsys.readouterr().err == "The Guide is part of Foreword and cannot be deleted alone.\n"


def test_updates_are_told_of(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "pull", REPO)
    assert "newer version" not in run(capsys, "list", "--updates")
    hub.add(REPO, {"config.json": b"{}"})
    assert f"newer version: foreword models pull {REPO}" in run(capsys, "list", "--updates")


def test_elsewhere_than_on_a_terminal_each_change_is_a_line(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.misbehave("model-00001-of-00002.safetensors", Drop(after=1000))
    main(["models", "pull", REPO])
    assert capsys.readouterr().err.splitlines()[-1] == f"{REPO}: done"


def test_a_bar_says_the_rate_and_the_time_left_or_what_it_waits_for() -> None:
    coming = Download("a/b@main", "a/b", "main", "fetching", have=10, total=100, rate=1_500_000.0, seconds_left=125.0)
    assert pace_words(coming) == "1.5 MB/s, 3 min left"
    waiting = Download("a/b@main", "a/b", "main", "waiting", error=ErrorReport("timeout", "The hub does not answer."))
    assert pace_words(waiting) == "waiting: The hub does not answer."


def test_a_model_that_came_over_a_bad_line_answers_and_reads_ahead(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.misbehave("model-00002-of-00002.safetensors", Drop(after=100_000), times=3)
    run(capsys, "pull", REPO)
    assert len(hub.bodies("model-00002-of-00002.safetensors")) == 4
    options = ["--max-tokens", "24", "--mtp", "on", "--depth", "2", "--json"]
    assert main(["generate", REPO, "--prompt", "Hello", *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["receipt"]["resolved"]["mode"] == "mtp"
    assert answer["accepted"] > 0
