"""Large files: how they are seen to come, what decides before they begin, and which way they come."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from engine.library import snapshot
from engine.types import Download
from tests.engine.library.test_downloads import FILES, REPO, Desk, desk, until, whole
from tests.hub import Answer, Drip, Generated
from tests.hub.repos import Revision, tree

__all__ = ["desk"]


class Announced(Generated):
    """A file whose hash is only said: nobody reads all of it."""

    sha256 = "5a" * 32
    git_sha1 = "5a" * 20


def test_d24_progress_moves_all_the_time_and_never_back_and_the_whole_is_known_from_the_start(desk: Desk) -> None:
    desk.hub.misbehave("safetensors", Drip(size=1 << 13, pause=0.01), times=None)
    downloads, seen = desk.downloads(), list[Download]()
    downloads.add(REPO)

    def look() -> bool:
        (now,) = downloads.all()
        seen.append(now)
        return now.state == "done"

    until(look)
    coming = [each for each in seen if each.files]
    total = sum(content.size for content in FILES.values())
    assert {each.total for each in coming} == {total}
    have = [each.have for each in coming]
    assert have == sorted(have)
    assert have[-1] == total
    steps = [after - before for before, after in pairwise(have)]
    assert max(steps) < total / 5


def test_d29_a_file_of_51_gb_is_weighed_before_it_begins_and_comes_as_any_other(desk: Desk) -> None:
    large = "somebody/large"
    desk.hub.add(large, {"config.json": b"{}", "model.safetensors": Announced(51_000_000_000)})
    desk.hub.misbehave("model.safetensors", Drip(size=1 << 14, pause=0.01), times=None)
    desk.free = 40_000_000_000
    downloads = desk.downloads()
    id = downloads.add(large)
    refused = downloads.wait(id, 5)
    assert refused is not None
    assert refused.error is not None
    assert refused.error.code == "disk_full"
    assert "51 GB" in refused.error.what
    assert not desk.hub.bodies("model.safetensors")

    desk.free = 60_000_000_000
    downloads.resume(id)
    until(lambda: downloads.all()[0].have > 100_000)
    assert downloads.all()[0].state == "fetching"
    assert downloads.all()[0].total == 51_000_000_002
    downloads.discard(id)
    downloads.wait(id, 5)


def test_d29_models_lie_outside_the_app() -> None:
    assert not snapshot.cache_folder().resolve().is_relative_to(Path(snapshot.__file__).parents[2])


def test_d23_a_file_of_the_hubs_newer_store_comes_over_plain_http(desk: Desk) -> None:
    entries = [entry | {"xetHash": "5a" * 32} for entry in tree(Revision("", FILES), "", recursive=True)]
    desk.hub.misbehave(REPO, Answer(200, json.dumps(entries).encode()), stage="tree")
    ended = desk.pull()
    assert ended.state == "done"
    assert whole(Path(ended.folder))
    assert {seen.stage for seen in desk.hub.requests} == {"info", "tree", "resolve", "body"}, "and nothing else"
