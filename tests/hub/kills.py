"""A download that is killed again and again: what comes of it in the end, and what is fetched twice.

    python -m tests.hub.kills [KILLS]      50 kills by default, under two minutes

A child downloads a model of several files from the hub for tests, which sends slowly. At random moments it gets SIGKILL
and another one takes over. After every kill nothing may be listed as a model; in the end every byte must be right; and
between two requests for a file no more may be sent twice than one chunk, which was on its way when the kill came.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.library import snapshot
from engine.library.connection import Connection
from engine.library.downloads import Downloads
from engine.library.hashing import CHUNK
from engine.library.places import Places
from tests.hub import Bytes, Content, Drip, Generated, Hub, Seen

REPO = "somebody/large"


@dataclass
class Outcome:
    """What was found. `twice` are the bytes that were sent again after each kill, for each file that was coming."""

    kills: int = 0
    models: int = 0
    size: int = 0
    twice: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def model(seed: int, shard: int) -> dict[str, Content]:
    shards = {
        f"model-0000{number}-of-00004.safetensors": Generated(shard + number, seed + number) for number in range(4)
    }
    return {"config.json": Bytes(b"{}"), "mtp/head.safetensors": Generated(shard // 8, seed + 9), **shards}


def run(root: Path, kills: int, *, shard: int, seed: int = 1) -> Outcome:
    """Kill `kills` times; a model that is whole before that makes room for the next. `shard`: bytes of a file."""
    found, chance = Outcome(), random.Random(seed)
    while found.kills < kills:
        found.models += 1
        with Hub() as hub:
            files = model(seed * 1000 + found.models * 10, shard)
            hub.add(REPO, files)
            hub.misbehave(".safetensors", Drip(size=1 << 14, pause=0.004), times=None)
            cache = root / f"hub-{found.models}"
            while found.kills < kills and not _killed_or_done(hub, cache, root, chance):
                found.kills += 1
                _look(found, cache, root)
            hub.behave()
            _child(hub, cache, root).wait()
            _compare(found, cache, files)
            for path, content in files.items():
                found.twice += _sent_twice(hub.bodies(path), content.size)
            found.size += sum(content.size for content in files.values())
    if found.twice and max(found.twice) > CHUNK:
        found.faults.append(f"{max(found.twice)} bytes were sent twice after one kill")
    return found


def _child(hub: Hub, cache: Path, root: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.hub.kills", "download", hub.endpoint, cache, root / "state"])


def _killed_or_done(hub: Hub, cache: Path, root: Path, chance: random.Random) -> bool:
    """Start a child, kill it some time after it began to ask; whether it was done before."""
    asked = len(hub.requests)
    child, waiting = _child(hub, cache, root), threading.Event()
    while len(hub.requests) == asked and child.poll() is None:
        waiting.wait(0.002)
    waiting.wait(chance.uniform(0, 0.4))
    done = child.poll() is not None
    child.kill()
    child.wait()
    return done


def _look(found: Outcome, cache: Path, root: Path) -> None:
    listed = [model for model in Places(cache, root / "places.json").models() if model.repo == REPO]
    best = snapshot.best(snapshot.repo_folder(cache, REPO))
    if any(model.state == "installed" for model in listed) or (best is not None and best.complete):
        found.faults += _wrong(snapshot.repo_folder(cache, REPO))


def _wrong(folder: Path) -> list[str]:
    """What is wrong with a model that calls itself whole: the kill may have come after the last link was made."""
    best = snapshot.best(folder)
    listing = None if best is None or not best.complete else snapshot.read_listing(folder, best.commit)
    if best is None or listing is None:
        return ["listed as installed without a commit"]
    return [
        f"{file.path} is missing from what is listed as installed"
        for file in listing.wanted
        if not snapshot.in_place(folder, best.commit, file)
    ]


def _compare(found: Outcome, cache: Path, files: Mapping[str, Content]) -> None:
    commit = snapshot.used_commit(snapshot.repo_folder(cache, REPO))
    if commit is None:
        found.faults.append("the model never came")
        return
    for path, content in files.items():
        there = snapshot.repo_folder(cache, REPO) / "snapshots" / commit / path
        if not there.is_file() or there.read_bytes() != b"".join(content.read(0, content.size)):
            found.faults.append(f"{path} is not what it should be")


def _sent_twice(requests: list[Seen], size: int) -> list[int]:
    """For each request but the first, how far behind the end of what was sent before it began."""
    twice, end = [], 0
    for seen in requests:
        match = re.fullmatch(r"bytes=(\d+)-", seen.range or "bytes=0-")
        start = int(match[1]) if match else 0
        if end:
            twice.append(max(0, end - start))
        end = max(end, min(start + seen.sent, size))
    return twice


def download(endpoint: str, cache: str, state: str) -> None:
    """The child."""
    with Downloads(Path(cache), Path(state), connect=lambda: Connection(endpoint, hub_token="")) as downloads:
        ended = downloads.wait(downloads.add(REPO))
        if ended is None or ended.state != "done":
            sys.exit(1)


def main(kills: int) -> int:
    with tempfile.TemporaryDirectory(prefix="foreword-kills-") as root:
        found = run(Path(root), kills, shard=12_000_000)
    resumed = [twice for twice in found.twice if twice] or [0]
    print(f"{found.kills} kills in {found.models} downloads of {found.size / 1e6:.0f} MB in all")
    print(f"sent twice after a kill, per file: at most {max(resumed):,} bytes; one chunk is {CHUNK:,}")
    print("\n".join(found.faults) or "every byte is right, and nothing half-made was ever listed as installed")
    return 1 if found.faults else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["download"]:
        download(*sys.argv[2:5])
    else:
        sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 50))
