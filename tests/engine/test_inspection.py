"""What `foreword inspect` finds: the receipt that a reply would get, without weights, whatever the folder is like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest

from engine import policy
from engine.cli import main
from engine.inspection import inspect
from engine.types import Finished, Loaded, Message, MtpWish, Request, Started
from engine.worker import Worker
from tests.checkpoints import HeadPlace, build
from tests.engine.folders import DENSE, TARGET, stored, write_folder, write_safetensors
from tests.engine.worker.steps import PATIENCE, until
from tests.receipts import faults

# ---------------------------------------------------------------- one answer, wherever one asks


WISHES = (MtpWish(), MtpWish("on", 4), MtpWish("off"), MtpWish(drafter="mixed"), MtpWish(drafter="draft_model"))


@pytest.mark.parametrize("place", ["embedded", "sidecar", "none"])
def test_a_reply_the_window_and_inspect_agree_on_the_receipt(tmp_path: Path, place: HeadPlace) -> None:
    folder = str(build(tmp_path / "m", head=place))
    worker = Worker()
    worker.start()
    try:
        worker.load(folder, draft=folder)
        (loaded,) = [event for event in until(worker, Loaded) if isinstance(event, Loaded)]
        for number, wish in enumerate(WISHES):
            worker.generate(Request(number, "a", (Message("user", "toro"),), max_tokens=6, seed=1, mtp=wish))
            events = until(worker, Finished)
            (started,) = [event for event in events if isinstance(event, Started)]
            (finished,) = [event for event in events if isinstance(event, Finished)]
            receipt = started.decision.receipt.to_json()
            # The reply's own says in addition what its rounds were like.
            ran = finished.reply.decision.receipt.to_json()
            rounds = {name: ran["shape"].pop(name) for name in ("rounds_by_depth", "padded", "held_up_ms")}
            assert ran == receipt
            assert sum(rounds["rounds_by_depth"]) == finished.reply.stats.rounds
            assert rounds["padded"] == 0
            # What the window shows before a message is sent.
            assert policy.decide(loaded.info.device, loaded.info.capability, wish).receipt.to_json() == receipt
            assert inspect(folder, wish=wish, draft=folder).receipt.to_json() == receipt
            with_draft_model = wish.drafter == "draft_model"
            if not with_draft_model:
                assert inspect(folder, wish=wish).receipt.to_json() == receipt
            drafts_by_head = place != "none" and wish.override != "off" and not with_draft_model
            assert (receipt["resolved"]["mode"] == "mtp") == drafts_by_head
    finally:
        assert worker.shutdown(PATIENCE)


def test_before_it_was_ever_loaded_a_sidecar_waits_for_its_trial(tmp_path: Path) -> None:
    receipt = inspect(str(build(tmp_path / "m", head="sidecar"))).receipt
    assert receipt.refusal is not None
    assert receipt.refusal.code == "unvalidated_sidecar"
    assert receipt.head is not None
    assert receipt.head["trial"] is None


def test_a_sidecar_that_records_its_target_needs_no_trial(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    found = inspect(str(folder)).capability
    assert found is not None
    for base, code in ((found.fingerprint, None), ("0" * 16, "unvalidated_sidecar")):
        write_safetensors(folder / "mtp.safetensors", stored(DENSE), base_fingerprint=base)
        refusal = inspect(str(folder)).receipt.refusal
        assert (refusal and refusal.code) == code


def test_e04_what_only_the_weights_could_tell_is_known_from_then_on(tmp_path: Path) -> None:
    """Norms stored in two ways look right in the headers."""
    folder = build(tmp_path / "m", head="sidecar")
    norms = mx.load(str(folder / "mtp.safetensors"))
    assert isinstance(norms, dict)
    key = "layers.0.self_attn.k_norm.weight"
    norms |= {key: norms[key] + 1.0, "norm.weight": mx.full(norms["norm.weight"].shape, 5.0)}
    mx.save_safetensors(str(folder / "mtp.safetensors"), norms)
    assert inspect(str(folder)).receipt.head is not None
    worker = Worker()
    worker.start()
    try:
        for _ in range(2):
            worker.load(str(folder))
            (loaded,) = [event for event in until(worker, Loaded) if isinstance(event, Loaded)]
            receipt = inspect(str(folder)).receipt
            assert receipt.refusal is not None
            assert receipt.refusal.code == "mixed_norms"
            assert policy.decide(loaded.info.device, loaded.info.capability, MtpWish()).receipt == receipt
    finally:
        assert worker.shutdown(PATIENCE)


# ---------------------------------------------------------------- on the command line


def test_people_get_a_few_aligned_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path / "Tiny", TARGET | stored(DENSE))
    assert main(["inspect", str(folder)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert lines[0].split("  ") == ["Model", *[""] * 4, "Tiny (qwen3_5), 19,648 parameters"]
    assert "for the model, " in lines[3]
    assert "in the model, bf16" in lines[4]
    assert any(line.startswith("Reading ahead  ") for line in lines)
    starts = {len(line) - len(line.split("  ", 1)[1].lstrip()) for line in lines}
    assert len(starts) == 1


def test_of_a_head_that_cannot_be_read_it_is_not_the_model_that_is_to_be_downloaded_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, head = write_folder(tmp_path / "m"), tmp_path / "head.safetensors"
    head.write_text("no tensors")
    assert main(["inspect", str(folder), "--head", str(head)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("head.safetensors is not a readable safetensors file.")
    assert said.endswith("Download the head again, or leave it out to use the model’s own.\n")


def test_json_gives_capability_and_receipt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path / "m")
    head = write_safetensors(tmp_path / "head" / "mtp.safetensors", stored(DENSE))
    assert main(["inspect", str(folder), "--head", str(head), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"capability", "memory", "receipt"}
    memory = answer["memory"]
    parts = ("weights", "kv", "recurrent", "head", "draft", "working")
    assert memory["total"] == sum(memory[part] for part in parts)
    assert memory["context"] == answer["capability"]["context"]
    assert answer["capability"]["head"]["source"] == "mtp.safetensors"
    assert faults(answer["receipt"]) == []


def test_a_model_that_cannot_draft_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path / "m", model_type="nemotron_h")
    assert main(["inspect", str(folder)]) == 0
    assert "Nemotron-H" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda folder: (folder / "config.json").write_text("{"), "malformed_config"),
        (lambda folder: (folder / "config.json").unlink(), "no_config"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no_tokenizer"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no_weights"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "x.bin"), "pickle_weights"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\0" * 9), "malformed_weights"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x10" + b"\0" * 7 + b"{"), "truncated_weights"),
        (lambda folder: write_folder(folder, model_file="custom.py"), "remote_code_refused"),
        (lambda folder: write_folder(folder, model_type="hy_v3"), "unsupported_model"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_folder_gets_a_receipt_and_an_error_code(
    tmp_path: Path, damage: object, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(tmp_path / "m")
    damage(folder)  # type: ignore[operator]
    assert main(["inspect", str(folder), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["capability"] is None
    assert answer["receipt"]["refusal"]["code"] == code
    assert faults(answer["receipt"]) == []
    assert main(["inspect", str(folder)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert answer["receipt"]["refusal"]["sentence"] in printed.err


def test_a_model_that_does_not_fit_is_looked_at_and_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    weights = folder / "model.safetensors"
    entry = {"x": {"dtype": "U8", "shape": [1 << 43], "data_offsets": [0, 1 << 43]}}
    raw = json.dumps(entry).encode()
    weights.write_bytes(len(raw).to_bytes(8, "little") + raw)
    try:
        os.truncate(weights, 8 + len(raw) + (1 << 43))  # eight terabytes of nothing
    except OSError:
        pytest.skip("this file system holds no file so large")
    found = inspect(str(folder))
    assert found.capability is not None
    assert found.receipt.refusal is not None
    assert found.receipt.refusal.code == "too_large"
    assert main(["inspect", str(folder)]) == 1


def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    codes = [
        inspect(str(tmp_path / "no")),
        inspect(str(folder), str(tmp_path / "no")),
        inspect(str(folder / "config.json")),
    ]
    assert [found.receipt.refusal and found.receipt.refusal.code for found in codes] == [
        *("model_missing", "head_missing", "not_a_folder")
    ]


def test_neither_mlx_nor_weights_are_loaded_for_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", TARGET | stored(DENSE))
    code = (
        "import sys; from engine.cli import main; "
        f"code = main(['inspect', {str(folder)!r}, '--json']); "
        "heavy = {'mlx', 'mlx_lm', 'numpy', 'transformers', 'huggingface_hub'}; "
        "sys.exit(repr((code, sorted(set(sys.modules) & heavy))))"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True).stderr == "(0, [])\n"
