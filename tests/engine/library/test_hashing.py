"""A part is hashed behind whoever appends to it, whatever came when."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.library import hashing
from engine.library.hashing import CHUNK, HashBehind, digest_of
from engine.library.remote import RemoteFile

CONTENT = hashlib.shake_128(b"content").digest(3 * CHUNK + 5)
FILE = RemoteFile("model.safetensors", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def small(content: bytes) -> RemoteFile:
    return RemoteFile("config.json", len(content), hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest())


@given(ends=st.lists(st.integers(0, len(CONTENT)), max_size=6))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_it_is_the_hash_of_the_whole_in_whatever_pieces_that_came(tmp_path: Path, ends: list[int]) -> None:
    part, at = tmp_path / "part", 0
    with part.open("wb", buffering=0) as out, HashBehind(FILE, part, lambda: False) as behind:
        for end in (*sorted(ends), len(CONTENT)):
            out.write(CONTENT[at:end])
            at = end
            behind.may_read(at)
        assert behind.hexdigest() == FILE.etag


@pytest.mark.parametrize("content", [b"", b"{}"])
def test_a_small_file_has_gits_hash(tmp_path: Path, content: bytes) -> None:
    part = tmp_path / "part"
    part.write_bytes(content)
    with HashBehind(small(content), part, lambda: False) as behind:
        behind.may_read(len(content))
        assert behind.hexdigest() == small(content).etag
    assert digest_of(small(content)).hexdigest() != FILE.etag


def test_it_ends_with_whoever_appends(tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(CONTENT[:CHUNK])
    with HashBehind(FILE, part, lambda: False) as behind:
        behind.may_read(CHUNK)
    assert behind.hexdigest() is None


def test_it_ends_at_once_where_somebody_asked_for_it(tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(CONTENT)
    with HashBehind(FILE, part, lambda: True) as behind:
        behind.may_read(len(CONTENT))
        assert behind.hexdigest() is None


def test_a_part_that_somebody_cut_off_has_another_hash(tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(CONTENT[:-1])
    with HashBehind(FILE, part, lambda: False) as behind:
        behind.may_read(len(CONTENT))
        assert behind.hexdigest() == hashlib.sha256(CONTENT[:-1]).hexdigest()


def test_once_what_is_there_cannot_be_read_no_more_is_taken(tmp_path: Path) -> None:
    with HashBehind(FILE, tmp_path / "gone", lambda: False) as behind:
        with pytest.raises(FileNotFoundError):
            behind.hexdigest()
        with pytest.raises(FileNotFoundError):
            behind.may_read(CHUNK)


def test_whatever_it_fails_with_is_not_taken_for_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def update(self, data: bytes | memoryview) -> None:
            raise MemoryError

    monkeypatch.setattr(hashing, "digest_of", lambda file: Full())
    part = tmp_path / "part"
    part.write_bytes(CONTENT)
    with HashBehind(FILE, part, lambda: False) as behind:
        behind.may_read(len(CONTENT))
        with pytest.raises(MemoryError):
            behind.hexdigest()


def test_a_disk_that_fails_is_told_of(tmp_path: Path) -> None:
    with HashBehind(FILE, tmp_path / "gone", lambda: False) as behind, pytest.raises(FileNotFoundError):
        behind.hexdigest()
