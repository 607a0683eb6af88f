"""What a download costs, from a hub in a process of its own.

python -m tests.hub.measure throughput    beside huggingface_hub.snapshot_download, in turns, about a minute
python -m tests.hub.measure memory        the most that 2 GB take above idle, half a minute
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hub import Bytes, Generated, Hub

REPO = "somebody/large"
ROUNDS = 7


def serve(files: int, size: int) -> None:
    """The hub's process: says where it is, and serves until its input ends."""
    with Hub() as hub:
        shards = {f"model-{number}.safetensors": Generated(size, number) for number in range(files)}
        hub.add(REPO, {"config.json": Bytes(b"{}"), **shards})
        print(hub.endpoint, flush=True)
        sys.stdin.read()


@contextmanager
def hub_apart(files: int, size: int) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.hub.measure", "serve", str(files), str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        assert server.stdin is not None
        server.stdin.close()


def ours(endpoint: str, cache: Path) -> None:
    from engine.library.connection import Connection
    from engine.library.downloads import Downloads

    with Downloads(cache, connect=lambda: Connection(endpoint, hub_token="")) as downloads:
        ended = downloads.wait(downloads.add(REPO))
        assert ended is not None
        assert ended.state == "done", ended.error


def theirs(endpoint: str, cache: Path) -> None:
    from huggingface_hub import snapshot_download

    snapshot_download(REPO, endpoint=endpoint, cache_dir=cache, token=False)


def throughput(files: int = 4, size: int = 64_000_000) -> None:
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    work: dict[str, list[float]] = {"ours": [], "theirs": []}
    with hub_apart(files, size) as endpoint, tempfile.TemporaryDirectory(prefix="foreword-throughput-") as root:
        for number in range(ROUNDS + 1):
            for arm in (ours, theirs) if number % 2 else (theirs, ours):
                cache = Path(root) / "hub"
                begun, worked = time.perf_counter(), time.process_time()
                arm(endpoint, cache)
                if number:  # the first round warms up
                    times[arm.__name__].append(time.perf_counter() - begun)
                    work[arm.__name__].append(time.process_time() - worked)
                shutil.rmtree(cache)
                os.sync()  # what one has left to write is not the other's to wait for
    total = files * size / 1e6
    for arm, measured in times.items():
        rate, cost = total / statistics.median(measured), statistics.median(work[arm]) / total * 1000
        print(f"{arm}: {rate:.0f} MB/s, {cost:.1f} s of processor per GB (medians of {len(measured)} × {total:.0f} MB)")
    ratios = [theirs / ours for ours, theirs in zip(times["ours"], times["theirs"], strict=True)]
    print(f"ours against theirs: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def memory(files: int = 4, size: int = 500_000_000) -> None:
    with hub_apart(1, 1000) as endpoint, tempfile.TemporaryDirectory() as root:
        ours(endpoint, Path(root))  # everything is imported, and one download is done: idle
        before = peak()
    with hub_apart(files, size) as endpoint, tempfile.TemporaryDirectory() as root:
        ours(endpoint, Path(root))
        after = peak()
    print(
        f"{files * size / 1e9:.1f} GB took at most {(after - before) / 1e6:.1f} MB above idle ({before / 1e6:.0f} MB)"
    )


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
    match sys.argv[1:]:
        case ["serve", files, size]:
            serve(int(files), int(size))
        case ["memory"]:
            memory()
        case ["throughput"]:
            throughput()
        case _:
            sys.exit(__doc__)
