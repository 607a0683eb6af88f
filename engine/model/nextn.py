"""The head that DeepSeek-V3 introduced and GLM took over: one more layer behind the target's, with its own norms,
embeddings and vocabulary projection. Files may leave out the last two where they equal the target's."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.base import create_attention_mask

from engine.decode.cache import CacheSet
from engine.model.base import FamilyHead, FamilyTarget


class SharedHead(nn.Module):
    """The norm before the vocabulary, and the projection onto it where the head has its own."""

    def __init__(self, args: Any, own_projection: bool) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(args.hidden_size, eps=args.rms_norm_eps)
        if own_projection:
            self.head = nn.Linear(args.hidden_size, args.vocab_size, bias=False)


class NextnHead(FamilyHead):
    """Two norms, one projection of [embedding, hidden], one block of the target's kind, one norm.

    The block's parts stand beside the head's own, as they do in the files.
    """

    mask_as_array = False
    """Whether the block's attention wants its mask as an array."""

    def __init__(self, target: FamilyTarget, block: nn.Module, stored: Collection[str]) -> None:
        """`stored` are the names of the head's tensors; `block` is a layer of the target's kind without weights."""
        super().__init__(target)
        args = target.text.args
        size, eps = args.hidden_size, args.rms_norm_eps
        self.enorm = nn.RMSNorm(size, eps=eps)
        self.hnorm = nn.RMSNorm(size, eps=eps)
        self.eh_proj = nn.Linear(2 * size, size, bias=False)
        self.self_attn = block.self_attn
        self.mlp = block.mlp
        self.input_layernorm = block.input_layernorm
        self.post_attention_layernorm = block.post_attention_layernorm
        if "embed_tokens.weight" in stored:
            self.embed_tokens = nn.Embedding(args.vocab_size, size)
        self.shared_head = SharedHead(args, "shared_head.head.weight" in stored)

    def __call__(self, hidden: mx.array, embeddings: mx.array, caches: CacheSet) -> mx.array:
        x = self.eh_proj(self.joined(self.enorm(embeddings), self.hnorm(hidden)))
        mask = create_attention_mask(x, caches[0], return_array=self.mask_as_array)
        x = x + self.self_attn(self.input_layernorm(x), mask, caches[0])
        x = x + self.mlp(self.post_attention_layernorm(x))
        return cast(mx.array, self.shared_head.norm(x))

    def embed(self, tokens: mx.array) -> mx.array:
        return self.embed_tokens(tokens) if "embed_tokens" in self else super().embed(tokens)

    def logits(self, hidden: mx.array) -> mx.array:
        own = self.shared_head
        return own.head(hidden) if "head" in own else super().logits(hidden)

    @property
    def cast_predicate(self) -> Any:
        """Which parameters may be cast: small differences between experts decide which ones are asked."""
        return lambda path: "e_score_correction_bias" not in path
