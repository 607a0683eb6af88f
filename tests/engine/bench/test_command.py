"""The standard edition: every case in a process of its own, under its regime, onto one page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.bench import command
from engine.bench.command import BANDWIDTH_BOUND, COMPUTE_BOUND, METAL, Regime, bench_edition, regimes
from engine.cli import _parser, main
from engine.errors import EngineError

TINY = "constructed:small:float32:0.78 --context 16 --depths 1 --cycles 1 --tokens 6"


def test_the_edition_is_a_page_and_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "regimes", lambda: [Regime("Some regime", {"OPENBLAS_NUM_THREADS": "1"}, (TINY,))])
    content = bench_edition(tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == content
    assert "## Some regime" in content
    assert f"`OPENBLAS_NUM_THREADS=1 foreword bench {TINY}`" in content
    assert command.machine()["chip"] in content
    assert content.count("```mermaid\nxychart-beta\n") == 1
    figures = json.loads((tmp_path / "page.json").read_text())
    (case,) = figures["cases"]
    assert case["regime"] == "Some regime"
    assert [arm["name"] for arm in case["arms"]] == ["plain", "K = 1", "Auto"]
    assert figures["machine"]["mlx"]


def test_a_case_that_fails_ends_the_edition_and_leaves_the_old_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.md").write_text("the last one")
    monkeypatch.setattr(command, "regimes", lambda: [Regime("Some regime", {}, ("guide --tokens 1",))])
    with pytest.raises(EngineError, match="guide --tokens 1"):
        bench_edition(tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == "the last one"


@pytest.mark.parametrize("case", [case for regime in (COMPUTE_BOUND, BANDWIDTH_BOUND, METAL) for case in regime.cases])
def test_the_command_of_every_case_is_one(case: str) -> None:
    assert _parser().parse_args(["bench", *case.split()]).model == case.split()[0]


def test_a_mac_has_one_regime_and_other_machines_two_where_openblas_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command.platform, "system", lambda: "Darwin")
    assert regimes() == [METAL]
    monkeypatch.setattr(command.platform, "system", lambda: "Linux")
    monkeypatch.setattr(command, "OPENBLAS", tmp_path / "missing")
    assert capsys.readouterr().err == ""
    assert regimes() == [COMPUTE_BOUND]
    assert "apt install libopenblas0-pthread" in capsys.readouterr().err
    (tmp_path / "missing").write_text("")
    assert regimes() == [COMPUTE_BOUND, BANDWIDTH_BOUND]
    assert capsys.readouterr().err == ""


def test_on_the_command_line_one_case_is_printed_and_its_figures_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *TINY.split(), "--json", str(tmp_path / "figures.json")]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "| K = 1 |" in printed.out
    assert json.loads((tmp_path / "figures.json").read_text())["case"]["tokens"] == 6


@pytest.mark.parametrize(
    "arguments",
    [
        ["--depths", "0"],
        ["--depths", "1,1"],
        ["--depths", "6"],
        ["--context", "many"],
        ["--context", "1"],
        ["--tokens", "1"],
        ["--cycles", "0"],
        ["--against", "llama.cpp"],
        ["--page", "page.md"],  # one model has none
    ],
)
def test_options_that_mean_nothing_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["bench", "guide", *arguments])
    assert leaving.value.code == 2


def test_the_standard_edition_has_its_figures_beside_its_page() -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["bench", "--json", "figures.json"])
    assert leaving.value.code == 2


@pytest.mark.parametrize("arguments", [["guide", "--json"], ["--page"]])
def test_a_file_that_cannot_be_written_is_said_before_anything_is_run(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "regimes", lambda: pytest.fail("it ran"))
    nowhere = tmp_path / "no" / "figures.json"
    assert main(["bench", *arguments, str(nowhere)]) == 1
    assert capsys.readouterr().err == f"{nowhere} cannot be written: No such file or directory. Name another file.\n"


def test_a_bench_that_is_refused_leaves_no_empty_file(tmp_path: Path) -> None:
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("{}")
    for file in (new, old):
        assert main(["bench", "guide", "--context", "4k", "--json", str(file)]) == 1
    assert not new.exists()
    assert old.read_text() == "{}"


def test_a_context_that_the_model_does_not_hold_is_refused_in_the_words_of_a_bench(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "guide", "--context", "4k", "--tokens", "8"]) == 1
    assert capsys.readouterr().err == (
        "Guide holds 2,048 tokens, and 4,096 of context with a reply of 8 are more. Give a shorter context.\n"
    )


def test_contexts_may_be_given_in_thousands() -> None:
    assert _parser().parse_args(["bench", "guide", "--context", "0.5k"]).context == 512
    assert _parser().parse_args(["bench", "guide", "--context", "16k"]).context == 16384
