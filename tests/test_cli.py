"""The command line, against a real model: what is printed where, and which code it leaves with."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine import device, measure
from engine.cli import main
from engine.decode.loop import MAX_RUN
from engine.evidence import evidence_for, from_json
from engine.figures import totals_line
from engine.inspection import capability_now
from engine.terminal import Engine, Printer
from engine.types import Snapshot
from tests.checkpoints import build

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-c", "import sys; from app.__main__ import main; sys.exit(main())"]

PUBLISHED = {
    *("thought", "answer", "tool_calls"),
    *(
        "text",
        "tokens",
        "finish_reason",
        "notice",
        "seed",
        "sampling",
        "prompt_tokens",
        "prefill_ms",
        "decode_ms",
        "tokens_per_second",
    ),
    *(
        "rounds",
        "drafted",
        "evaluated",
        "accepted",
        "accepted_by_position",
        "by_drafter",
        "tokens_per_round",
        "receipt",
    ),
    *("reused_tokens", "prefill_tokens_per_second", "first_token_ms", "rollbacks", "comparison", "memory"),
    *("host_ms", "wait_ms", "draft_build_ms", "check_build_ms"),
}


@pytest.fixture(autouse=True)
def a_terminal_that_follows_escape_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the tests themselves are run from."""
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small model with a head; its greedy text goes on until the context is full."""
    return str(build(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def brief_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same with a short context, so that a reply ends soon by itself."""
    return str(with_context(build(tmp_path_factory.mktemp("brief")), 64))


def with_context(folder: Path, tokens: int) -> Path:
    """The model in the folder, with a context of so many tokens."""
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = tokens
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts text where a pipe would."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


@pytest.fixture
def generated(model: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Runs `foreword generate --json` and gives its object."""

    def run(*options: str) -> dict[str, Any]:
        assert main(["generate", model, "--prompt", "Hello", "--json", *options]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        answer: dict[str, Any] = json.loads(printed.out)
        return answer

    return run


# ---------------------------------------------------------------- usage


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out == f"foreword {version('foreword')}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["dream"],
        ["generate"],
        ["generate", "guide"],
        ["generate", "guide", "--prompt", "x", "--depth", "0"],
        ["generate", "guide", "--prompt", "x", "--depth", "6"],
        ["generate", "guide", "--prompt", "x", "--depth", "deep"],
        ["generate", "guide", "--prompt", "x", "--mtp", "maybe"],
        ["generate", "guide", "--prompt", "x", "--max-tokens", "0"],
        ["generate", "guide", "--prompt", "x", "--seed", "lucky"],
        ["generate", "guide", "--prompt", "x", "--kv-bits", "6"],
        ["generate", "guide", "--prompt", "x", "--kv-from", "-1"],
    ],
    ids=lambda arguments: " ".join(arguments[-2:]),
)
def test_wrong_usage_leaves_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    assert leaving.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "usage: foreword" in printed.err


def test_nothing_heavy_is_imported_before_there_is_work() -> None:
    heavy = "{'mlx', 'mlx.core', 'mlx_lm', 'transformers', 'tokenizers', 'numpy', 'psutil', 'PySide6', 'app'}"
    code = f"import sys, engine.cli; sys.exit(repr(set(sys.modules) & {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True).stderr == "set()\n"


# ---------------------------------------------------------------- generate


@pytest.mark.parametrize("drafter", ["lookup", "mixed", "model"])
def test_each_drafter_can_be_asked_for(generated: Callable[..., dict[str, Any]], model: str, drafter: str) -> None:
    wish = model if drafter == "model" else drafter
    answer = generated("--max-tokens", "12", "--mtp", "on", "--drafter", wish)
    resolved = answer["receipt"]["resolved"]
    assert resolved["drafter"] == {"lookup": "prompt_lookup", "mixed": "mixed", "model": "draft_model"}[drafter]
    if drafter == "model":
        (count,) = answer["by_drafter"]
        assert count["drafter"] == "draft_model"
        assert count["accepted"] == count["evaluated"] == answer["accepted"] > 0, "it drafts for itself"


def test_json_has_the_published_figures_and_they_agree(generated: Callable[..., dict[str, Any]]) -> None:
    answer = generated("--max-tokens", "40", "--mtp", "on", "--depth", "3")
    assert set(answer) == PUBLISHED
    assert answer["finish_reason"] == "length"
    assert len(answer["tokens"]) == 40
    positions = answer["accepted_by_position"]
    assert len(positions) == 3
    assert sum(position["evaluated"] for position in positions) == answer["evaluated"]
    assert sum(position["accepted"] for position in positions) == answer["accepted"]
    assert 0 < answer["accepted"] <= answer["evaluated"] <= answer["drafted"] <= 3 * answer["rounds"]
    assert answer["tokens_per_round"] == pytest.approx(39 / answer["rounds"])
    assert answer["tokens_per_second"] == pytest.approx(39 / answer["decode_ms"] * 1000)
    assert answer["prompt_tokens"] > 0
    assert 0 < answer["prefill_ms"] < answer["first_token_ms"]
    assert answer["prefill_tokens_per_second"] == pytest.approx(answer["prompt_tokens"] / answer["prefill_ms"] * 1000)
    assert answer["host_ms"] + answer["wait_ms"] == pytest.approx(answer["decode_ms"])
    assert 0 < answer["draft_build_ms"] + answer["check_build_ms"] < answer["decode_ms"]
    assert answer["memory"]["peak"] >= answer["memory"]["active"] > 0
    assert answer["comparison"]["plain_rounds"] >= 3, "to be compared with"
    assert (answer["comparison"]["speed_up"] is None) == answer["comparison"]["unsteady"]
    assert answer["receipt"]["resolved"] == {"mode": "mtp", "drafter": "mtp_chain", "depth": 3}


@pytest.mark.parametrize(
    "sampling",
    [
        (),
        ("--temperature", "0.8", "--top-k", "20", "--top-p", "0.95"),
        ("--temperature", "0.8", "--frequency-penalty", "1.5", "--presence-penalty", "0.5", "--repetition-window", "9"),
    ],
)
def test_a_seed_gives_the_same_tokens_whether_or_not_it_reads_ahead(
    generated: Callable[..., dict[str, Any]], sampling: tuple[str, ...]
) -> None:
    def tokens(*mtp: str) -> list[int]:
        answer = generated("--max-tokens", "40", "--seed", "7", *sampling, *mtp)
        assert answer["seed"] == 7
        listed: list[int] = answer["tokens"]
        return listed

    plain = tokens("--mtp", "off")
    assert [tokens("--mtp", "on", "--depth", depth) for depth in "15"] == [plain] * 2


@pytest.mark.parametrize("text", ["42", "=1", "42=much", "4.2=1", ""])
def test_a_bias_that_is_no_token_and_number_is_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["generate", "guide", "--prompt", "hi", "--logit-bias", text])
    assert left.value.code == 2
    assert "is not a token's id and a number, as in 42=-1.5" in capsys.readouterr().err


def test_listed_tokens_are_biased_and_banned(generated: Callable[..., dict[str, Any]]) -> None:
    first, second = generated("--max-tokens", "2")["tokens"]
    banned = generated("--max-tokens", "40", "--ban", str(first), "--ban", str(second))
    assert not {first, second} & set(banned["tokens"])
    assert generated("--max-tokens", "1", "--logit-bias", f"{second}=100")["tokens"] == [second]
    assert banned["sampling"]["banned"] == {"value": sorted([first, second]), "set_by": "user"}


def test_s08_the_reply_says_who_decided_each_setting(generated: Callable[..., dict[str, Any]]) -> None:
    used = generated("--max-tokens", "1", "--top-p", "0.9")["sampling"]
    assert used["temperature"] == {"value": 0.0, "set_by": "model"}, "its generation config says not to sample"
    assert used["top_p"] == {"value": 0.9, "set_by": "user"}
    assert used["min_p"] == {"value": 0.0, "set_by": "neutral"}


def test_keys_and_values_are_quantised_where_it_says_and_reading_ahead_changes_no_word(
    generated: Callable[..., dict[str, Any]],
) -> None:
    def answer(*mtp: str) -> dict[str, Any]:
        return generated("--max-tokens", "40", "--seed", "7", "--kv-bits", "4", "--kv-from", "30", *mtp)

    plain, drafted = answer("--mtp", "off"), answer("--mtp", "on", "--depth", "3")
    assert drafted["tokens"] == plain["tokens"]
    assert drafted["receipt"]["shape"]["kv_quantisation"] == {"bits": 4, "start": 30}
    assert "kv_quantisation" not in generated("--max-tokens", "2")["receipt"]["shape"]


def test_switched_off_nothing_is_drafted_and_the_receipt_says_why(
    generated: Callable[..., dict[str, Any]],
) -> None:
    answer = generated("--max-tokens", "5", "--mtp", "off")
    assert (answer["drafted"], answer["accepted_by_position"]) == (0, [])
    assert answer["receipt"]["resolved"]["mode"] == "plain"
    assert answer["receipt"]["requested"]["override"] == "off"


@pytest.mark.parametrize("mtp", ["on", "off"])
def test_e24_a_reply_that_repeats_one_token_is_ended_with_a_notice(
    generated: Callable[..., dict[str, Any]], mtp: str
) -> None:
    answer = generated("--max-tokens", "400", "--repetition-penalty", "0.001", "--mtp", mtp)
    assert len(set(answer["tokens"][-MAX_RUN:])) == 1
    assert len(answer["tokens"]) < 400
    assert (answer["finish_reason"], answer["notice"]) == ("stop", "Ended early: the model kept repeating itself")
    assert generated("--max-tokens", "9", "--mtp", mtp)["notice"] is None


def test_a_stop_string_ends_the_reply_and_is_not_shown(generated: Callable[..., dict[str, Any]]) -> None:
    whole = generated("--max-tokens", "30")["text"]
    stop = whole[len(whole) // 2 :][:4]
    answer = generated("--max-tokens", "30", "--stop", "never said", "--stop", stop)
    assert answer["finish_reason"] == "stop"
    assert answer["text"] == whole[: whole.index(stop)]


def test_a_fresh_seed_is_drawn_for_every_reply(generated: Callable[..., dict[str, Any]]) -> None:
    first, second = (generated("--max-tokens", "1") for _ in range(2))
    assert first["seed"] != second["seed"]


def test_instructions_are_part_of_the_prompt(generated: Callable[..., dict[str, Any]]) -> None:
    alone = generated("--max-tokens", "1")["prompt_tokens"]
    assert generated("--max-tokens", "1", "--system", "Be kind.")["prompt_tokens"] > alone


def test_without_json_the_output_is_the_reply_alone(
    model: str,
    generated: Callable[..., dict[str, Any]],
    type_in: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = generated("--max-tokens", "12")["text"]
    type_in("Hello")
    assert main(["generate", model, "--prompt", "-", "--max-tokens", "12"]) == 0
    printed = capsys.readouterr()
    assert printed.out == text + ("" if text.endswith("\n") else "\n")
    assert printed.err == ""


def test_t11_thinking_is_switched_where_the_model_has_a_switch(
    tmp_path: Path, brief_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", brief_model, "--prompt", "Hello", "--thinking", "on"]) == 0
    assert capsys.readouterr().err == f"{Path(brief_model).name} has no switch for thinking.\n"
    shutil.copytree(brief_model, tmp_path / "thinker")
    template = tmp_path / "thinker" / "chat_template.jinja"
    opening = "{{ '<think>' if enable_thinking is defined and enable_thinking else '' }}"
    template.write_text(
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}" + opening + "{% endif %}"
    )
    thoughts = {}
    for choice in (["--thinking", "on"], ["--thinking", "off"], []):
        command = ["generate", str(tmp_path / "thinker"), "--prompt", "Hello", "--max-tokens", "8", "--json", *choice]
        assert main(command) == 0
        reply = json.loads(capsys.readouterr().out)
        thoughts[" ".join(choice)] = reply["thought"]
        assert (reply["thought"] or reply["answer"]) == reply["text"]
    assert thoughts["--thinking on"]
    assert thoughts["--thinking off"] is thoughts[""] is None


def test_a_reader_that_has_seen_enough_ends_the_reply(model: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "generate", model, "--prompt", "Hello"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == b""


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_stream_that_is_closed_is_one_with_nothing_in_it(missing: int) -> None:
    """As `foreword chat <&-` and its like in a shell have it."""
    with subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" {missing}>&-', "sh", *COMMAND, *(["models", "list"] if missing else ["chat"])],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        assert ("guide" in out) == (missing == 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk here that is always full")
@pytest.mark.parametrize("arguments", [["--version"], ["generate", "guide", "--prompt", "Hello", "--max-tokens", "4"]])
def test_an_output_that_cannot_be_written_is_told_of(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run([*COMMAND, *arguments], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    assert ended.stderr == ("The output could not be written: No space left on device. What is there of it is kept.\n")


def test_a_note_ends_where_the_terminals_line_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2)
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((12, 24)))
    Printer().note("Measuring ████████")
    assert capsys.readouterr().err == "\r\x1b[KMeasuring █"


def test_a_terminal_that_follows_no_escape_sequences_gets_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    printer = Printer()
    printer.note("Starting…")
    printer.begin(opened_thinking=True)
    printer.text("plan</think>Hi")
    printer.end_line()
    assert capsys.readouterr() == ("plan</think>Hi\n", "")


# ---------------------------------------------------------------- measure


@pytest.fixture
def soon_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a measurement reads is short, and it takes as little time as it can."""
    for name, value in (
        ("SECONDS", 0.0),
        ("MOST_CYCLES", 2),
        ("REST_S", 0.0),
        ("LEAST_LONG", 60),
        ("LONG_SECONDS", 0.0),
        ("_PARAGRAPH", "Day {number}."),
    ):
        monkeypatch.setattr(measure, name, value)


@pytest.mark.usefixtures("soon_measured")
def test_measure_says_what_it_found_and_remembers_it(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", model]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    *table, sentence = printed.out.splitlines()
    assert "tok/s" in sentence
    assert [line.split()[0] for line in table[2:-1]] == ["plain", "K", "K"]  # no time for deeper ones
    assert evidence_for(capability_now(Path(model)), device.probe()) is not None


@pytest.mark.usefixtures("soon_measured")
def test_measure_in_json_is_the_evidence_and_the_speed_ups(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", model, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert from_json(found) == evidence_for(capability_now(Path(model)), device.probe())
    assert set(found["speedups"]) == {"1", "2"}


def test_measure_of_a_model_without_a_head_says_that_there_is_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", str(build(tmp_path, head="none"))]) == 1
    assert "no MTP head" in capsys.readouterr().out


def test_a_measurement_that_is_stopped_keeps_nothing(model: str, own_home: Path) -> None:
    with terminal("measure", model) as screen:
        screen.read_until("Measuring ")
        screen.process.send_signal(signal.SIGINT)
        screen.read_until("Nothing was kept")
        assert screen.process.wait(30) == 1
    assert not list(own_home.rglob("evidence/*"))


# ---------------------------------------------------------------- errors


def test_an_error_is_one_paragraph_that_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(tmp_path / "nowhere"), "--prompt", "x"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert "nowhere" in printed.err
    assert "Traceback" not in printed.err


def test_an_error_in_json_keeps_its_code_and_its_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(tmp_path), "--prompt", "x", "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.err == ""
    answer = json.loads(printed.out)
    assert answer["finish_reason"] == "error"
    assert all(answer["error"][part] for part in ("code", "what", "next_step"))


@pytest.mark.parametrize(
    "options", [("--temperature", "-1"), ("--top-p", "2"), ("--prompt", "word " * 6000)], ids=lambda o: o[0]
)
def test_a_request_that_cannot_be_done_is_an_error(
    model: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", model, "--prompt", "x", "--max-tokens", "3", "--json", *options]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] != "internal"
    assert error["next_step"]


# ---------------------------------------------------------------- chat


def test_a_question_piped_in_is_answered_and_that_is_all(
    brief_model: str, type_in: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    type_in("Hello\n")
    assert main(["chat", brief_model]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip()
    assert printed.err.count("tok/s") == 1


def test_no_question_no_reply(type_in: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    type_in(" \n")
    assert main(["chat"]) == 0
    assert capsys.readouterr().out == ""


class Terminal:
    """The other end of a terminal in which a command runs."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self.seen = ""

    def read_until(self, text: str, seconds: float = 60) -> str:
        """What is printed up to and including `text`, from where the last call ended."""
        start = len(self.seen)
        deadline = time.monotonic() + seconds
        while text not in self.seen[start:]:
            assert select.select([self._master], [], [], max(0, deadline - time.monotonic()))[0], self.seen
            try:
                self.seen += os.read(self._master, 4096).decode()
            except OSError:  # how Linux says that the other end was closed
                pytest.fail(f"it ended without {text!r}: {self.seen}")
        return self.seen[start:]

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments], cwd=ROOT, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_a_chat_in_the_terminal(model: str) -> None:
    """Ctrl-C stops a reply and the chat goes on; the end of input leaves."""
    with terminal("chat", model) as screen:
        screen.read_until("\n> ")
        screen.type("Hello\n")
        screen.read_until("Hello")
        screen.read_until(" ")
        screen.process.send_signal(signal.SIGINT)
        assert "stopped]" in screen.read_until("\n> ")
        screen.type("More\n")
        screen.read_until("More")
        screen.read_until(" ")
        screen.process.send_signal(signal.SIGINT)
        screen.read_until("\n> ")
        screen.type("\x04")
        assert screen.process.wait(30) == 0


def test_the_note_of_a_bench_that_is_refused_is_gone_before_the_reason_is_given(model: str) -> None:
    with terminal("bench", model, "--context", "4000k") as screen:
        shown = screen.read_until("Give a shorter context.")
    assert "% making or loading the model" in shown
    line = shown.partition(" holds ")[0].rpartition("\r\x1b[K")[2]
    assert "%" not in line, shown


def test_thoughts_and_tool_calls_are_dim_on_a_terminal_and_control_codes_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    printer = Printer()
    printer.begin(opened_thinking=True)
    for piece in ("plan", "</th", "ink>", "Hi\x1b[31m\x07 <think>", call, "more <th"):
        printer.text(piece)
    printer.end_line()
    dim, normal = "\x1b[2m", "\x1b[0m"
    assert capsys.readouterr().out == f"{dim}plan\n\n{normal}Hi[31m <think>\n{dim}{call}\n{normal}more <th\n"


def test_a_thought_that_is_cut_off_leaves_the_terminal_as_it_was(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    printer = Printer()
    printer.begin(opened_thinking=False)
    printer.text("<think>plan</th")
    printer.end_line()
    assert capsys.readouterr().out == "\x1b[2mplan</th\x1b[0m\n"


def test_a_file_gets_what_the_model_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer()
    printer.begin(opened_thinking=False)
    for piece in ("<think>plan</th", "ink>Hi"):
        printer.text(piece)
    printer.end_line()
    assert capsys.readouterr().out == "<think>plan</think>Hi\n"


def test_ctrl_c_ends_a_reply_and_keeps_what_was_written(model: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "generate", model, "--prompt", "Hello"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        begun = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert begun + rest
        assert errors == b""


def test_the_totals_of_a_chat_add_up_its_replies_and_leave_out_what_was_not_measured() -> None:
    plain = Snapshot(tokens=21, rounds=20, decode_ms=1000.0)
    drafted = Snapshot(tokens=41, rounds=20, drafted=20, evaluated=20, accepted=15, decode_ms=1000.0)
    assert totals_line(plain.plus(plain)) == "[2 replies · 42 tokens · 20 tok/s]"
    assert totals_line(plain.plus(drafted)) == (
        "[2 replies · 62 tokens · 30 tok/s · 1.50 tokens per round · 75% accepted]"
    )


# ---------------------------------------------------------------- serve


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_serve_answers_until_it_is_ended(ending: signal.Signals) -> None:
    command = [*COMMAND, "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"Guide is at (http://127\.0\.0\.1:\d+/v1)\. Ctrl-C ends it\.\n", line)
            assert found, line
            assert httpx.get(f"{found[1]}/models").json()["data"][0]["id"] == "Guide"
            process.send_signal(ending)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_port_that_is_taken_is_said_before_the_engine_comes_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Engine, "__enter__", lambda engine: pytest.fail("it came up"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 1
    assert f"cannot listen on port {port}: another program has it" in capsys.readouterr().err


def test_serve_says_why_it_cannot(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--host", "0.0.0.0", "--port", "0"]) == 1
    assert "It listens on 127.0.0.1 or ::1 only." in capsys.readouterr().err
