"""Multi-head latent attention for several rows at once.

The cache holds one latent vector a token instead of keys and values for every head. mlx-lm's layers meet one row by
moving the query into the latent space ("absorbed": DeepSeek-V2, 2024, section 2.1.2), and several rows by expanding the
whole cache into keys and values, which for the few rows of a verify costs several times a plain step. Here up to
`ABSORBED_ROWS` rows go the way of one row.
"""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx

ABSORBED_ROWS = 16
"""Rows up to which the query moves. A verify has fewer, a chunk of a prompt more, and expands as before."""


class AbsorbedRows:
    """Put before one of mlx-lm's latent attention classes: few rows are absorbed, more are its own affair."""

    def __call__(self: Any, x: mx.array, mask: mx.array | None = None, cache: Any = None) -> mx.array:
        """`[B, T, H]` to the same; `mask` is a boolean array `[.., T, S]` or None. Extends `cache`."""
        batch, rows, _ = x.shape
        if rows > ABSORBED_ROWS:
            return cast(mx.array, super().__call__(x, mask, cache))  # type: ignore[misc]
        queries = self.q_proj(x) if self.q_lora_rank is None else self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        queries = queries.reshape(batch, rows, self.num_heads, self.q_head_dim).transpose(0, 2, 1, 3)
        content, turning = mx.split(queries, [self.qk_nope_head_dim], axis=-1)
        latent, turning_keys = mx.split(self.kv_a_proj_with_mqa(x), [self.kv_lora_rank], axis=-1)
        latent = self.kv_a_layernorm(latent)[:, None]
        turning_keys = turning_keys[:, None]

        offset = cache.offset if cache is not None else 0
        turning, turning_keys = self.rope(turning, offset), self.rope(turning_keys, offset)
        if cache is not None:
            latent, turning_keys = cache.update_and_fetch(latent, turning_keys)

        scores = (turning * self.scale) @ turning_keys.swapaxes(-1, -2)
        if mask is not None:
            scores = mx.where(mask, scores, mx.array(mx.finfo(scores.dtype).min, scores.dtype))
        # All heads read the one latent vector of a token, as keys and as values.
        mixed = mx.fast.scaled_dot_product_attention(
            self.embed_q(content), latent, latent, scale=self.scale, mask=scores
        )
        out = self.unembed_out(mixed).transpose(0, 2, 1, 3).reshape(batch, rows, -1)
        return cast(mx.array, self.o_proj(out))


def absorb(layers: Any, attention: Any, args: Any) -> None:
    """Give every layer of a model that has no weights yet the class `attention`."""
    for layer in layers:
        layer.self_attn = attention(args)
