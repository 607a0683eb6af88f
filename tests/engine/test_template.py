"""What a chat template can do is found by trying it. The templates here behave as those of well-known families."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlx_lm.utils import load_tokenizer as mlx_lm_load

from engine.errors import ModelError
from engine.model.load import load_tokenizer
from engine.model.template import Template, turn
from engine.model.text import ChatText
from engine.types import Message
from tests.engine.vocabularies import CHATML, id_of, ids, spelled, transformers_tokenizer

ASK = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
LOOP = CHATML.removesuffix(ASK)
DROPS_THOUGHTS = LOOP.replace(
    "m.content +",
    "(m.content.split('</think>')[-1].lstrip('\n') if m.role == 'assistant' and '</think>' in m.content "
    "else m.content) +",
)

QWEN3 = DROPS_THOUGHTS + ASK.replace(
    "{% endif %}",
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
    "{% endif %}",
)
QWEN35 = DROPS_THOUGHTS + ASK.replace(
    "{% endif %}",
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}"
    "{% else %}{{ '<think>\n' }}{% endif %}{% endif %}",
)
QWEN35_SMALL = (
    QWEN35.replace("is false", "is true")
    .replace("<think>\n\n</think>\n\n", "A")
    .replace("<think>\n'", "<think>\n\n</think>\n\n'")
    .replace("{{ 'A' }}", "{{ '<think>\n' }}")
)
DEEPSEEK = DROPS_THOUGHTS + ASK.replace(
    "{% endif %}", "{{ '<think>' if thinking is defined and thinking else '</think>' }}{% endif %}"
)
R1 = DROPS_THOUGHTS + ASK.replace("{% endif %}", "{{ '<think>\n' }}{% endif %}")
GLM = DROPS_THOUGHTS + ASK.replace(
    "{% endif %}",
    "{{ '<think></think>\n' if enable_thinking is defined and not enable_thinking else '' }}{% endif %}",
)
GPT_OSS = "{{ '<|im_start|>system\nReasoning: ' + (reasoning_effort or 'medium') + '<|im_end|>\n' }}" + CHATML
MISTRAL = (
    "{% set effort = reasoning_effort if reasoning_effort is defined else 'none' %}"
    "{% if effort not in ['none', 'high'] %}{{ raise_exception('reasoning_effort') }}{% endif %}"
    "{{ bos_token }}[MODEL_SETTINGS]{{ effort }}"
    "{% for m in messages %}{% if m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{% elif m.role == 'system' %}{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}"
    "{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}"
)
GEMMA = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "{{ '<|im_start|>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content | trim + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}"
)
LLAMA3 = CHATML.replace("m.content", "m.content | trim")
SEES = CHATML.replace("m.content", "m.content[0]['text']")

SWITCHED = {
    "Qwen 3": (QWEN3, True),
    "Qwen 3.5": (QWEN35, True),
    "Qwen 3.5, small": (QWEN35_SMALL, False),
    "DeepSeek 3.1": (DEEPSEEK, False),
    "GLM 4.5": (GLM, True),
    "gpt-oss": (GPT_OSS, True),
    "Mistral": (MISTRAL, False),
}
UNSWITCHED = {"ChatML": CHATML, "R1": R1, "Gemma": GEMMA, "Llama 3": LLAMA3, "none": None}


def template(source: str | None) -> Template:
    return Template(transformers_tokenizer(source))


def asked(source: str, thinking: bool | None = None) -> str:
    return template(source).render([turn("user", "why?")], thinking=thinking)


# ---------------------------------------------------------------- the thinking switch


@pytest.mark.parametrize(("source", "default"), SWITCHED.values(), ids=SWITCHED.keys())
def test_t11_a_switch_for_thinking_is_found_by_trying_and_so_is_its_default(source: str, default: bool) -> None:
    assert template(source).thinks is default
    assert asked(source, True) != asked(source, False)


@pytest.mark.parametrize("source", UNSWITCHED.values(), ids=UNSWITCHED.keys())
def test_t11_a_template_that_writes_the_same_either_way_has_no_switch(source: str | None) -> None:
    assert template(source).thinks is None
    conversation = [turn("user", "why?")]
    assert {template(source).render(conversation, thinking=choice) for choice in (None, True, False)} == {
        template(source).render(conversation)
    }


def test_t11_a_switch_between_much_and_little_is_not_taken_for_one_that_ends_thinking() -> None:
    assert [name for name, (source, _) in SWITCHED.items() if template(source).always_thinks] == ["gpt-oss"]


def test_t11_each_template_gets_the_word_it_knows() -> None:
    assert asked(GPT_OSS, False) == asked(GPT_OSS).replace("medium", "low")
    assert asked(MISTRAL, True) == asked(MISTRAL).replace("none", "high")
    assert asked(DEEPSEEK, True).endswith("<think>")
    assert asked(DEEPSEEK, False).endswith("</think>")


@pytest.mark.parametrize(
    ("source", "thinking", "opened"),
    [(QWEN35, None, True), (QWEN35, False, False), (QWEN3, True, False), (DEEPSEEK, True, True), (R1, False, True)],
)
def test_th01_whether_a_reply_begins_inside_a_thought_follows_the_switch(
    source: str, thinking: bool | None, opened: bool
) -> None:
    text = ChatText(transformers_tokenizer(source), [], "me")
    assert text.encode([Message("user", "why?")], thinking).opened_thinking is opened


@pytest.mark.parametrize("source", [QWEN35, DEEPSEEK], ids=["thinks by default", "does not"])
@pytest.mark.parametrize("choice", [None, True, False])
def test_a_reply_is_continued_as_it_was_begun_whatever_the_switch_says_now(source: str, choice: bool | None) -> None:
    text = ChatText(transformers_tokenizer(source), [], "me")
    for opened in (True, False):
        prompt = text.encode([Message("user", "why?"), Message("assistant", "well", (), "me", opened)], choice)
        assert prompt.opened_thinking is opened
        assert spelled(prompt.tokens).rstrip().endswith("<think>well" if source is DEEPSEEK and opened else "well")


# ---------------------------------------------------------------- families


@pytest.mark.parametrize("source", [*(source for source, _ in SWITCHED.values()), R1, GEMMA, LLAMA3, SEES])
def test_every_template_takes_a_whole_conversation_with_instructions(source: str) -> None:
    text = ChatText(transformers_tokenizer(source), [id_of("<|endoftext|>")], "me")
    thought = Message("assistant", "<think>\nwell\n</think>\n\nBecause.", model="me")
    written = spelled(text.encode([Message("system", "be kind"), Message("user", "why?"), thought, _then()]).tokens)
    assert written.index("be kind") < written.index("why?") < written.index("Because.") < written.index("and then?")
    assert text.end_ids >= {id_of("<|endoftext|>")}


def _then() -> Message:
    return Message("user", "and then?")


def test_instructions_go_into_the_first_turn_of_a_template_that_refuses_them() -> None:
    assert not template(GEMMA).takes_system
    assert template(LLAMA3).takes_system


def test_a_template_for_pictures_gets_words_as_a_list_of_parts() -> None:
    assert asked(SEES) == asked(CHATML)


def test_a_template_that_breaks_on_one_conversation_works_for_others() -> None:
    moody = "{% if messages | length > 2 %}{{ raise_exception('too many') }}{% endif %}" + CHATML
    with pytest.raises(ModelError, match="could not write"):
        template(moody).render([turn("user", "a")] * 3)
    assert template(moody).render([turn("user", "why?")]) == asked(CHATML)


def test_t05_the_end_of_a_turn_of_gpt_oss_is_no_end_of_a_reply_for_its_thought_ends_alike() -> None:
    tokenizer = transformers_tokenizer(CHATML.replace("<|im_end|>", "<|end|>"))
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|end|>", "<|channel|>", "<|message|>"]})
    text = ChatText(tokenizer, [id_of("<|endoftext|>")], "me")
    assert text.end_ids == {id_of("<|endoftext|>")}
    decoder = text.decoder()
    reply = tokenizer.encode("<|channel|>analysis<|message|>hello<|end|>", add_special_tokens=False)
    shown = "".join(map(decoder.push, reply))
    assert shown == "<|channel|>analysis<|message|>hello<|end|>", "marks between the parts come through"


def test_t05_a_turn_end_that_is_no_special_token_ends_a_reply_and_is_not_shown() -> None:
    text = ChatText(transformers_tokenizer(CHATML.replace("<|im_end|>", "<｜my tool｜>")), [], "me")
    assert text.end_ids == {id_of("<｜my tool｜>")}
    assert text.decoder().push(id_of("<｜my tool｜>")) == ""


# ---------------------------------------------------------------- where a template comes from


def folder_with(folder: Path, **files: object) -> Path:
    """A tokenizer's folder; what is named is written over the files it has without a template."""
    transformers_tokenizer(None).save_pretrained(folder)
    for name, content in files.items():
        path = (
            folder
            / {"config": "tokenizer_config.json", "jinja": "chat_template.jinja", "old": "chat_template.json"}[name]
        )
        if isinstance(content, str):
            path.write_text(content)
        else:
            known = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps(known | content))  # type: ignore[operator]
    return folder


NAMED = [{"name": "tool_use", "template": "never"}, {"name": "default", "template": CHATML}]


@pytest.mark.parametrize(
    "files",
    [
        {"jinja": CHATML},
        {"config": {"chat_template": CHATML}},
        {"config": {"chat_template": NAMED}},
        {"config": {"chat_template": [{"name": "rag", "template": CHATML}]}},
        {"config": {"chat_template": "never"}, "jinja": CHATML},
        {"old": {"chat_template": CHATML}},
    ],
    ids=["file", "config", "named", "none is called default", "file before config", "older file"],
)
def test_a_template_is_found_wherever_it_is_kept(tmp_path: Path, files: dict[str, object]) -> None:
    text = ChatText(load_tokenizer(folder_with(tmp_path, **files)), [], "me")
    assert text.has_template
    assert text.encode([Message("user", "hello")]).tokens == ids(
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )


def test_t09_without_any_it_is_a_base_model(tmp_path: Path) -> None:
    text = ChatText(load_tokenizer(folder_with(tmp_path)), [], "me")
    assert not text.has_template
    assert text.thinks is None


@pytest.mark.parametrize(("source", "default"), SWITCHED.values(), ids=SWITCHED.keys())
def test_what_the_maker_chose_holds_where_nobody_chose(tmp_path: Path, source: str, default: bool) -> None:
    wrapped = mlx_lm_load(folder_with(tmp_path, jinja=source))
    conversation = [turn("user", "why?")]
    assert Template(wrapped).render(conversation) == asked(source)
    assert Template(wrapped).thinks is default
