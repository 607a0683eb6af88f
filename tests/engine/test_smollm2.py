"""A real instruct model without a head: plainly, with copies and with a draft model it answers in the same words."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.inspection import inspect
from engine.terminal import Engine, Printer
from engine.types import DrafterWish, Message, MtpWish, Reply, Request
from tests import smollm2

pytestmark = pytest.mark.skipif(
    find_spec(smollm2.PACKAGE) is None, reason="the package with SmolLM2 is not installed: run `make venv`"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smollm2.build(tmp_path_factory.mktemp("smollm2") / "SmolLM2-135M-Instruct")


@pytest.mark.slow
def test_it_answers_in_the_same_words_with_every_drafter(folder: Path) -> None:
    """With itself as the draft model, which then is never wrong."""
    question = (Message("system", "Be brief."), Message("user", "Repeat: one two three four five six seven eight"))

    def reply(engine: Engine, drafter: DrafterWish | None) -> Reply:
        wish = MtpWish("off") if drafter is None else MtpWish("on", 3, drafter)
        return engine.reply(Request(engine.next_id(), "a", question, max_tokens=24, mtp=wish), Printer(quiet=True))

    with Engine() as engine:
        info = engine.load(str(folder), draft=str(folder))
        assert (info.capability.family, info.capability.model_type) == ("plain", "llama")
        assert info.has_template
        plain, copied, drafted = (reply(engine, drafter) for drafter in (None, "lookup", "draft_model"))
    assert plain.text == "One two three four five six seven eight"
    assert plain.finish_reason == "stop"
    assert plain.tokens == copied.tokens == drafted.tokens
    assert [each.decision.mode for each in (plain, copied, drafted)] == ["plain", "lookup", "draft_model"]
    (lookup,) = copied.stats.by_drafter
    assert lookup.drafter == "prompt_lookup"
    assert lookup.accepted >= 2
    (model,) = drafted.stats.by_drafter
    assert model.drafter == "draft_model"
    assert model.accepted == model.evaluated >= 4
    assert drafted.stats.tokens_per_round is not None
    assert drafted.stats.tokens_per_round > 2


def test_a_model_with_another_vocabulary_does_not_draft_for_it(folder: Path) -> None:
    for model, draft in ((str(folder), "guide"), ("guide", str(folder))):
        receipt = inspect(model, wish=MtpWish("on", drafter="draft_model"), draft=draft).receipt
        assert receipt.refusal is not None
        assert receipt.refusal.code == "incompatible_draft_model"
