"""What the targets and heads of all families have in common; a family's own file holds what is its own."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from engine.decode.cache import CacheSet, KVCache
from engine.model.families import Family


class FamilyTarget:
    """A loaded model, in the steps that decoding needs.

    Fits every class of mlx-lm's whose `model` returns hidden states and whose vocabulary projection is `lm_head`,
    or the embeddings where they are tied. Each layer keeps keys and values unless the family says otherwise.
    """

    scores_every_row = False

    def __init__(self, model: Any, family: Family, text: Any = None) -> None:
        """`family` is the model's entry in the registry; `text` the language model inside `model`, which is that itself
        where None."""
        self.model = model
        self.family = family
        self.text = model if text is None else text
        self.vocabulary: int = self.text.args.vocab_size

    def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        """Hidden states `[B, T, H]` of `[B, T]` tokens, from behind the last norm or before it, as the entry says;
        extends `caches`."""
        if self.family.hidden == "pre_norm":
            return self.before_norm(tokens, caches)
        return cast(mx.array, self.text.model(tokens, caches.layers))

    def before_norm(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        """Hidden states `[B, T, H]` from before the last norm, for families whose head reads those: mlx-lm's forward
        gives the others only, so that such a family restates it."""
        raise NotImplementedError

    def logits(self, hidden: mx.array) -> mx.array:
        """Vocabulary scores `[B, T, V]` of states as `hidden` returns them."""
        return self.project(self.text.model.norm(hidden) if self.family.hidden == "pre_norm" else hidden)

    def project(self, normed: mx.array) -> mx.array:
        """Vocabulary scores `[B, T, V]` of states that have been through a last norm, the target's or the head's."""
        if "lm_head" in self.text:
            return cast(mx.array, self.text.lm_head(normed))
        return cast(mx.array, self.text.model.embed_tokens.as_linear(normed))

    def embed(self, tokens: mx.array) -> mx.array:
        """Input embeddings `[B, T, H]`; a head may share them."""
        return cast(mx.array, self.text.model.embed_tokens(tokens))

    def make_caches(self) -> CacheSet:
        """Empty caches, one for each layer."""
        return CacheSet([KVCache() for _ in self.text.layers])


class FamilyHead(nn.Module):
    """An MTP head, which is one block, and those behind it. Parameter names are the checkpoint's keys without prefix.

    Embeddings and vocabulary projection are the target's, unless the family's head has its own.
    """

    def __init__(self, target: FamilyTarget) -> None:
        super().__init__()
        self.target = target  # no module, so its weights are not taken for the head's
        self.later: list[FamilyHead] = []
        """The blocks for further drafts where the family has one for each; empty where this one serves them all."""

    def __call__(self, hidden: mx.array, embeddings: mx.array, caches: CacheSet) -> mx.array:
        """Hidden states `[B, T, H]` for `logits`, and for the next draft, from the target's (or the head's own) and
        the next tokens' embeddings; extends `caches`."""
        raise NotImplementedError

    def joined(self, embeddings: mx.array, hidden: mx.array) -> mx.array:
        """The head's two inputs side by side `[B, T, 2H]`, in the order in which its projection reads them."""
        inputs = {"embedding": embeddings, "hidden": hidden}
        return mx.concatenate([inputs[name] for name in self.target.family.concat], axis=-1)

    def embed(self, tokens: mx.array) -> mx.array:
        """Embeddings `[B, T, H]` of the next tokens."""
        return self.target.embed(tokens)

    def logits(self, hidden: mx.array) -> mx.array:
        """Vocabulary scores `[B, T, V]` of the head's hidden states, which have been through a last norm."""
        return self.target.project(hidden)

    def make_caches(self) -> CacheSet:
        """Empty caches for the head's block."""
        return CacheSet([KVCache()])
