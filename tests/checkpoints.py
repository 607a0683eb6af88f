"""The constructed checkpoints as tests use them, and the faults that folders on people's disks have."""

import json
import os
from pathlib import Path

from engine.bench.constructed import (
    CONTEXT,
    HEAD_MARGIN,
    SHARPNESS,
    SIDECAR,
    HeadPlace,
    Kind,
    Layout,
    Shape,
    Weights,
    build,
    disturbance,
    feed_forward,
    gated_attention,
    ring_of,
    write_weights,
)

__all__ = [
    "CONTEXT",
    "HEAD_MARGIN",
    "SHARPNESS",
    "SIDECAR",
    "HeadPlace",
    "Kind",
    "Layout",
    "Shape",
    "Weights",
    "build",
    "disturbance",
    "drop_shard",
    "drop_template",
    "drop_tokenizer",
    "feed_forward",
    "gated_attention",
    "ring_of",
    "spoil_config",
    "truncate",
    "write_weights",
]


def truncate(path: Path, keep: float = 0.5) -> None:
    """Cut a file as an interrupted download leaves it: the header promises more than there is."""
    os.truncate(path, int(path.stat().st_size * keep))


def spoil_config(folder: Path) -> None:
    """What a portal answers in place of the file."""
    (folder / "config.json").write_text("<html><body>Please sign in.</body></html>")


def drop_template(folder: Path) -> None:
    """A base model: its tokenizer knows no chat."""
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    del config["chat_template"]
    path.write_text(json.dumps(config))


def drop_shard(folder: Path) -> str:
    """Delete the last shard that the index names; returns its name."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    name = max(index["weight_map"].values())
    (folder / name).unlink()
    return name


def drop_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
