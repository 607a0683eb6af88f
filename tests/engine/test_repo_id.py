"""What people type or paste, and the repo that is meant by it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ModelError
from engine.library.repo_id import RepoId, parse

QWEN = "mlx-community/Qwen3.5-9B-MLX-4bit"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (QWEN, RepoId(QWEN)),
        (f"  “{QWEN}”".replace("“", '"').replace("”", '"'), RepoId(QWEN)),
        (f"{QWEN}/", RepoId(QWEN)),
        (f"{QWEN}@v1.0", RepoId(QWEN, "v1.0")),
        (f"hf:{QWEN}", RepoId(QWEN)),
        (f"hf://{QWEN}", RepoId(QWEN)),
        (f"https://huggingface.co/{QWEN}", RepoId(QWEN)),
        (f"http://www.huggingface.co/{QWEN}/?library=mlx#x", RepoId(QWEN)),
        (f"huggingface.co/{QWEN}", RepoId(QWEN)),
        (f"hf.co/{QWEN}/tree/0123abc", RepoId(QWEN, "0123abc")),
        (f"https://huggingface.co/{QWEN}/tree/main/mtp", RepoId(QWEN)),
        (f"https://huggingface.co/{QWEN}/blob/dev/config.json", RepoId(QWEN, "dev")),
        (f"https://huggingface.co/api/models/{QWEN}", RepoId(QWEN)),
        (f"http://127.0.0.1:8123/{QWEN}", RepoId(QWEN)),
    ],
)
def test_an_id_an_address_and_a_copied_command_mean_the_same_repo(typed: str, meant: RepoId) -> None:
    assert parse(typed, "http://127.0.0.1:8123") == meant


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "nothing to look for"),
        ("qwen", "an id is an owner and a name"),
        ("a/b/c", "an id is an owner and a name"),
        ("../../etc/passwd", "an id is an owner and a name"),
        ("../passwd", "cannot be a model’s id"),
        ("a/..", "cannot be a model’s id"),
        ("a/b--c", "cannot be a model’s id"),
        ("a/" + "b" * 200, "cannot be a model’s id"),
        ("a/b.git", "leave out .git"),
        ("a/b@../../x", "cannot be a branch"),
        ("https://example.com/a/b", "example.com is not the Hugging Face hub"),
        ("https://huggingface.co.example.com/a/b", "is not the Hugging Face hub"),
        ("https://huggingface.co/datasets/a/b", "a data set"),
        ("https://huggingface.co/spaces/a/b", "a space"),
        ("https://huggingface.co/a", "names no model"),
        ("ftp://huggingface.co/a/b", "begins with https://"),
        ("file:///etc/passwd", "begins with https://"),
        ("https://[::1/a/b", "not an address"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(typed: str, said: str) -> None:
    with pytest.raises(ModelError) as refused:
        parse(typed)
    assert refused.value.report.code == "not_a_repo"
    assert said in refused.value.report.what
    assert refused.value.report.next_step


@given(st.from_regex(r"[\w./@:-]{1,30}", fullmatch=True) | st.text(max_size=30))
def test_whatever_is_typed_is_an_id_or_refused(typed: str) -> None:
    with suppress(ModelError):
        repo = parse(typed)
        assert repo.id.count("/") == 1
        assert ".." not in repo.id + repo.revision
        assert parse(repo.id) == RepoId(repo.id)
