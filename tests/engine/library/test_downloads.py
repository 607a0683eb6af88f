"""Downloads of whole models, from a hub that does not always behave, to what other tools find in the cache."""

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import IncompleteSnapshotError
from hypothesis import given
from hypothesis import strategies as st

from engine.library import snapshot
from engine.library.connection import Connection
from engine.library.downloads import DAMAGED, FIRST_WAIT, PATIENCE, Downloads
from engine.library.pace import STALLED, WINDOW, Clock, Pace, Waits
from engine.library.transfer import RESERVE
from engine.types import Download
from tests.hub import LOGIN_PAGE, Answer, Bytes, Content, Drip, Drop, Generated, Hub, Silence, WrongBytes

REPO = "somebody/tiny"
SHARDS = {f"model-0000{number}-of-00003.safetensors": Generated(400_000 + number, seed=number) for number in (1, 2, 3)}
FILES: dict[str, Content] = {
    "config.json": Bytes(b'{"model_type": "qwen3_5"}'),
    "tokenizer.json": Bytes(b"{}"),
    "mtp/weights.safetensors": Generated(50_000, seed=9),
    "model.safetensors.index.json": Bytes(
        json.dumps({"weight_map": {name: name for name in SHARDS}}).encode(),
    ),
    **SHARDS,
}
SHARD = "model-00002-of-00003.safetensors"


class Fast(Clock):
    """A clock that tests move on; who waits has waited at once."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.waited: list[float] = []
        self.held = threading.Event()
        self.held.set()

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float, stop: Waits) -> bool:
        self.waited.append(seconds)
        self.time += seconds
        while not self.held.wait(0.01):
            if stop.wait(0):
                return True
        return stop.wait(0)


class Desk:
    """A hub with a model, a cache, and downloads as an app has them."""

    def __init__(self, hub: Hub, root: Path) -> None:
        self.hub, self.cache, self.state = hub, root / "hub", root / "state" / "downloads.json"
        self.clock = Fast()
        self.token = ""
        self.free = 1 << 40
        self.read = 5.0
        self._open: list[Downloads] = []

    def downloads(self, at_once: int = 2) -> Downloads:
        """As a start of the app makes them."""
        made = Downloads(
            self.cache,
            self.state,
            connect=lambda: Connection(self.hub.endpoint, hub_token=self.token, read=self.read),
            clock=self.clock,
            room=lambda _: self.free,
            at_once=at_once,
        )
        self._open.append(made)
        return made

    def pull(self, repo: str = REPO) -> Download:
        downloads = self.downloads()
        ended = downloads.wait(downloads.add(repo), 20)
        assert ended is not None
        return ended

    @property
    def folder(self) -> Path:
        return snapshot.repo_folder(self.cache, REPO)

    def close(self) -> None:
        for downloads in self._open:
            downloads.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Hub() as hub:
        desk = Desk(hub, tmp_path)
        hub.add(REPO, FILES)
        yield desk
        desk.close()


def whole(folder: Path, files: dict[str, Content] = FILES) -> bool:
    """Whether a folder holds just these files, byte for byte."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return found == {path: b"".join(content.read(0, content.size)) for path, content in files.items()}


def until(true: Callable[[], bool]) -> None:
    """Let the threads go on until something is so."""
    waiting = threading.Event()
    for _ in range(1000):
        if true():
            return
        waiting.wait(0.005)
    raise AssertionError("it never was")


def test_a_model_comes_down_and_every_tool_finds_it(desk: Desk) -> None:
    ended = desk.pull()
    assert (ended.state, ended.share, ended.have) == ("done", 1.0, sum(content.size for content in FILES.values()))
    assert whole(Path(ended.folder))
    assert try_to_load_from_cache(REPO, "config.json", cache_dir=desk.cache) == f"{ended.folder}/config.json"
    assert snapshot_download(REPO, cache_dir=desk.cache, local_files_only=True) == ended.folder
    assert not snapshot.parts(desk.folder)


def test_a_model_that_has_come_is_written_to_the_disk_and_nobody_waits_for_that(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: set[int] = set()  # what other tests have left to write may be among it
    slow = threading.Event()

    def write(file: int) -> None:
        assert slow.wait(10)
        written.add(os.fstat(file).st_ino)

    monkeypatch.setattr(os, "fsync", write)
    assert desk.pull().state == "done"
    assert not written
    slow.set()
    until(lambda: {blob.stat().st_ino for blob in (desk.folder / "blobs").iterdir()} <= written)


def test_the_hubs_own_client_has_nothing_left_to_fetch(desk: Desk) -> None:
    ended = desk.pull()
    desk.hub.requests.clear()
    assert snapshot_download(REPO, cache_dir=desk.cache, endpoint=desk.hub.endpoint) == ended.folder
    assert not desk.hub.bodies("")


def test_two_files_come_at_a_time_and_no_more(desk: Desk) -> None:
    for name in SHARDS:
        desk.hub.misbehave(name, Silence(after=1000))
    downloads = desk.downloads()
    id = downloads.add(REPO)
    until(lambda: sum(bool(desk.hub.bodies(name)) for name in SHARDS) == 2)
    downloads.pause(id)
    assert sum(bool(desk.hub.bodies(name)) for name in SHARDS) == 2


def test_a_second_model_waits_for_its_turn(desk: Desk) -> None:
    desk.hub.add("somebody/other", {"config.json": b"{}"})
    desk.hub.misbehave("safetensors", Silence(after=1000), times=2)
    downloads = desk.downloads()
    first = downloads.add(REPO)
    until(lambda: len(desk.hub.bodies("safetensors")) == 2)
    second = downloads.add("somebody/other")
    assert [download.state for download in downloads.all()] == ["fetching", "queued"]
    downloads.pause(first)
    ended = downloads.wait(second, 20)
    assert ended is not None
    assert ended.state == "done"


def test_d02_many_drops_cost_no_byte_twice_and_need_nobody(desk: Desk) -> None:
    desk.hub.misbehave(SHARD, Drop(after=60_000), times=6)
    ended = desk.pull()
    assert ended.state == "done"
    assert sum(seen.sent for seen in desk.hub.bodies(SHARD)) == SHARDS[SHARD].size
    assert all(
        0.75 <= wait / FIRST_WAIT <= 1.25 for wait in desk.clock.waited
    )  # something came each time: no longer waits


def test_d04_a_hub_in_trouble_is_asked_again_ever_more_rarely_and_as_it_wishes(desk: Desk) -> None:
    desk.hub.misbehave(REPO, Answer(503), times=4, stage="info")
    desk.hub.misbehave(REPO, Answer(429, b"", {"Retry-After": "120"}), stage="tree")
    assert desk.pull().state == "done"
    for number, wait in enumerate(desk.clock.waited[:4]):
        assert 0.75 * 2**number <= wait / FIRST_WAIT <= 1.25 * 2**number
    assert desk.clock.waited[4] == 120


def test_d04_it_gives_up_only_after_a_quarter_of_an_hour_without_a_byte(desk: Desk) -> None:
    desk.hub.misbehave(SHARD, Answer(503), times=None)
    started = desk.clock.now()
    ended = desk.pull()
    assert ended.state == "failed"
    assert ended.error is not None
    assert ended.error.code == "hub_down"
    assert ended.error.kept == "What was downloaded so far is kept."
    assert PATIENCE <= desk.clock.now() - started <= PATIENCE + 75
    desk.hub.behave()
    assert desk.pull().state == "done"


def test_d03_what_it_waits_for_is_said_while_it_waits(desk: Desk) -> None:
    desk.read = 0.1
    desk.hub.misbehave("safetensors", Silence(after=10), times=None)
    desk.clock.held.clear()
    downloads = desk.downloads()
    id = downloads.add(REPO)
    until(lambda: downloads.all()[0].state == "waiting")
    seen = downloads.all()[0]
    assert (seen.rate, seen.seconds_left, seen.error is not None and seen.error.code) == (0.0, None, "timeout")
    desk.hub.behave()
    desk.clock.held.set()
    ended = downloads.wait(id, 20)
    assert ended is not None
    assert ended.state == "done"


def test_d03_what_it_waits_for_is_said_before_there_is_a_list_of_files_too(desk: Desk) -> None:
    desk.hub.misbehave(REPO, Answer(503), times=None, stage="info")
    desk.clock.held.clear()
    downloads = desk.downloads()
    downloads.add(REPO)
    until(lambda: downloads.all()[0].state == "waiting")
    seen = downloads.all()[0]
    assert (seen.retry_in is not None, seen.error is not None and seen.error.code) == (True, "hub_down")
    desk.clock.held.set()


def test_d03_a_transfer_without_a_byte_for_a_while_is_called_stalled(desk: Desk) -> None:
    desk.hub.misbehave("safetensors", Silence(after=1000), times=None)
    downloads = desk.downloads()
    downloads.add(REPO)
    until(lambda: downloads.all()[0].have > 2000)
    assert downloads.all()[0].state == "fetching"
    desk.clock.time += STALLED
    assert (downloads.all()[0].state, downloads.all()[0].rate) == ("stalled", 0.0)


def test_d06_a_damaged_file_is_fetched_again_alone(desk: Desk) -> None:
    desk.hub.misbehave(SHARD, WrongBytes(at=5))
    ended = desk.pull()
    assert ended.state == "done"
    assert [len(desk.hub.bodies(name)) for name in SHARDS] == [1, 2, 1]
    assert whole(Path(ended.folder))


def test_d06_a_file_that_is_always_damaged_ends_in_words(desk: Desk) -> None:
    desk.hub.misbehave(SHARD, WrongBytes(at=5), times=None)
    ended = desk.pull()
    assert ended.error is not None
    assert (ended.state, ended.error.code, len(desk.hub.bodies(SHARD))) == ("failed", "damaged", DAMAGED)
    assert not (desk.folder / "snapshots").exists()


@pytest.mark.parametrize(
    ("fault", "code"),
    [(LOGIN_PAGE, "web_page"), (Answer(404), "not_found"), (Answer(403), "forbidden"), (Answer(402), "quota")],
    ids=["page", "404", "403", "402"],
)
def test_errors_that_waiting_does_not_mend_end_at_once_and_keep_what_came(desk: Desk, fault: Answer, code: str) -> None:
    desk.hub.misbehave(SHARD, fault, times=None)
    ended = desk.pull()
    assert ended.error is not None
    assert (ended.state, ended.error.code, desk.clock.waited) == ("failed", code, [])
    assert ended.error.next_step
    assert "kept" in ended.error.kept


def test_d21_a_gated_model_goes_on_once_there_is_a_token_without_a_restart(desk: Desk) -> None:
    desk.hub.add("somebody/gated", FILES, gated=True)
    desk.hub.tokens["hf_reader"] = frozenset({"somebody/gated"})
    downloads = desk.downloads()
    id = downloads.add("somebody/gated")
    refused = downloads.wait(id, 20)
    assert refused is not None
    assert refused.error is not None
    assert (refused.error.code, refused.page) == ("gated", f"{desk.hub.endpoint}/somebody/gated")
    desk.token = "hf_reader"
    downloads.resume(id)
    ended = downloads.wait(id, 20)
    assert ended is not None
    assert ended.state == "done"
    assert "hf_reader" not in "".join(path.read_text(errors="replace") for path in desk.state.parent.iterdir())


def test_d12_a_pause_ends_it_within_a_second_and_resume_goes_on(desk: Desk) -> None:
    desk.hub.misbehave("safetensors", Drip(size=500, pause=0.02), times=2)
    downloads = desk.downloads()
    id = downloads.add(REPO)
    until(lambda: downloads.all()[0].have > 2000)
    downloads.pause(id)
    paused = downloads.wait(id, 1)
    assert paused is not None
    assert paused.state == "paused"
    desk.hub.behave()
    downloads.resume(id)
    ended = downloads.wait(id, 20)
    assert ended is not None
    assert ended.state == "done"
    assert whole(Path(ended.folder))


def test_d13_d20_pausing_keeps_what_came_and_discarding_leaves_nothing(desk: Desk) -> None:
    desk.hub.misbehave("safetensors", Silence(after=1000), times=2)
    downloads = desk.downloads()
    id = downloads.add(REPO)
    until(lambda: downloads.all()[0].have > 2000)
    downloads.pause(id)
    downloads.wait(id, 5)
    assert snapshot.parts(desk.folder)
    downloads.discard(id)
    assert downloads.wait(id, 5) is None
    assert not downloads.all()
    assert [path for path in desk.cache.rglob("*") if path.is_file()] == []


def test_d13_discarding_what_runs_stops_it_first(desk: Desk) -> None:
    desk.hub.misbehave("safetensors", Silence(after=1000), times=2)
    downloads = desk.downloads()
    id = downloads.add(REPO)
    until(lambda: downloads.all()[0].have > 2000)
    downloads.discard(id)
    assert downloads.wait(id, 5) is None
    assert not desk.folder.exists()
    assert json.loads(desk.state.read_text())["downloads"] == []


def test_d13_what_is_asked_for_again_while_it_is_being_removed_is_fetched(desk: Desk) -> None:
    desk.hub.misbehave("safetensors", Silence(after=1000), times=2)
    downloads = desk.downloads()
    id = downloads.add(REPO)
    until(lambda: downloads.all()[0].have > 2000)
    downloads.discard(id)
    assert downloads.add(REPO) == id
    ended = downloads.wait(id, 20)
    assert ended is not None
    assert ended.state == "done"
    assert whole(Path(ended.folder))


def test_d01_d19_a_new_start_goes_on_where_the_last_one_ended(desk: Desk) -> None:
    desk.hub.misbehave(SHARD, Silence(after=100_000))
    downloads = desk.downloads()
    downloads.add(REPO)
    until(lambda: downloads.all()[0].have == downloads.all()[0].total - SHARDS[SHARD].size + 100_000 > 0)
    downloads.close()
    again = desk.downloads()
    found = again.all()[0]
    assert (found.state, found.have) == ("queued", found.total - SHARDS[SHARD].size + 100_000)
    again.start()
    ended = again.wait(found.id, 20)
    assert ended is not None
    assert ended.state == "done"
    assert desk.hub.bodies(SHARD)[-1].range == "bytes=100000-"
    assert [len(desk.hub.bodies(name)) for name in SHARDS] == [1, 2, 1]


def test_asking_again_for_what_was_under_way_goes_on_with_it(desk: Desk) -> None:
    desk.hub.misbehave(SHARD, Silence(after=100_000))
    downloads = desk.downloads()
    downloads.add(REPO)
    until(lambda: len(desk.hub.bodies(SHARD)) == 1)
    downloads.close()
    assert desk.pull().state == "done"


def test_what_was_paused_stays_paused_over_a_restart(desk: Desk) -> None:
    desk.hub.misbehave(SHARD, Silence(after=1000))
    downloads = desk.downloads()
    id = downloads.add(REPO)
    until(lambda: downloads.all()[0].have > 0)
    downloads.pause(id)
    downloads.close()
    again = desk.downloads()
    again.start()
    assert [download.state for download in again.all()] == ["paused"]


@pytest.mark.parametrize(
    "left", [None, "{", '{"format": 0, "downloads": 7}', '{"format": 1, "downloads": [{"repo": 1}]}']
)
def test_d18_without_its_notes_a_download_is_found_in_the_cache_and_offered(desk: Desk, left: str | None) -> None:
    desk.hub.misbehave(SHARD, Silence(after=100_000))
    downloads = desk.downloads()
    downloads.add(REPO)
    until(lambda: downloads.all()[0].have == downloads.all()[0].total - SHARDS[SHARD].size + 100_000 > 0)
    downloads.close()
    desk.state.unlink() if left is None else desk.state.write_text(left)
    again = desk.downloads()
    found = again.all()[0]
    assert (found.repo, found.state) == (REPO, "paused")
    again.resume(found.id)
    ended = again.wait(found.id, 20)
    assert ended is not None
    assert ended.state == "done"


def test_d08_nothing_half_made_is_a_model(desk: Desk) -> None:
    desk.hub.misbehave(SHARD, Silence(after=1000))
    downloads = desk.downloads()
    downloads.add(REPO)
    until(lambda: downloads.all()[0].have == downloads.all()[0].total - SHARDS[SHARD].size + 1000 > 0)
    downloads.close()
    assert try_to_load_from_cache(REPO, "config.json", cache_dir=desk.cache) is None
    assert snapshot.used_commit(desk.folder) is None


def test_an_update_leaves_the_working_copy_until_it_is_whole(desk: Desk) -> None:
    old = desk.pull()
    files = FILES | {SHARD: Generated(400_000, seed=77)}
    commit = desk.hub.add(REPO, files)
    desk.hub.misbehave(SHARD, Answer(404), times=1)
    failed = desk.pull()
    assert (failed.state, failed.commit) == ("failed", commit)
    assert snapshot.used_commit(desk.folder) == old.commit
    assert whole(Path(old.folder))
    new = desk.pull()
    assert (new.state, new.commit, snapshot.used_commit(desk.folder)) == ("done", commit, commit)
    assert whole(Path(new.folder), files)
    assert whole(Path(old.folder))
    assert [len(desk.hub.bodies(name)) for name in SHARDS] == [1, 3, 1]  # what both have came once


def test_discarding_an_update_leaves_the_working_copy(desk: Desk) -> None:
    old = desk.pull()
    desk.hub.add(REPO, FILES | {SHARD: Generated(400_000, seed=77)})
    desk.hub.misbehave(SHARD, Drop(after=1000))
    desk.hub.misbehave(SHARD, Answer(404))
    downloads = desk.downloads()
    id = downloads.add(REPO)
    assert downloads.wait(id, 20) is not None
    assert snapshot.parts(desk.folder)
    downloads.discard(id)
    assert not snapshot.parts(desk.folder)
    assert whole(Path(old.folder))
    assert snapshot.standing(Path(old.folder)).complete


def test_d16_what_the_disk_cannot_hold_is_refused_before_it_begins(desk: Desk) -> None:
    desk.free = RESERVE + 1_000_000
    ended = desk.pull()
    assert ended.error is not None
    assert (ended.state, ended.error.code) == ("failed", "disk_full")
    assert "1.3 MB more" in ended.error.what
    assert "1 MB are free" in ended.error.what
    assert not desk.hub.bodies("")


def test_d16_downloads_under_way_are_counted_in(desk: Desk) -> None:
    desk.hub.add("somebody/other", {"model.safetensors": Generated(500_000)})
    desk.free = RESERVE + 1_500_000
    desk.hub.misbehave("00003.safetensors", Silence(after=0), times=3)
    downloads = desk.downloads(at_once=4)
    downloads.add(REPO)
    until(lambda: sum(bool(desk.hub.bodies(name)) for name in SHARDS) == 3)
    refused = downloads.wait(downloads.add("somebody/other"), 20)
    assert refused is not None
    assert refused.error is not None
    assert refused.error.code == "disk_full"


def test_without_links_the_contents_themselves_lie_in_the_snapshot(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "symlink_to", refuse)
    ended = desk.pull()
    assert ended.state == "done"
    assert whole(Path(ended.folder))
    assert snapshot.standing(Path(ended.folder)).complete
    desk.hub.requests.clear()
    assert desk.pull().state == "done"
    assert not desk.hub.bodies("")


def test_a_content_under_two_names_comes_once(desk: Desk) -> None:
    desk.hub.add("somebody/twice", {"a.json": b"same", "b.json": b"same", "c/d.json": b"same"})
    ended = desk.pull("somebody/twice")
    assert (ended.state, ended.total) == ("done", 4)
    assert len(desk.hub.bodies("json")) == 1
    assert {path.read_bytes() for path in Path(ended.folder).rglob("*.json")} == {b"same"}


def test_d08_the_hubs_own_client_is_told_what_is_missing(desk: Desk) -> None:
    ended = desk.pull()
    (Path(ended.folder) / SHARD).unlink()
    with pytest.raises(IncompleteSnapshotError):
        snapshot_download(REPO, cache_dir=desk.cache, local_files_only=True)


# ---------------------------------------------------------------- how fast, and how long still


def test_the_rate_is_that_of_the_last_seconds() -> None:
    pace = Pace(0.0)
    for second in range(1, 31):
        pace.add(50 if second <= 15 else 10, float(second))
    assert pace.rate(30.0) == pytest.approx(10)
    assert pace.rate(30.0 + WINDOW / 2) == pytest.approx(5, rel=0.2)
    assert pace.rate(30.0 + 2 * WINDOW) == 0.0
    assert pace.quiet(30.0 + STALLED) == STALLED


@given(st.lists(st.tuples(st.floats(0.001, 3), st.integers(0, 10**9)), max_size=60), st.floats(0, 100))
def test_a_rate_is_never_more_than_all_that_came_nor_less_than_nothing(
    steps: list[tuple[float, int]], after: float
) -> None:
    pace, now = Pace(0.0), 0.0
    for seconds, amount in steps:
        now += seconds
        pace.add(amount, now)
    assert 0 <= pace.rate(now + after) <= sum(amount for _, amount in steps) / 0.2 + 1e-6


def test_a_pause_counts_neither_for_the_rate_nor_as_stalled() -> None:
    pace = Pace(0.0)
    pace.add(1000, 1.0)
    pace.rest(500.0)
    assert (pace.rate(500.5), pace.quiet(500.5)) == (0.0, 0.5)
