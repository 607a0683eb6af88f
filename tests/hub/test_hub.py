"""The hub for tests is one to the hub's own client too."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError
from hypothesis import given
from hypothesis import strategies as st

from tests.checkpoints import build
from tests.hub import (
    LOGIN_PAGE,
    Answer,
    Bytes,
    Drop,
    Fault,
    Generated,
    Hub,
    IgnoreRange,
    OtherEtag,
    RedirectLoop,
    Short,
    Silence,
    WrongBytes,
)
from tests.hub.contents import BLOCK

WEIGHTS = hashlib.shake_128(b"weights").digest(100_000)
FILES = {"config.json": b"{}", "mtp/model.safetensors": WEIGHTS, "model.safetensors": Generated(3 * BLOCK + 5)}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


def url(hub: Hub, path: str) -> str:
    return f"{hub.endpoint}/somebody/tiny/resolve/main/{path}"


def get(hub: Hub, path: str, timeout: float = 5.0, **headers: str) -> httpx.Response:
    return httpx.get(url(hub, path), headers=headers, follow_redirects=True, timeout=timeout)


def test_a_generated_checkpoint_comes_down_byte_for_byte_with_the_hubs_own_client(hub: Hub, tmp_path: Path) -> None:
    folder = build(tmp_path / "made", shards=2)
    commit = hub.add("somebody/tiny", folder)
    got = Path(snapshot_download("somebody/tiny", endpoint=hub.endpoint, cache_dir=tmp_path / "cache"))
    assert got.name == commit
    assert {path.name: path.read_bytes() for path in got.iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }


def test_large_files_come_from_another_origin_and_small_ones_from_the_hub(hub: Hub) -> None:
    commit = hub.add("somebody/tiny", FILES)
    head = httpx.head(url(hub, "mtp/model.safetensors"))
    assert head.status_code == 302
    assert head.headers["x-linked-etag"] == f'"{hashlib.sha256(WEIGHTS).hexdigest()}"'
    assert head.headers["x-linked-size"] == "100000"
    assert head.headers["x-repo-commit"] == commit
    assert head.headers["location"].startswith(hub.store)
    assert get(hub, "mtp/model.safetensors").content == WEIGHTS
    assert get(hub, "config.json").content == b"{}"
    assert [(seen.origin, seen.stage) for seen in hub.requests[1:]] == [
        *[("hub", "resolve"), ("store", "body")],
        *[("hub", "resolve"), ("hub", "body")],
    ]


def test_what_is_said_of_files_agrees_with_the_files(hub: Hub) -> None:
    hub.add("somebody/tiny", FILES)
    api = HfApi(endpoint=hub.endpoint)
    info = api.model_info("somebody/tiny", files_metadata=True)
    listed = {entry.path: entry for entry in api.list_repo_tree("somebody/tiny", recursive=True)}
    assert set(listed) == {*FILES, "mtp"}
    for sibling in info.siblings or []:
        entry = listed[sibling.rfilename]
        assert (sibling.size, sibling.blob_id) == (entry.size, entry.blob_id)
    assert listed["config.json"].blob_id == hashlib.sha1(b"blob 2\0{}").hexdigest()
    assert listed["mtp/model.safetensors"].lfs.sha256 == hashlib.sha256(WEIGHTS).hexdigest()


def test_lists_come_in_pages() -> None:
    with Hub(page=3) as hub:
        for number in range(8):
            hub.add(f"somebody/model-{number}", {f"{file}.json": b"{}" for file in range(7)}, downloads=number)
        api = HfApi(endpoint=hub.endpoint)
        assert [model.id[-1] for model in api.list_models(search="model", filter="mlx")] == list("76543210")
        assert len(list(api.list_repo_tree("somebody/model-0"))) == 7
        assert [seen.stage for seen in hub.requests].count("tree") == 3


def test_an_update_leaves_the_older_revision_where_it_was(hub: Hub) -> None:
    old = hub.add("somebody/tiny", {"config.json": b"old"})
    new = hub.add("somebody/tiny", {"config.json": b"new"})
    assert HfApi(endpoint=hub.endpoint).model_info("somebody/tiny").sha == new
    assert get(hub, "config.json").content == b"new"
    older = httpx.get(f"{hub.endpoint}/somebody/tiny/resolve/{old}/config.json", follow_redirects=True)
    assert older.content == b"old"


def test_gated_private_and_unknown_models_are_refused_as_the_hub_does(hub: Hub, tmp_path: Path) -> None:
    hub.add("somebody/gated", FILES, gated=True)
    hub.add("somebody/private", FILES, private=True)
    hub.tokens |= {"hf_reader": frozenset({"somebody/gated", "somebody/private"}), "hf_other": frozenset()}

    def pull(repo: str, token: str | bool) -> None:
        snapshot_download(repo, token=token, endpoint=hub.endpoint, cache_dir=tmp_path)

    for token in (False, "hf_other"):
        with pytest.raises(GatedRepoError):
            pull("somebody/gated", token)
        for repo in ("somebody/private", "somebody/unknown"):
            with pytest.raises(RepositoryNotFoundError):
                pull(repo, token)
    with pytest.raises(HfHubHTTPError, match="401"):
        pull("somebody/gated", "hf_wrong")
    pull("somebody/gated", "hf_reader")
    pull("somebody/private", "hf_reader")
    assert not any("authorization" in seen.headers for seen in hub.requests if seen.origin == "store")


@given(st.data())
def test_any_part_of_any_content_is_its_bytes(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 3 * BLOCK))
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    content = Generated(size, seed=data.draw(st.integers(0, 9)))
    whole = b"".join(content.read(0, size))
    assert len(whole) == size
    assert b"".join(content.read(start, stop)) == whole[start:stop] == b"".join(Bytes(whole).read(start, stop))


def test_ranges_are_answered_with_just_that_part(hub: Hub) -> None:
    hub.add("somebody/tiny", FILES)
    for asked, start, stop in (("10-19", 10, 20), ("99990-", 99_990, 100_000), ("-7", 99_993, 100_000)):
        part = get(hub, "mtp/model.safetensors", Range=f"bytes={asked}")
        assert (part.status_code, part.content) == (206, WEIGHTS[start:stop])
        assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/100000"
    assert get(hub, "mtp/model.safetensors", Range="bytes=100000-").status_code == 416


def test_a_fault_comes_as_often_as_was_asked_for(hub: Hub) -> None:
    hub.add("somebody/tiny", FILES)
    hub.misbehave("config.json", Answer(503), times=2)
    assert [get(hub, "config.json").status_code for _ in range(3)] == [503, 503, 200]
    hub.misbehave("config.json", Answer(429, b"", {"Retry-After": "7"}), stage="resolve", times=None)
    assert [get(hub, "config.json").headers["retry-after"] for _ in range(3)] == ["7"] * 3
    hub.behave()
    assert get(hub, "config.json").status_code == 200


@pytest.mark.parametrize("fault", [Drop(after=1000), Silence(after=1000)])
def test_a_body_that_breaks_off_gave_what_came_before(hub: Hub, fault: Fault) -> None:
    hub.add("somebody/tiny", FILES)
    hub.misbehave("mtp/model.safetensors", fault)
    with pytest.raises(httpx.TransportError):
        get(hub, "mtp/model.safetensors", timeout=0.3)
    assert hub.bodies("mtp/model.safetensors")[0].sent == 1000
    assert get(hub, "mtp/model.safetensors").content == WEIGHTS


def test_bodies_can_be_short_wrong_or_whole_where_a_part_was_asked_for(hub: Hub) -> None:
    hub.add("somebody/tiny", FILES)
    path = "mtp/model.safetensors"
    hub.misbehave(path, Short(by=10))
    assert get(hub, path).content == WEIGHTS[:-10]
    hub.misbehave(path, WrongBytes(at=777))
    wrong = get(hub, path).content
    assert [at for at in range(len(WEIGHTS)) if wrong[at] != WEIGHTS[at]] == [777]
    hub.misbehave(path, IgnoreRange())
    whole = get(hub, path, Range="bytes=10-")
    assert (whole.status_code, whole.content) == (200, WEIGHTS)


def test_it_can_send_pages_other_names_and_clients_in_circles(hub: Hub) -> None:
    hub.add("somebody/tiny", FILES)
    hub.misbehave("config.json", LOGIN_PAGE)
    page = get(hub, "config.json")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    hub.misbehave("config.json", OtherEtag("1" * 40), stage="resolve")
    assert httpx.head(url(hub, "config.json")).headers["etag"] == f'"{"1" * 40}"'
    hub.misbehave("config.json", RedirectLoop(), stage="resolve", times=None)
    with pytest.raises(httpx.TooManyRedirects):
        get(hub, "config.json")


def test_every_connection_can_be_cut_at_once(hub: Hub) -> None:
    hub.add("somebody/tiny", FILES)
    hub.misbehave("model.safetensors", Silence(after=10))
    with httpx.stream("GET", url(hub, "model.safetensors"), follow_redirects=True) as answer:
        blocks = answer.iter_raw()
        next(blocks)
        hub.hang_up()
        with pytest.raises(httpx.TransportError):
            next(blocks)
