"""Whatever drafts, the reply is the same."""

from pathlib import Path

from engine.types import (
    Loaded,
    LoadFailed,
    MtpWish,
)
from engine.worker import Worker
from tests.checkpoints import Shape, build
from tests.engine.worker.steps import loaded, request, until, write


def test_every_drafter_writes_the_same_reply_and_its_receipt_says_which_it_was(
    worker: Worker, model: Path, tmp_path: Path
) -> None:
    small = build(tmp_path / "small", seed=0, shape=Shape(hidden=48), head="none")
    worker.load(str(model), draft=str(small))
    loaded = until(worker, Loaded, LoadFailed)[-1]
    assert isinstance(loaded, Loaded)
    assert loaded.info.capability.draft_model is not None
    assert loaded.info.capability.draft_model.name == "small"
    wishes = {"plain": MtpWish("off")} | {
        drafter: MtpWish("on", 2, drafter)  # type: ignore[arg-type]
        for drafter in ("mtp", "lookup", "mixed", "draft_model")
    }
    replies = {name: write(worker, request(n, mtp=wish)) for n, (name, wish) in enumerate(wishes.items())}
    assert len({reply.tokens for reply in replies.values()}) == 1
    modes = {name: reply.decision.receipt.resolved["mode"] for name, reply in replies.items()}
    assert modes == {name: "mtp" if name == "mixed" else name for name in wishes}
    drafted = {count.drafter for count in replies["draft_model"].stats.by_drafter}
    assert drafted == {"draft_model"}


def test_a_draft_model_of_other_words_is_left_out_and_the_reply_says_so(
    worker: Worker, model: Path, tmp_path: Path
) -> None:
    other = build(tmp_path / "other", shape=Shape(vocab=400), head="none")
    worker.load(str(model), draft=str(other))
    loaded = until(worker, Loaded, LoadFailed)[-1]
    assert isinstance(loaded, Loaded)
    reply = write(worker, request(1, mtp=MtpWish("on", drafter="draft_model")))
    assert reply.finish_reason == "length"
    assert reply.decision.receipt.refusal is not None
    assert reply.decision.receipt.refusal.code == "incompatible_draft_model"


def test_a_draft_model_that_is_not_there_is_said_before_the_model_in_use_is_given_up(
    worker: Worker, model: Path, tmp_path: Path
) -> None:
    loaded(worker, model)
    worker.load(str(model), draft=str(tmp_path / "nowhere"))
    failed = until(worker, Loaded, LoadFailed)[-1]
    assert isinstance(failed, LoadFailed)
    assert failed.error.code == "model_missing"
    assert write(worker, request(1)).finish_reason == "length"
