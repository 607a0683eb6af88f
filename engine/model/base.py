"""What the targets and heads of all families have in common; a family's own file holds what is its own."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from engine.decode.cache import CacheSet, KVCache


class FamilyTarget:
    """A loaded model, in the steps that decoding needs.

    Fits every class of mlx-lm's whose `model` returns hidden states and whose vocabulary projection is `lm_head`,
    or the embeddings where they are tied. Each layer keeps keys and values unless the family says otherwise.
    """

    def __init__(self, model: Any, text: Any = None) -> None:
        """`text` is the language model inside `model`, which is that itself where None."""
        self.model = model
        self.text = model if text is None else text
        self.vocabulary: int = self.text.args.vocab_size

    def hidden(self, tokens: mx.array, caches: CacheSet) -> mx.array:
        """Post-norm hidden states `[B, T, H]` of `[B, T]` tokens; extends `caches`."""
        return cast(mx.array, self.text.model(tokens, caches.layers))

    def logits(self, hidden: mx.array) -> mx.array:
        """Vocabulary scores `[B, T, V]`; a head may share this projection."""
        if "lm_head" in self.text:
            return cast(mx.array, self.text.lm_head(hidden))
        return cast(mx.array, self.text.model.embed_tokens.as_linear(hidden))

    def embed(self, tokens: mx.array) -> mx.array:
        """Input embeddings `[B, T, H]`; a head may share them."""
        return cast(mx.array, self.text.model.embed_tokens(tokens))

    def make_caches(self) -> CacheSet:
        """Empty caches, one for each layer."""
        return CacheSet([KVCache() for _ in self.text.layers])


class FamilyHead(nn.Module):
    """An MTP head of one block. Parameter names are the checkpoint's keys without their prefix.

    Embeddings and vocabulary projection are the target's, unless the family's head has its own.
    """

    def __init__(self, target: FamilyTarget) -> None:
        super().__init__()
        self.target = target  # no module, so its weights are not taken for the head's

    def __call__(self, hidden: mx.array, embeddings: mx.array, caches: CacheSet) -> mx.array:
        """Hidden states `[B, T, H]` for `logits`, and for the next draft, from the target's (or the head's own) and
        the next tokens' embeddings; extends `caches`."""
        raise NotImplementedError

    def embed(self, tokens: mx.array) -> mx.array:
        """Embeddings `[B, T, H]` of the next tokens."""
        return self.target.embed(tokens)

    def logits(self, hidden: mx.array) -> mx.array:
        """Vocabulary scores `[B, T, V]` of the head's hidden states."""
        return self.target.logits(hidden)

    def make_caches(self) -> CacheSet:
        """Empty caches for the head's block."""
        return CacheSet([KVCache()])
