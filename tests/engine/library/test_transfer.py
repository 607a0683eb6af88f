"""One file from the hub onto the disk: whatever the network does, what is seen has the right bytes."""

import errno
import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.library import snapshot
from engine.library.connection import Connection
from engine.library.failures import HubError
from engine.library.remote import RemoteFile, is_wanted, listing, read_tree
from engine.library.transfer import RESERVE, Stop, Stopped, bring_to_disk, fetch, held, part_of
from tests.hub import (
    LOGIN_PAGE,
    Answer,
    Bytes,
    Drip,
    Drop,
    Fault,
    Generated,
    Hub,
    IgnoreRange,
    OtherEtag,
    Short,
    Silence,
    WrongBytes,
)

REPO = "somebody/tiny"
WEIGHTS = hashlib.shake_128(b"weights").digest(300_000)
FILES = {"config.json": b'{"a": 1}', "model.safetensors": WEIGHTS}


class Place:
    """A hub with a model, and a cache for what comes."""

    def __init__(self, hub: Hub, cache: Path, read: float = 5.0) -> None:
        self.hub, self.commit = hub, hub.add(REPO, FILES)
        self.connection = Connection(hub.endpoint, hub_token="", read=read)
        self.listing = listing(self.connection, REPO)
        self.files = {file.path: file for file in self.listing.files}
        self.blobs = cache / "models--somebody--tiny" / "blobs"
        self.moved = 0
        hub.requests.clear()

    def fetch(self, path: str = "model.safetensors", stop: Stop | None = None, room: int | None = None) -> bytes:
        def moved(count: int) -> None:
            self.moved += count

        free = None if room is None else lambda _: room
        file = self.files[path]
        return fetch(
            *(self.connection, REPO, self.commit, file, self.blobs, stop or Stop()), moved=moved, room=free
        ).read_bytes()

    def why(self, path: str = "model.safetensors", **asked: int) -> HubError:
        with pytest.raises(HubError) as caught:
            self.fetch(path, **asked)
        assert not (self.blobs / self.files[path].etag).exists()
        return caught.value

    def publish(self) -> Path:
        """The folder of its commit, once all its files have come."""
        for path in FILES:
            self.fetch(path)
        return snapshot.publish(self.blobs.parent, self.listing, "main")

    @property
    def part(self) -> Path:
        return part_of(self.files["model.safetensors"], self.blobs)

    @property
    def ranges(self) -> list[str | None]:
        return [seen.range for seen in self.hub.bodies("model.safetensors")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Hub() as hub:
        place = Place(hub, tmp_path)
        yield place
        place.connection.close()


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_seen_under_its_hash_once_it_is_whole(place: Place, path: str) -> None:
    assert place.fetch(path) == FILES[path]
    assert [found.name for found in place.blobs.iterdir()] == [place.files[path].etag]
    assert place.moved == len(FILES[path])


def test_one_that_is_there_is_not_asked_for(place: Place) -> None:
    place.fetch()
    place.hub.requests.clear()
    assert place.fetch() == WEIGHTS
    assert not place.hub.requests


@pytest.mark.parametrize("fault", [Drop(after=100_000), Short(by=200_000)])
def test_d01_the_next_try_asks_for_the_rest_alone(place: Place, fault: Fault) -> None:
    place.hub.misbehave("model.safetensors", fault)
    assert place.why().passing
    assert place.part.read_bytes() == WEIGHTS[:100_000]
    assert place.fetch() == WEIGHTS
    assert place.ranges == [None, "bytes=100000-"]
    assert sum(seen.sent for seen in place.hub.bodies("model.safetensors")) == len(WEIGHTS)
    assert place.moved == len(WEIGHTS)


def test_d02_a_line_that_breaks_every_few_bytes_gets_there(place: Place) -> None:
    place.hub.misbehave("model.safetensors", Drop(after=70_000), times=None)
    for _ in range(4):
        place.why()
    assert place.fetch() == WEIGHTS
    assert place.ranges == [None, *(f"bytes={at}-" for at in (70_000, 140_000, 210_000, 280_000))]


def test_d03_silence_ends_by_itself_and_keeps_what_came(tmp_path: Path) -> None:
    with Hub() as hub:
        place = Place(hub, tmp_path, read=0.1)
        with place.connection:
            hub.misbehave("model.safetensors", Silence(after=50_000))
            error = place.why()
            assert (error.report.code, error.passing) == ("timeout", True)
            assert place.fetch() == WEIGHTS
        assert place.ranges == [None, "bytes=50000-"]


def test_d06_a_wrong_byte_is_found_and_the_file_fetched_again_alone(place: Place) -> None:
    place.hub.misbehave("model.safetensors", WrongBytes(at=123_456))
    error = place.why()
    assert (error.report.code, error.passing, place.moved) == ("damaged", True, 0)
    assert place.fetch() == WEIGHTS
    assert place.ranges == [None, None]


def test_d06_a_wrong_byte_of_a_small_file_is_found_too(place: Place) -> None:
    place.hub.misbehave("config.json", WrongBytes(at=2))
    assert place.why("config.json").report.code == "damaged"


def test_d06_the_right_bytes_in_the_wrong_place_are_found(place: Place) -> None:
    place.blobs.mkdir(parents=True)
    place.part.write_bytes(WEIGHTS[1:100_001])
    assert place.why().report.code == "damaged"
    assert place.fetch() == WEIGHTS


def test_a_server_that_ignores_ranges_costs_time_and_nothing_else(place: Place) -> None:
    place.hub.misbehave("model.safetensors", Drop(after=100_000))
    place.why()
    place.hub.misbehave("model.safetensors", IgnoreRange())
    assert place.fetch() == WEIGHTS
    assert place.moved == len(WEIGHTS)


@pytest.mark.parametrize("path", FILES)
def test_d07_a_sign_in_page_is_not_stored(place: Place, path: str) -> None:
    place.hub.misbehave(path, LOGIN_PAGE)
    assert place.why(path).report.code == "web_page"
    place.hub.misbehave(path, LOGIN_PAGE, stage="resolve")
    assert place.why(path).report.code == "web_page"
    assert held(place.files[path], place.blobs) == 0
    assert place.fetch(path) == FILES[path]


def test_another_content_than_the_list_names_is_not_fetched(place: Place) -> None:
    place.hub.misbehave("model.safetensors", OtherEtag(), stage="resolve")
    assert place.why().report.code == "changed"
    assert not place.ranges


def test_d25_a_mirror_may_send_on_without_a_word_and_the_hash_tells(place: Place) -> None:
    away = f"{place.hub.store}/store/{REPO}/{place.commit}/model.safetensors?X-Signature=1"
    place.hub.misbehave("model.safetensors", Answer(302, b"", {"Location": away}), stage="resolve")
    place.hub.misbehave("model.safetensors", WrongBytes(at=1))
    assert place.why().report.code == "damaged"
    place.hub.misbehave("model.safetensors", Answer(302, b"", {"Location": away}), stage="resolve")
    assert place.fetch() == WEIGHTS


def test_a_body_longer_than_the_file_is_refused(place: Place) -> None:
    place.hub.misbehave("model.safetensors", Answer(200, WEIGHTS + b"more"))
    assert place.why().report.code == "changed"


@pytest.mark.parametrize("left", [b"", WEIGHTS[:7], WEIGHTS, WEIGHTS + b"and more of something else"])
def test_d30_whatever_a_leftover_holds_the_file_comes_out_right(place: Place, left: bytes) -> None:
    place.blobs.mkdir(parents=True)
    place.part.write_bytes(left)
    assert place.fetch() == WEIGHTS


@given(
    data=st.data(),
    size=st.integers(0, 5000),
    faults=st.lists(
        st.one_of(
            st.builds(Drop, st.integers(0, 5000)),
            st.builds(Short, st.integers(0, 5000)),
            st.builds(WrongBytes, st.integers(0, 4999)),
            st.just(IgnoreRange()),
        ),
        max_size=4,
    ),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_goes_wrong_in_whatever_order_only_right_bytes_are_seen(
    crowd: tuple[Hub, Connection, Path], data: st.DataObject, size: int, faults: list[Fault]
) -> None:
    hub, connection, cache = crowd
    content = Generated(size, seed=data.draw(st.integers(0, 1 << 30)))
    commit = hub.add(REPO, {"model.safetensors": content})
    file = listing(connection, REPO).files[0]
    hub.behave()
    for fault in faults:
        hub.misbehave("model.safetensors", fault)
    blobs = cache / "models--somebody--tiny" / "blobs"
    tries: list[HubError | None] = []
    while not tries or tries[-1] is not None:
        try:
            fetch(connection, REPO, commit, file, blobs, Stop())
            tries.append(None)
        except HubError as error:
            tries.append(error)
        assert (blobs / file.etag).exists() == (tries[-1] is None)
        assert len(tries) <= len(faults) + 1
    assert all(error is None or error.passing for error in tries)
    assert (blobs / file.etag).read_bytes() == b"".join(content.read(0, size))


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Connection, Path]]:
    with Hub() as hub, Connection(hub.endpoint, hub_token="") as connection:
        yield hub, connection, tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("fault", [Silence(after=50_000), Drip(size=1000, pause=0.05)])
def test_d12_a_stop_ends_it_at_once_and_keeps_what_came(place: Place, fault: Fault) -> None:
    place.hub.misbehave("model.safetensors", fault)
    stop, came = Stop(), threading.Event()
    outcome: list[object] = []

    def run() -> None:
        try:
            fetch(
                *(place.connection, REPO, place.commit, place.files["model.safetensors"], place.blobs, stop),
                moved=lambda _: came.set(),
            )
        except BaseException as error:
            outcome.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    assert came.wait(5)
    stop.ask()
    thread.join(1)
    assert not thread.is_alive()
    assert outcome == [Stopped]
    assert 0 < held(place.files["model.safetensors"], place.blobs) < len(WEIGHTS)
    place.hub.behave()
    assert place.fetch() == WEIGHTS


def test_two_programs_do_not_write_the_same_file(place: Place) -> None:
    locks = place.blobs.parents[1] / ".locks" / "models--somebody--tiny"
    lock = locks / f"{place.files['model.safetensors'].etag}.lock"
    locks.mkdir(parents=True)
    with FileLock(lock):
        error = place.why()
    assert (error.report.code, error.passing) == ("in_use", True)
    assert place.fetch() == WEIGHTS


def test_d16_a_disk_with_too_little_room_is_not_filled(place: Place) -> None:
    error = place.why(room=RESERVE + 1000)
    assert (error.report.code, error.passing) == ("disk_full", False)
    assert place.fetch(room=RESERVE + len(WEIGHTS)) == WEIGHTS


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_d16_a_disk_that_is_full_says_so_and_keeps_what_there_is(place: Place) -> None:
    place.blobs.mkdir(parents=True)
    place.part.symlink_to("/dev/full")
    error = place.why()
    assert (error.report.code, error.passing) == ("disk_full", False)


@pytest.mark.parametrize(("refused", "is_there"), [(errno.EIO, False), (errno.EDQUOT, False), (errno.EINVAL, True)])
def test_d16_what_a_disk_could_not_keep_after_all_is_no_file(
    place: Place, monkeypatch: pytest.MonkeyPatch, refused: int, is_there: bool
) -> None:
    def sync(_: int) -> None:
        raise OSError(refused, os.strerror(refused))

    folder = place.publish()
    file = place.files["model.safetensors"]
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", sync)
        bring_to_disk([file], folder)
    assert (place.blobs / file.etag).exists() is is_there
    assert held(file, place.blobs) == file.size
    assert place.fetch() == WEIGHTS


def test_d16_on_a_disk_without_links_what_it_could_not_keep_is_no_file_either(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As external disks often are, which are pulled out too."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    def sync(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = place.files["model.safetensors"]
    with monkeypatch.context() as patched:
        patched.setattr(Path, "symlink_to", refuse)
        patched.setattr(os, "fsync", sync)
        folder = place.publish()
        assert (folder / file.path).read_bytes() == WEIGHTS
        bring_to_disk([file], folder)
    assert not (folder / file.path).exists()
    assert held(file, place.blobs) == file.size
    assert place.fetch() == WEIGHTS


def test_d16_what_other_repos_use_too_is_no_part_of_one_of_them(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = place.files["model.safetensors"]
    shared = tmp_path / "shared"
    place.publish()
    (place.blobs / file.etag).rename(shared)
    (place.blobs / file.etag).symlink_to(shared)
    folder = place.publish()

    def sync(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", sync)
        bring_to_disk([file], folder)
    assert list(place.blobs.glob(f"{file.etag}*")) == []
    assert shared.read_bytes() == WEIGHTS


@pytest.mark.skipif(os.geteuid() == 0 and sys.platform == "linux", reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_said_to_be_one(place: Place) -> None:
    place.blobs.parent.mkdir(parents=True)
    place.blobs.parent.chmod(0o500)
    try:
        assert place.why().report.code == "read_only"
    finally:
        place.blobs.parent.chmod(0o700)


def test_d27_a_disk_that_is_gone_is_said_to_be(place: Place, tmp_path: Path) -> None:
    place.blobs = tmp_path / "plugged" / "models--somebody--tiny" / "blobs"
    (tmp_path / "plugged").write_bytes(b"")  # where the disk was, there is no folder
    assert place.why().report.code == "disk_gone"
    (tmp_path / "plugged").unlink()
    assert place.fetch() == WEIGHTS
    shutil.rmtree(place.blobs)
    assert place.fetch() == WEIGHTS


# ---------------------------------------------------------------- what there is to fetch


def test_d11_heads_come_along_wherever_they_lie_and_other_formats_do_not() -> None:
    taken = [
        *("config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors", "tokenizer.model"),
        *("mtp.safetensors", "mtp/weights.safetensors", "chat_template.jinja", "LICENSE", "README.md"),
    ]
    left = [
        *("pytorch_model.bin", "model.gguf", ".gitattributes", "original/model.safetensors", "modeling_x.py"),
        *("consolidated.safetensors", "picture.png", "onnx/model.onnx", "training_args.bin"),
    ]
    assert [path for path in taken + left if is_wanted(path)] == taken


SHA1 = "a" * 40


@pytest.mark.parametrize(
    "entry",
    [
        *(
            {"path": path, "size": 1, "oid": SHA1}
            for path in ("../x.json", "/etc/x", "a//b", "", "a/../b", "C:x", "a\\b")
        ),
        {"path": "x.json", "size": -1, "oid": SHA1},
        {"path": "x.json", "size": True, "oid": SHA1},
        {"path": "x.json", "size": 1, "oid": "../../x"},
        {"path": "x.json", "size": 1, "oid": SHA1, "lfs": {"oid": "../x", "size": 1}},
        {"path": "x.json"},
    ],
    ids=str,
)
def test_a_list_cannot_name_files_outside_the_models_folder(entry: dict[str, object]) -> None:
    with pytest.raises(HubError):
        read_tree([{"type": "file", **entry}])


def test_a_list_reads_sizes_and_hashes_of_small_and_large_files(place: Place) -> None:
    assert place.files["model.safetensors"].etag == hashlib.sha256(WEIGHTS).hexdigest()
    config = FILES["config.json"]
    assert place.files["config.json"] == RemoteFile(
        "config.json", len(config), Bytes(config).git_sha1, Bytes(config).git_sha1
    )
