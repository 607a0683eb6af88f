"""The heads of `families` as plainly as they can be written: mlx-lm's own block, whole texts, no cache.

An oracle for the engine's heads, used through `reference.generate`. The block is taken from one of mlx-lm's models
that has as many layers more as it takes for the last one to be of the head's kind.
"""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.models.base import create_causal_mask

from tests import families, reference

ENDS = {
    "qwen3_next": ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm"),
    "mimo": ("token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"),
    "step3p5": ("enorm", "hnorm", "eh_proj", "transformer.shared_head.norm"),
}
NEXTN_ENDS = ("enorm", "hnorm", "eh_proj", "shared_head.norm")
"""By family the norms of embedding and hidden state, the projection, and the norm before the vocabulary."""


@dataclass
class Head:
    """The weights of a head by their keys in the file, its block, and whether the hidden state comes first.

    `window` is how far back the block looks, itself included; None is all the way.
    """

    weights: dict[str, mx.array]
    ends: tuple[str, str, str, str]
    block: nn.Module
    hidden_first: bool
    window: int | None = None

    def __call__(self, hidden: mx.array, embedding: mx.array) -> mx.array:
        """hidden, embedding [1, T, H] -> [1, T, H], pre-norm."""
        embedding_norm, hidden_norm, projection = (self.weights[f"{end}.weight"] for end in self.ends[:3])
        e = mx.fast.rms_norm(embedding, embedding_norm, 1e-6)
        h = mx.fast.rms_norm(hidden, hidden_norm, 1e-6)
        x = mx.concatenate([h, e] if self.hidden_first else [e, h], axis=-1) @ projection.T
        return self.block(x, create_causal_mask(x.shape[1], window_size=self.window))

    def normed(self, x: mx.array) -> mx.array:
        """Its own output [1, T, H] as the vocabulary wants it."""
        return mx.fast.rms_norm(x, self.weights[f"{self.ends[3]}.weight"], 1e-6)


@dataclass
class Model:
    """A target of mlx-lm's and the blocks of its head, as `reference.Model` but for where the vocabulary is taken from.

    One block drafts from its own output, several draft one token each from what the one before made.

    `last_norm` is the target's last norm where hidden states are meant to be those before it, and it is not in there.
    """

    target: Any
    heads: list[Head]
    last_norm: nn.Module | None = None

    def hidden(self, tokens: list[int]) -> mx.array:
        """Hidden states [1, T, H], as the head reads them."""
        return self.target.model(mx.array([tokens]))

    def logits(self, hidden: mx.array) -> mx.array:
        """[1, T, H] -> [T, V]."""
        return self.target.lm_head(self.last_norm(hidden) if self.last_norm else hidden)[0]

    def draft(self, tokens: list[int], hidden: mx.array, count: int, choose: reference.Choose) -> list[int]:
        """Continue `tokens` by `count` drafts. `hidden` [1, T-1, H] is the target's, for all tokens but the newest."""
        drafts: list[int] = []
        for number in range(count):
            several = len(self.heads) > 1
            head = self.heads[number if several else 0]
            own = head.weights
            embeddings = own.get("embed_tokens.weight", self.target.model.embed_tokens.weight)
            projection = self.target.lm_head.weight
            for name in ("shared_head.head.weight", "transformer.shared_head.output.weight"):
                projection = own.get(name, projection)
            following = (tokens + drafts)[1 + number if several else 1 :]
            out = head(hidden, embeddings[mx.array([following])])
            normed = head.normed(out)
            drafts.append(choose((normed[0, -1:] @ projection.T)[0], tokens + drafts))
            if self.last_norm is None:
                out = normed
            # Past the target's states a single block reads its own; each of several reads what the one before made.
            hidden = out if several else mx.concatenate([hidden, out[:, -1:]], axis=1)
        return drafts


def load(folder: Path) -> Model:
    """Load a folder that `families.build` wrote, head embedded."""
    config = json.loads((folder / "config.json").read_text())
    family = config["model_type"]
    stored = mx.load(str(folder / "model.safetensors"))
    prefixes = [families.prefix_of(family, block) for block in range(families.STEP_BLOCKS)]
    target = {key: array for key, array in stored.items() if not key.startswith(tuple(prefixes))}
    heads = [_head(config, stored, target, prefix) for prefix in dict.fromkeys(prefixes)]
    whole = _stock(config, target)
    last_norm = None
    if family == "step3p5":
        last_norm, whole.model.norm = whole.model.norm, nn.Identity()
    return Model(whole, [head for head in heads if head], last_norm)


def _head(config: dict[str, Any], stored: dict[str, mx.array], target: dict[str, mx.array], prefix: str) -> Head | None:
    """The block whose keys have this prefix; None where there is none."""
    family, layers = config["model_type"], config["num_hidden_layers"]
    head = {key.removeprefix(prefix): array for key, array in stored.items() if key.startswith(prefix)}
    if not head:
        return None
    more = dict(target)
    last = layers
    if family == "qwen3_next":  # every fourth layer is attention, so three of the target's stand in between
        last = layers + 3
        for index in range(3):
            parts = f"model.layers.{index}.", f"model.layers.{layers + index}."
            more |= {key.replace(*parts): array for key, array in target.items() if key.startswith(parts[0])}
    for key, array in head.items():
        part = key.removeprefix("layers.0.")
        if part.startswith(("self_attn.", "mlp.", "input_layernorm.", "post_attention_layernorm.")):
            more[f"model.layers.{last}.{part}"] = array
    if family in ("qwen3_next", "step3p5"):
        head |= {key: array + 1.0 for key, array in head.items() if array.ndim == 1}
    block = _stock(config | {"num_hidden_layers": last + 1}, more).layers[last]
    ends, window = ENDS.get(family, NEXTN_ENDS), config.get("sliding_window")
    return Head(head, ends, block, family == "mimo", window)


def _stock(config: dict[str, Any], weights: dict[str, mx.array]) -> Any:
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    model = module.Model(module.ModelArgs.from_dict(config))
    model.load_weights(list(model.sanitize(dict(weights)).items()))
    model.eval()
    return model
