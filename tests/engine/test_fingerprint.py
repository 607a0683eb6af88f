"""A fingerprint is the same for the same tensors, wherever they lie, and another one for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.model.fingerprint import LENGTH, SAMPLED_TENSORS, of_tensors
from engine.model.tensor_files import read_header, read_metadata
from tests.engine.folders import DENSE, stored, write_safetensors


def print_of(*files: Path) -> str:
    return of_tensors([tensor for file in files for tensor in read_header(file)])


def test_it_hangs_on_the_tensors_and_not_on_files_or_order(tmp_path: Path) -> None:
    tensors = stored(DENSE)
    whole = print_of(write_safetensors(tmp_path / "a" / "model.safetensors", tensors))
    assert len(whole) == LENGTH
    backwards = dict(reversed(tensors.items()))
    assert print_of(write_safetensors(tmp_path / "b.safetensors", backwards, made="elsewhere")) == whole
    names = list(tensors)
    parts = [
        write_safetensors(tmp_path / f"{n}.safetensors", {name: tensors[name] for name in names[n::3]})
        for n in range(3)
    ]
    assert print_of(*parts) == whole


@pytest.mark.parametrize(
    "change",
    [
        {"mtp.norm.weight": ("BF16", (32,))},
        {"mtp.norm.weight": ("F16", (64,))},
        {"mtp.extra": ("BF16", (1,))},
    ],
    ids=["shape", "type", "name"],
)
def test_another_header_is_another_fingerprint(tmp_path: Path, change: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    one = print_of(write_safetensors(tmp_path / "a.safetensors", stored(DENSE)))
    assert print_of(write_safetensors(tmp_path / "b.safetensors", stored(DENSE) | change)) != one


def test_two_versions_of_a_model_differ_in_their_bytes(tmp_path: Path) -> None:
    file = write_safetensors(tmp_path / "a.safetensors", stored(DENSE))
    assert len(DENSE) <= SAMPLED_TENSORS
    one = print_of(file)
    for tensor in read_header(file):
        raw = bytearray(file.read_bytes())
        raw[tensor.start + tensor.bytes // 2] ^= 1
        other = tmp_path / "b.safetensors"
        other.write_bytes(raw)
        assert print_of(other) != one, tensor.name


def test_no_tensors_have_none_and_a_tensor_of_no_bytes_does_no_harm(tmp_path: Path) -> None:
    assert of_tensors([]) == ""
    assert len(print_of(write_safetensors(tmp_path / "a.safetensors", {"x": ("F32", (0,))}))) == LENGTH


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    file = write_safetensors(tmp_path / "a.safetensors", stored(DENSE))
    tensors = read_header(file)
    file.unlink()
    with pytest.raises(ModelError, match=r"a\.safetensors could not be read") as caught:
        of_tensors(tensors)
    assert caught.value.report.code == "unreadable_file"


def test_metadata_is_read_from_the_same_header(tmp_path: Path) -> None:
    file = write_safetensors(tmp_path / "a.safetensors", stored(DENSE), base_fingerprint="abc")
    assert read_metadata(file) == {"format": "mlx", "base_fingerprint": "abc"}
