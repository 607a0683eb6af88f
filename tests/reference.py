"""Speculative decoding as plainly as it can be written: no cache, no rollback, every pass over the whole text.

An oracle for the engine: too slow for use, too short to be wrong in the same way.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
from mlx import nn
from mlx_lm.models.qwen3_5 import DecoderLayer, TextModelArgs
from mlx_lm.utils import load_model

Choose = Callable[[mx.array, list[int]], int]
"""From one row of logits [V] and the tokens before it to the next token."""


def likeliest(logits: mx.array, tokens: list[int]) -> int:
    return int(mx.argmax(logits).item())


class Head(nn.Module):
    """The MTP head: one attention layer over (embedding of token i+1, hidden state of token i)."""

    def __init__(self, args: TextModelArgs) -> None:
        super().__init__()
        H, eps = args.hidden_size, args.rms_norm_eps
        self.pre_fc_norm_embedding = nn.RMSNorm(H, eps=eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(H, eps=eps)
        self.fc = nn.Linear(2 * H, H, bias=False)
        self.layers = [DecoderLayer(args, args.full_attention_interval - 1)]
        self.norm = nn.RMSNorm(H, eps=eps)

    def __call__(self, hidden: mx.array, embedding: mx.array) -> mx.array:
        """hidden, embedding [1, T, H] -> [1, T, H], what `lm_head` turns into drafts."""
        both = [self.pre_fc_norm_embedding(embedding), self.pre_fc_norm_hidden(hidden)]
        x = self.fc(mx.concatenate(both, axis=-1))
        return self.norm(self.layers[0](x, mask="causal"))


@dataclass
class Model:
    """A target as mlx-lm loads it, and its head. Both take whole texts and keep nothing."""

    target: nn.Module
    head: Head

    def hidden(self, tokens: list[int]) -> mx.array:
        """Post-norm hidden states [1, T, H]."""
        return self.target.model(mx.array([tokens]))

    def logits(self, hidden: mx.array) -> mx.array:
        """[1, T, H] -> [T, V]."""
        return self.target.language_model.lm_head(hidden)[0]

    def draft(self, tokens: list[int], hidden: mx.array, count: int, choose: Choose) -> list[int]:
        """Continue `tokens` by `count` drafts. `hidden` [1, T-1, H] is the target's, for all tokens but the newest."""
        drafts: list[int] = []
        for _ in range(count):
            following = mx.array([(tokens + drafts)[1:]])
            out = self.head(hidden, self.target.model.embed_tokens(following))
            drafts.append(choose(self.logits(out)[-1], tokens + drafts))
            hidden = mx.concatenate([hidden, out[:, -1:]], axis=1)  # past the target's states, the head's own
        return drafts


def load(folder: Path) -> Model:
    """Load a folder in the original layout, head embedded."""
    target, _ = load_model(folder)
    args = TextModelArgs.from_dict(json.loads((folder / "config.json").read_text())["text_config"])
    weights: dict[str, mx.array] = {}
    for path in folder.glob("*.safetensors"):
        for key, tensor in mx.load(str(path)).items():
            _, found, name = key.partition("mtp.")
            if not found:
                continue
            if name.endswith("experts.gate_up_proj"):
                base = name.replace("experts.gate_up_proj", "switch_mlp")
                weights[f"{base}.gate_proj.weight"], weights[f"{base}.up_proj.weight"] = mx.split(tensor, 2, axis=1)
            elif name.endswith("experts.down_proj"):
                weights[name.replace("experts.down_proj", "switch_mlp.down_proj.weight")] = tensor
            else:
                weights[name] = tensor + 1.0 if tensor.ndim == 1 else tensor  # norms are distances from one
    head = Head(args)
    head.load_weights(list(weights.items()))
    return Model(target, head)


@dataclass
class Written:
    """Generated tokens, and for each round how many of its drafts were accepted."""

    tokens: list[int]
    accepted: list[int]


def generate(model: Model, prompt: list[int], count: int, depth: int, choose: Choose = likeliest) -> Written:
    """At least `count` tokens after `prompt`, with `depth` drafts per round (0: plain)."""
    tokens = [*prompt, choose(model.logits(model.hidden(prompt))[-1], prompt)]
    rounds: list[int] = []
    while len(tokens) < len(prompt) + count:
        drafts = model.draft(tokens, model.hidden(tokens[:-1]), depth, choose)
        logits = model.logits(model.hidden(tokens + drafts))
        accepted = 0
        while True:
            tokens.append(choose(logits[len(tokens) - 1], tokens))
            if accepted == depth or tokens[-1] != drafts[accepted]:
                break
            accepted += 1
        rounds.append(accepted)
    return Written(tokens[len(prompt) :], rounds)
