"""The models that are here: which are whole, how much room they take, what deleting one leaves to the others."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import snapshot_download
from huggingface_hub.utils._shared_blobs import publish_blob_to_shared_store

from engine.errors import EngineError, ModelError
from engine.library import snapshot
from engine.library.connection import Connection
from engine.library.downloads import Downloads
from engine.library.keeping import newer, removal, remove, remove_older, verify
from engine.library.local import resolve
from engine.library.places import Places, disk_use
from engine.library.remote import listing
from engine.types import Removal, StoredModel
from tests.checkpoints import build, drop_shard, drop_tokenizer, truncate
from tests.hub import Answer, Hub

REPO = "somebody/tiny"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("made") / "tiny", layout="mlx", shards=3)


@pytest.fixture
def hub(made: Path) -> Iterator[Hub]:
    with Hub() as hub:
        hub.add(REPO, made)
        yield hub


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    return cache


@pytest.fixture
def places(cache: Path, tmp_path: Path) -> Places:
    return Places(cache, tmp_path / "notes" / "places.json")


def pull(hub: Hub, cache: Path, repo: str = REPO) -> Path:
    with Downloads(cache, connect=lambda: Connection(hub.endpoint, hub_token="")) as downloads:
        ended = downloads.wait(downloads.add(repo), 20)
    assert ended is not None
    return Path(ended.folder) if ended.state == "done" else snapshot.repo_folder(cache, repo)


def listed(places: Places) -> list[StoredModel]:
    return [model for model in places.models() if model.origin != "box"]


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def test_the_model_in_the_box_comes_first(places: Places) -> None:
    assert [(model.name, model.origin, model.state) for model in places.models()] == [("guide", "box", "installed")]


def test_a_downloaded_model_is_listed_with_its_commit_and_what_it_takes(hub: Hub, cache: Path, places: Places) -> None:
    folder = pull(hub, cache)
    (model,) = listed(places)
    assert (model.name, model.repo, model.state, model.commit) == (REPO, REPO, "installed", folder.name)
    assert resolve(model.name) == folder == Path(model.folder)
    assert model.size == size(cache / "models--somebody--tiny")


def test_what_another_tool_downloaded_is_installed_too(hub: Hub, cache: Path, places: Places) -> None:
    snapshot_download(REPO, endpoint=hub.endpoint, cache_dir=cache, ignore_patterns=["*.md", "mtp*"])
    assert [model.state for model in listed(places)] == ["installed"]
    shutil.rmtree(cache / "models--somebody--tiny" / "trees")  # as older versions of it leave a model
    assert [model.state for model in listed(places)] == ["installed"]
    assert resolve(REPO).is_dir()


def test_d09_a_download_that_broke_off_is_partial_and_not_opened(hub: Hub, cache: Path, places: Places) -> None:
    hub.misbehave("model-00003-of-00003.safetensors", Answer(404))
    folder = pull(hub, cache)
    (model,) = listed(places)
    assert model.state == "partial"
    assert 0 < model.percent < 100
    assert model.size == size(folder)
    with pytest.raises(ModelError) as caught:
        resolve(REPO)
    assert caught.value.report.code == "model_incomplete"
    assert f"{model.percent} %" in caught.value.report.what


@pytest.mark.parametrize(
    "harm", [drop_shard, drop_tokenizer, lambda folder: truncate(folder / "model-00002-of-00003.safetensors")]
)
def test_d09_any_folder_is_judged_by_its_index_and_headers(harm: object, made: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(made, tmp_path / "copy")
    assert snapshot.standing(folder).complete
    harm(folder)  # type: ignore[operator]
    standing = snapshot.standing(folder)
    assert not standing.complete
    assert standing.percent < 100


def test_d09_one_rule_for_the_list_and_for_opening(hub: Hub, cache: Path, places: Places) -> None:
    folder = pull(hub, cache)
    shard = folder / "model-00002-of-00003.safetensors"
    blob = shard.resolve()
    truncate(blob)
    (model,) = listed(places)
    assert (model.state, model.missing) == ("partial", (shard.name,))
    with pytest.raises(ModelError, match="Only a part"):
        resolve(REPO)


def test_an_update_that_another_tool_left_half_made_does_not_hide_the_working_copy(
    hub: Hub, cache: Path, places: Places, made: Path, tmp_path: Path
) -> None:
    old = pull(hub, cache)
    changed = shutil.copytree(made, tmp_path / "changed")
    (changed / "config.json").write_text((made / "config.json").read_text() + " ")
    commit = hub.add(REPO, changed)
    snapshot_download(REPO, endpoint=hub.endpoint, cache_dir=cache, allow_patterns=["config.json"])
    assert snapshot.used_commit(cache / "models--somebody--tiny") == commit
    assert resolve(REPO) == old
    assert [(model.state, model.commit) for model in listed(places)] == [("installed", old.name)]


def test_d13_what_came_of_a_download_can_be_seen_and_removed(hub: Hub, cache: Path, places: Places) -> None:
    hub.misbehave("safetensors", Answer(404), times=None)
    pull(hub, cache)
    (model,) = listed(places)
    assert remove(model) > 0
    assert not [path for path in cache.rglob("*") if path.is_file()]
    assert not listed(places)


def test_d15_deleting_frees_what_it_says_and_leaves_nothing_that_would_pass_for_a_model(
    hub: Hub, cache: Path, places: Places
) -> None:
    folder = pull(hub, cache)
    (model,) = listed(places)
    assert remove(model) == model.size
    assert not folder.exists()
    assert not listed(places)
    hub.requests.clear()
    assert pull(hub, cache).name == folder.name
    assert len(hub.bodies("safetensors")) == 3


def test_d15_a_content_that_several_share_counts_once(hub: Hub, cache: Path, places: Places, made: Path) -> None:
    hub.add("somebody/twin", made)
    first, second = pull(hub, cache), pull(hub, cache, "somebody/twin")
    alone = disk_use(places.models())
    for path in first.iterdir():  # the same contents, kept once by a file system or a tool that knows how
        if path.name.endswith(".safetensors"):
            blob, twin = path.resolve(), (second / path.name).resolve()
            twin.unlink()
            os.link(blob, twin)
    weights = sum(path.stat().st_size for path in first.glob("*.safetensors"))
    assert disk_use(places.models()) == alone - weights
    one, other = listed(places)
    remove(one)
    assert resolve(other.name) == second
    assert verify(other).good


def shared(hub: Hub, cache: Path, made: Path) -> tuple[Path, Path]:
    """Two models whose weights lie once, in the store that the hub's own client keeps for several repos."""
    hub.add("somebody/twin", made)
    folders = pull(hub, cache), pull(hub, cache, "somebody/twin")
    for folder in folders:
        for path in folder.glob("*.safetensors"):
            blob = path.resolve()
            size = blob.stat().st_size
            assert publish_blob_to_shared_store(
                blob_path=str(blob), xet_hash=blob.name, cache_dir=cache, expected_size=size
            )
    return folders


def test_d15_deleting_leaves_what_another_model_has_in_the_shared_store(
    hub: Hub, cache: Path, places: Places, made: Path
) -> None:
    _, second = shared(hub, cache, made)
    one, other = listed(places)
    weights = sum(path.stat().st_size for path in second.glob("*.safetensors"))
    assert disk_use((one, other)) == one.size + other.size - weights
    assert removal(one) == Removal(one.size - weights, stays=weights, for_good=True)
    assert remove(one) == one.size - weights
    assert [model.name for model in listed(places)] == [other.name]
    assert verify(other).good
    assert remove(other) == other.size
    assert not list(cache.rglob("*.safetensors"))
    assert not [path for path in (cache / "blobs").rglob("*") if path.is_file() and path.stat().st_size > 1000]


def test_d15_a_damaged_content_of_the_shared_store_is_fetched_again_for_the_model_that_was_verified(
    hub: Hub, cache: Path, places: Places, made: Path
) -> None:
    first, _ = shared(hub, cache, made)
    store = (first / "model-00002-of-00003.safetensors").resolve()
    store.chmod(0o644)
    with store.open("r+b") as file:
        file.seek(1000)
        file.write(b"\xff\x00\xff")
    (model,) = [model for model in listed(places) if model.name == REPO]
    assert verify(model).damaged == ("model-00002-of-00003.safetensors",)
    pull(hub, cache)
    assert verify(model).good


def test_deleting_can_go_to_the_trash(hub: Hub, cache: Path, places: Places, tmp_path: Path) -> None:
    pull(hub, cache)
    trash = tmp_path / "Trash"
    trash.mkdir()
    remove(listed(places)[0], lambda folder: shutil.move(folder, trash))
    assert not listed(places)
    best = snapshot.best(trash / "models--somebody--tiny")
    assert best is not None
    assert best.complete  # and can come back from there


def test_the_guide_cannot_be_deleted(places: Places) -> None:
    with pytest.raises(EngineError, match="part of Foreword"):
        remove(places.models()[0])


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_d06_verifying_finds_a_wrong_byte_and_the_next_download_mends_just_that(
    hub: Hub, cache: Path, places: Places, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refused(*_: object) -> None:
        raise OSError("this disk knows no links")

    if not links:
        monkeypatch.setattr(Path, "symlink_to", refused)
    folder = pull(hub, cache)
    (model,) = listed(places)
    read: list[int] = []
    assert verify(model, read.append).good
    assert sum(read) == sum(path.stat().st_size for path in folder.iterdir())
    shard = folder / "model-00002-of-00003.safetensors"
    with shard.resolve().open("r+b") as file:
        file.seek(1000)
        file.write(b"\xff\x00\xff")
    found = verify(model)
    assert (found.damaged, found.good) == ((shard.name,), False)
    assert [model.state for model in listed(places)] == ["partial"]
    hub.requests.clear()
    pull(hub, cache)
    assert [seen.path.rpartition("/")[2] for seen in hub.bodies("")] == [shard.name]
    assert verify(listed(places)[0]).good


def test_a_check_that_is_stopped_has_changed_nothing(hub: Hub, cache: Path, places: Places) -> None:
    def stop_late(count: int) -> None:
        nonlocal left
        left -= count
        if left <= 0:
            raise EngineError("called_off", "The check was stopped.")

    folder = pull(hub, cache)
    shard = (folder / "model-00002-of-00003.safetensors").resolve()
    shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    (model,) = listed(places)
    left = sum(path.stat().st_size for path in folder.iterdir())
    with pytest.raises(EngineError, match="stopped"):
        verify(model, stop_late)
    assert [model.state for model in listed(places)] == ["installed"]
    assert verify(model).damaged == ("model-00002-of-00003.safetensors",)


def test_a_plain_folder_has_no_hashes_and_says_so(made: Path, places: Places) -> None:
    places.add(made)
    found = verify(listed(places)[0])
    assert found.good
    assert not found.checked
    assert "config.json" in found.unknown


def test_a_newer_commit_is_told_of_and_the_same_one_is_not(
    hub: Hub, cache: Path, places: Places, made: Path, tmp_path: Path
) -> None:
    pull(hub, cache)
    (model,) = listed(places)
    with Connection(hub.endpoint, hub_token="") as connection:
        assert newer(connection, model) is None
        changed = shutil.copytree(made, tmp_path / "changed")
        (changed / "config.json").write_text("{}")
        commit = hub.add(REPO, changed)
        assert newer(connection, model) == commit
        hub.remove(REPO)
        assert newer(connection, model) is None, "it is on the hub no longer, and works here all the same"


def test_d27_a_disk_that_is_not_connected_takes_no_model_off_the_list(
    made: Path, places: Places, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(made, disk / "models" / "tiny")
    places.add(disk)
    assert [(model.state, model.origin) for model in listed(places)] == [("installed", "folder")]
    disk.rename(tmp_path / "away")
    (away,) = listed(places)
    assert (away.state, away.folder) == ("not_connected", str(disk / "models" / "tiny"))
    with pytest.raises(EngineError, match="not be connected"):
        remove(away)
    assert [model.state for model in listed(places)] == ["not_connected"]
    (tmp_path / "away").rename(disk)
    assert [model.state for model in listed(places)] == ["installed"]


def test_lm_studios_models_are_listed(made: Path, places: Places, own_home: Path) -> None:
    folder = shutil.copytree(made, own_home / ".lmstudio" / "models" / "somebody" / "tiny")
    (model,) = listed(places)
    assert (model.origin, model.repo, model.folder, model.state) == ("lm_studio", REPO, str(folder), "installed")
    assert resolve(model.name) == folder


def test_a_folder_is_taken_in_and_left_out_again_untouched(made: Path, places: Places, tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        places.add(tmp_path / "hub")
    assert caught.value.report.code == "no_model_there"
    places.add(made)
    places.add(made)
    assert len(listed(places)) == 1
    places.leave_out(made)
    assert not listed(places)
    assert (made / "config.json").is_file()


@pytest.mark.parametrize("notes", ["{", "[]", '{"format": 9}', '{"format": 1, "folders": [3], "seen": {}}'])
def test_notes_that_cannot_be_read_are_none(places: Places, tmp_path: Path, notes: str) -> None:
    file = tmp_path / "notes" / "places.json"
    file.parent.mkdir()
    file.write_text(notes)
    assert not listed(places)


@pytest.mark.parametrize("harm", [{}, {"format_version": 2}, {"format_version": 1, "files": {"../x": {}}}])
def test_a_list_of_files_that_makes_no_sense_is_none(
    hub: Hub, cache: Path, places: Places, harm: dict[str, object]
) -> None:
    folder = pull(hub, cache)
    (folder.parents[1] / "trees" / f"{folder.name}.json").write_text(json.dumps(harm))
    assert [model.state for model in listed(places)] == ["installed"]


def test_what_another_program_is_downloading_counts_as_partial(hub: Hub, cache: Path, places: Places) -> None:
    folder = cache / "models--somebody--other"
    (folder / "blobs").mkdir(parents=True)
    (folder / "blobs" / f"{'a' * 64}.1234abcd.incomplete").write_bytes(b"some")
    beside = cache / "models--somebody--beside" / "blobs"
    beside.mkdir(parents=True)
    (beside / f"{'b' * 64}.incomplete").write_bytes(b"more")
    other, model = listed(places)
    assert (model.name, model.state, model.size, model.percent) == ("somebody/other", "partial", 4, 0)
    assert disk_use((model,)) == 4
    assert remove(model) == 4
    assert listed(places) == [other], "and no other model of the cache is touched"


def test_weights_that_another_program_still_brings_make_no_model_of_what_is_there(
    hub: Hub, cache: Path, places: Places
) -> None:
    folder = cache / "models--somebody--other"
    there = folder / "snapshots" / ("c" * 40)
    there.mkdir(parents=True)
    (there / "config.json").write_text("{}")
    (folder / "blobs").mkdir()
    (folder / "blobs" / f"{'a' * 64}.incomplete").write_bytes(b"some")
    (model,) = listed(places)
    assert (model.state, model.missing) == ("partial", ("model.safetensors",))


def update(hub: Hub, cache: Path, made: Path, version: Path, last: bytes) -> Path:
    """A version of the model whose second shard ends in other bytes, downloaded."""
    shutil.copytree(made, version)
    shard = version / "model-00002-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[: -len(last)] + last)
    hub.add(REPO, version)
    return pull(hub, cache)


def test_the_version_before_an_update_is_counted_and_can_be_removed_alone(
    hub: Hub, cache: Path, places: Places, made: Path, tmp_path: Path
) -> None:
    first = pull(hub, cache)
    (model,) = listed(places)
    assert model.older == 0
    assert remove_older(model) == 0
    second = update(hub, cache, made, tmp_path / "two", b"\x01\x02\x03\x04")
    (model,) = listed(places)
    assert model.older == (made / "model-00002-of-00003.safetensors").stat().st_size
    before = size(snapshot.repo_folder(cache, REPO) / "blobs")
    assert remove_older(model) == model.older
    assert before - size(snapshot.repo_folder(cache, REPO) / "blobs") == model.older
    assert not first.exists()
    (model,) = listed(places)
    assert (model.folder, model.older) == (str(second), 0)
    assert verify(model).good


def test_what_the_older_version_had_and_a_download_on_its_way_needs_stays(
    hub: Hub, cache: Path, places: Places, made: Path, tmp_path: Path
) -> None:
    first = pull(hub, cache)
    shard = (first / "model-00002-of-00003.safetensors").resolve()
    update(hub, cache, made, tmp_path / "two", b"\x01\x02\x03\x04")
    hub.add(REPO, {**{path.name: path.read_bytes() for path in made.iterdir()}, "README.md": b"as it was"})
    with Connection(hub.endpoint, hub_token="") as connection:
        snapshot.write_listing(snapshot.repo_folder(cache, REPO), listing(connection, REPO))
    (model,) = listed(places)
    remove_older(model)
    assert not first.exists()
    assert shard.is_file()
