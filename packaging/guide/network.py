"""Guide's network in the form that trains fast on a CPU.

The same mathematics as mlx-lm's `qwen3_5` (GatedDeltaNet layers, gated full attention every fourth, zero-centred
norms) and its MTP head, over one flat dictionary that uses the names of the original checkpoints, so that export
is a plain write. Two things differ from inference code, both for speed: the delta rule runs in chunks of parallel
matrix products instead of a loop over tokens (Yang et al., "Parallelizing Linear Transformers with the Delta Rule
over Sequence Length", 2024), and exponentials are polynomials, since MLX computes them one by one on x86.

Shapes: B rows, T tokens, H hidden, V vocabulary.
"""

import math
from dataclasses import asdict, dataclass
from functools import cache

import mlx.core as mx

Weights = dict[str, mx.array]

CHUNK = 64
"""Tokens per chunk of the delta rule; rows must be a multiple of it."""

FORGET = 60.0
"""Negative log of the decay at the start of a dialogue: nothing of the dialogue before it is left."""

BLOCK = 16
"""Side of the triangular blocks that are inverted by a series; larger ones are merged from halves."""


@dataclass(frozen=True)
class Shape:
    """The sizes of the network, under the names that a `qwen3_5` config uses."""

    vocab_size: int = 2048
    hidden_size: int = 256
    intermediate_size: int = 512
    num_hidden_layers: int = 4
    full_attention_interval: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    linear_num_key_heads: int = 4
    linear_num_value_heads: int = 4
    linear_key_head_dim: int = 32
    linear_value_head_dim: int = 32
    linear_conv_kernel_dim: int = 4
    rms_norm_eps: float = 1e-6

    rope_theta: float = 10000.0
    partial_rotary_factor: float = 0.25

    def layer_types(self) -> list[str]:
        """One name per layer, as a config lists them."""
        every = self.full_attention_interval
        return ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(self.num_hidden_layers)]

    def as_config(self) -> dict[str, int | float]:
        """The entries of `text_config` that are plain sizes."""
        sizes = asdict(self)
        del sizes["rope_theta"], sizes["partial_rotary_factor"]
        return sizes


# --- exponentials ------------------------------------------------------------------------------------------------

_LOG2E = 1.4426950408889634
# Past e**-40 nothing matters here, and denormal numbers would make the matrix products ten times slower.
_REACH = 40.0
# 2**f on [-0.5, 0.5], minimax to 2e-7 relative: enough for float32 training.
_POLYNOMIAL = (0.001333355814, 0.009618129107, 0.05550410866, 0.2402265069, 0.6931471806, 1.0)


def _exp(x: mx.array) -> mx.array:
    scaled = mx.clip(x, -_REACH, _REACH) * _LOG2E
    whole = mx.round(scaled)
    part = scaled - whole
    value = _POLYNOMIAL[0] * part + _POLYNOMIAL[1]
    for coefficient in _POLYNOMIAL[2:]:
        value = value * part + coefficient
    power = ((whole.astype(mx.int32) + 127) << 23).view(mx.float32)
    return value * power


@mx.custom_function
def exp(x: mx.array) -> mx.array:
    """e**x for float32, vectorised; its derivative is itself."""
    return _exp(x)


@exp.vjp
def _exp_vjp(_: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
    return cotangent * output


@mx.custom_function
def sigmoid(x: mx.array) -> mx.array:
    """The logistic function for float32."""
    return 1.0 / (1.0 + _exp(-x))


@sigmoid.vjp
def _sigmoid_vjp(_: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
    return cotangent * (output * (1.0 - output))


@mx.custom_function
def silu(x: mx.array) -> mx.array:
    """x * sigmoid(x)."""
    return x / (1.0 + _exp(-x))


@silu.vjp
def _silu_vjp(x: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
    gate = 1.0 / (1.0 + _exp(-x))
    return cotangent * (gate + output * (1.0 - gate))


@mx.custom_function
def causal_softmax(scores: mx.array, mask: mx.array) -> mx.array:
    """Softmax over the last axis where `mask` is 1, and exactly 0 where it is 0."""
    raised = _exp(scores - scores.max(axis=-1, keepdims=True)) * mask
    return raised / raised.sum(axis=-1, keepdims=True)


@causal_softmax.vjp
def _causal_softmax_vjp(
    primals: tuple[mx.array, mx.array], cotangent: mx.array, output: mx.array
) -> tuple[mx.array, mx.array]:
    weighted = cotangent * output
    return weighted - output * weighted.sum(axis=-1, keepdims=True), mx.zeros_like(primals[1])


@mx.custom_function
def cross_entropy(logits: mx.array, labels: mx.array) -> mx.array:
    """-log p(label) per row; `logits` [N, V], `labels` [N] -> [N]."""
    top = logits.max(axis=-1, keepdims=True)
    total = mx.log(_exp(logits - top).sum(axis=-1)) + top[:, 0]
    return total - mx.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]


@cross_entropy.vjp
def _cross_entropy_vjp(
    primals: tuple[mx.array, mx.array], cotangent: mx.array, _: mx.array
) -> tuple[mx.array, mx.array]:
    logits, labels = primals
    raised = _exp(logits - logits.max(axis=-1, keepdims=True))
    gradient = raised * (cotangent[:, None] / raised.sum(axis=-1, keepdims=True))
    at = labels[:, None]
    chosen = mx.take_along_axis(gradient, at, axis=-1) - cotangent[:, None]
    return mx.put_along_axis(gradient, at, chosen, axis=-1), mx.zeros_like(labels)


# --- the delta rule ----------------------------------------------------------------------------------------------


@cache
def _lower(size: int, below: int) -> mx.array:
    """A [size, size] mask of ones where column <= row - below."""
    rows = mx.arange(size)
    return (rows[None, :] <= rows[:, None] - below).astype(mx.float32)


def _invert(strict: mx.array) -> mx.array:
    """(I + strict)^-1 for strictly lower triangular `strict` [..., C, C]."""
    size = strict.shape[-1]
    if size <= BLOCK:
        # The series of a nilpotent matrix, in pairs: (I - A)(I + A^2)(I + A^4)...
        identity = mx.eye(size)
        inverse, power = identity - strict, strict
        for _ in range(int(math.log2(size)) - 1):
            power = power @ power
            inverse = inverse + inverse @ power
        return inverse
    half = size // 2
    upper = _invert(strict[..., :half, :half])
    lower = _invert(strict[..., half:, half:])
    corner = -(lower @ strict[..., half:, :half] @ upper)
    top = mx.concatenate([upper, mx.zeros_like(corner)], axis=-1)
    return mx.concatenate([top, mx.concatenate([corner, lower], axis=-1)], axis=-2)


@mx.custom_function
def unit_lower_inverse(strict: mx.array) -> mx.array:
    """(I + A)^-1 for strictly lower triangular A [..., C, C]."""
    return _invert(strict)


@unit_lower_inverse.vjp
def _unit_lower_inverse_vjp(_: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
    turned = output.swapaxes(-1, -2)
    return -(turned @ cotangent @ turned)


def delta_rule(q: mx.array, k: mx.array, v: mx.array, log_decay: mx.array, beta: mx.array) -> mx.array:
    """The gated delta rule from a zero state: q, k, v [B, h, T, D], log_decay and beta [B, h, T] -> [B, h, T, Dv]."""
    length = q.shape[2]
    causal, strict = _lower(CHUNK, 0), _lower(CHUNK, 1)
    state = None
    outputs = []
    for start in range(0, length, CHUNK):
        at = slice(start, start + CHUNK)
        qc, kc, vc, bc = q[:, :, at], k[:, :, at], v[:, :, at], beta[:, :, at, None]
        passed = mx.cumsum(log_decay[:, :, at], axis=-1)
        # What is forgotten to a hundred-millionth is cut to zero, or the inverse would work on denormal numbers.
        kept = exp(mx.minimum(passed[..., :, None] - passed[..., None, :], 0.0))
        decay = mx.maximum(kept - 1e-8, 0.0) * causal
        turned = kc.swapaxes(-1, -2)
        inverse = unit_lower_inverse((kc @ turned) * decay * (bc * strict))
        scores = (qc @ turned) * decay
        if state is None:
            written = inverse @ (bc * vc)
            out = scores @ written
        else:
            since = exp(passed)[..., None]
            written = inverse @ (bc * (vc - since * (kc @ state)))
            out = scores @ written + since * (qc @ state)
        outputs.append(out)
        if start + CHUNK < length:
            left = exp(passed[..., -1:] - passed)[..., None]
            added = (kc * left).swapaxes(-1, -2) @ written
            state = added if state is None else added + exp(passed[..., -1:])[..., None] * state
    return outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=2)


# --- layers ------------------------------------------------------------------------------------------------------


def norm(x: mx.array, weight: mx.array | None, eps: float, centred: bool = True) -> mx.array:
    """RMS norm over the last axis; `centred` weights are stored minus one."""
    scale = mx.rsqrt(mx.mean(x * x, axis=-1, keepdims=True) + eps)
    if weight is None:
        return x * scale
    return x * scale * (1.0 + weight if centred else weight)


def _linear(w: Weights, name: str, x: mx.array) -> mx.array:
    return x @ w[name + ".weight"].T


def _delta_net(w: Weights, at: str, shape: Shape, x: mx.array, starts: mx.array | None) -> mx.array:
    rows, length, _ = x.shape
    heads, dk, dv = shape.linear_num_key_heads, shape.linear_key_head_dim, shape.linear_value_head_dim
    mixed = _linear(w, at + "in_proj_qkv", x)
    taps = w[at + "conv1d.weight"][:, 0, :]
    kernel = shape.linear_conv_kernel_dim
    padded = mx.pad(mixed, [(0, 0), (kernel - 1, 0), (0, 0)])
    convolved = mixed * taps[:, kernel - 1]
    reach = mx.ones((rows, length, 1))
    for back in range(1, kernel):
        earlier = padded[:, kernel - 1 - back : kernel - 1 - back + length] * taps[:, kernel - 1 - back]
        if starts is not None:
            # A tap reaches back only as far as the dialogue does.
            begun = mx.pad(starts[:, : length - back + 1], [(0, 0), (back - 1, 0)])
            reach = reach * (1.0 - begun[..., None].astype(mx.float32))
            earlier = earlier * reach
        convolved = convolved + earlier
    mixed = silu(convolved)
    q, k, v = mx.split(mixed, [heads * dk, 2 * heads * dk], axis=-1)
    q = q.reshape(rows, length, heads, dk).transpose(0, 2, 1, 3)
    k = k.reshape(rows, length, heads, dk).transpose(0, 2, 1, 3)
    v = v.reshape(rows, length, heads, dv).transpose(0, 2, 1, 3)
    eps = 1e-6 / dk
    q = norm(q, None, eps) / dk
    k = norm(k, None, eps) * dk**-0.5
    a = _linear(w, at + "in_proj_a", x) + w[at + "dt_bias"]
    softplus = mx.maximum(a, 0.0) + mx.log1p(exp(-mx.abs(a)))
    log_decay = -exp(w[at + "A_log"]) * softplus
    if starts is not None:
        log_decay = mx.where(starts[..., None], -FORGET, log_decay)
    log_decay = log_decay.transpose(0, 2, 1)
    beta = sigmoid(_linear(w, at + "in_proj_b", x)).transpose(0, 2, 1)
    out = delta_rule(q, k, v, log_decay, beta).transpose(0, 2, 1, 3)
    z = _linear(w, at + "in_proj_z", x).reshape(rows, length, heads, dv)
    out = norm(out, w[at + "norm.weight"], shape.rms_norm_eps, centred=False) * silu(z)
    return _linear(w, at + "out_proj", out.reshape(rows, length, heads * dv))


@cache
def _angles(shape: Shape, length: int) -> tuple[mx.array, mx.array]:
    """Cosines and sines of the rotary position embedding, [T, rotated / 2] each."""
    half = int(shape.head_dim * shape.partial_rotary_factor) // 2
    speeds = mx.power(shape.rope_theta, -mx.arange(half) / half)
    angles = mx.arange(length)[:, None] * speeds
    return mx.cos(angles), mx.sin(angles)


def _rotate(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Rotates the first dimensions of each head, halves paired: x [B, h, T, D] -> the same."""
    half = cos.shape[-1]
    first, second, rest = mx.split(x, [half, 2 * half], axis=-1)
    return mx.concatenate([first * cos - second * sin, second * cos + first * sin, rest], axis=-1)


def _attention(w: Weights, at: str, shape: Shape, x: mx.array, starts: mx.array | None) -> mx.array:
    rows, length, _ = x.shape
    heads, groups, size = shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim
    q, gate = mx.split(_linear(w, at + "q_proj", x).reshape(rows, length, heads, 2 * size), 2, axis=-1)
    k = _linear(w, at + "k_proj", x).reshape(rows, length, groups, size)
    v = _linear(w, at + "v_proj", x).reshape(rows, length, groups, size)
    q = norm(q, w[at + "q_norm.weight"], shape.rms_norm_eps).transpose(0, 2, 1, 3)
    k = norm(k, w[at + "k_norm.weight"], shape.rms_norm_eps).transpose(0, 2, 1, 3)
    cos, sin = _angles(shape, length)
    # The query heads that share a key head become extra rows, so that each product is one plain matrix product.
    q = _rotate(q, cos, sin).reshape(rows, groups, heads // groups * length, size)
    k = _rotate(k, cos, sin)
    v = mx.contiguous(v.transpose(0, 2, 1, 3))
    scores = (q * size**-0.5) @ k.swapaxes(-1, -2)
    mask = _lower(length, 0)
    if starts is not None:
        dialogue = mx.cumsum(starts.astype(mx.int32), axis=1)
        mask = ((dialogue[:, :, None] == dialogue[:, None, :]) * mask)[:, None]
    mask = mx.concatenate([mask] * (heads // groups), axis=-2)
    out = (causal_softmax(scores, mask) @ v).reshape(rows, heads, length, size).transpose(0, 2, 1, 3)
    out = out * sigmoid(gate)
    return _linear(w, at + "o_proj", out.reshape(rows, length, heads * size))


def _block(w: Weights, at: str, shape: Shape, x: mx.array, starts: mx.array | None, linear: bool) -> mx.array:
    mixer = _delta_net if linear else _attention
    inside = at + ("linear_attn." if linear else "self_attn.")
    x = x + mixer(w, inside, shape, norm(x, w[at + "input_layernorm.weight"], shape.rms_norm_eps), starts)
    y = norm(x, w[at + "post_attention_layernorm.weight"], shape.rms_norm_eps)
    y = silu(_linear(w, at + "mlp.gate_proj", y)) * _linear(w, at + "mlp.up_proj", y)
    return x + _linear(w, at + "mlp.down_proj", y)


TARGET = "model.language_model."


def hidden_states(w: Weights, shape: Shape, tokens: mx.array, starts: mx.array | None = None) -> mx.array:
    """The target's post-norm hidden states: tokens [B, T] -> [B, T, H].

    `starts` [B, T] is true where a new dialogue begins, which then knows nothing of those before it in its row.
    """
    x = w[TARGET + "embed_tokens.weight"][tokens]
    for i, kind in enumerate(shape.layer_types()):
        x = _block(w, f"{TARGET}layers.{i}.", shape, x, starts, kind == "linear_attention")
    return norm(x, w[TARGET + "norm.weight"], shape.rms_norm_eps)


def head_states(
    w: Weights, shape: Shape, hidden: mx.array, tokens: mx.array, starts: mx.array | None = None
) -> mx.array:
    """The MTP head's post-norm states: hidden [B, T, H] at i and the token at i + 1 -> states that say token i + 2."""
    eps = shape.rms_norm_eps
    embedded = norm(w[TARGET + "embed_tokens.weight"][tokens], w["mtp.pre_fc_norm_embedding.weight"], eps)
    joined = mx.concatenate([embedded, norm(hidden, w["mtp.pre_fc_norm_hidden.weight"], eps)], axis=-1)
    x = _block(w, "mtp.layers.0.", shape, _linear(w, "mtp.fc", joined), starts, linear=False)
    return norm(x, w["mtp.norm.weight"], eps)


def logits(w: Weights, states: mx.array) -> mx.array:
    """States [..., H] -> logits [..., V] through the tied embedding."""
    return states @ w[TARGET + "embed_tokens.weight"].T


# --- fresh weights -----------------------------------------------------------------------------------------------


def fresh(shape: Shape, seed: int) -> Weights:
    """Untrained weights under the original checkpoint's names, float32."""
    mx.random.seed(seed)
    h, i = shape.hidden_size, shape.intermediate_size
    depth = (2 * shape.num_hidden_layers) ** -0.5
    w: Weights = {TARGET + "embed_tokens.weight": mx.random.normal((shape.vocab_size, h)) * 0.03}

    def matrix(name: str, out: int, into: int, gain: float = 1.0) -> None:
        w[name + ".weight"] = mx.random.normal((out, into)) * (gain * into**-0.5)

    def block(at: str, linear: bool) -> None:
        w[at + "input_layernorm.weight"] = mx.zeros(h)
        w[at + "post_attention_layernorm.weight"] = mx.zeros(h)
        matrix(at + "mlp.gate_proj", i, h)
        matrix(at + "mlp.up_proj", i, h)
        matrix(at + "mlp.down_proj", h, i, depth)
        if linear:
            here, heads = at + "linear_attn.", shape.linear_num_key_heads
            keys, values = heads * shape.linear_key_head_dim, heads * shape.linear_value_head_dim
            matrix(here + "in_proj_qkv", 2 * keys + values, h)
            matrix(here + "in_proj_z", values, h)
            matrix(here + "in_proj_a", heads, h, 0.1)
            matrix(here + "in_proj_b", heads, h)
            matrix(here + "out_proj", h, values, depth)
            w[here + "conv1d.weight"] = mx.random.normal((2 * keys + values, 1, shape.linear_conv_kernel_dim)) * 0.5
            # Decay rates from slow to fast, one per head: most must remember a question until its reply ends.
            w[here + "A_log"] = mx.linspace(math.log(0.02), math.log(0.6), heads)
            w[here + "dt_bias"] = mx.zeros(heads)
            w[here + "norm.weight"] = mx.ones(shape.linear_value_head_dim)
        else:
            here, size = at + "self_attn.", shape.head_dim
            matrix(here + "q_proj", 2 * shape.num_attention_heads * size, h)
            matrix(here + "k_proj", shape.num_key_value_heads * size, h)
            matrix(here + "v_proj", shape.num_key_value_heads * size, h)
            matrix(here + "o_proj", h, shape.num_attention_heads * size, depth)
            w[here + "q_norm.weight"] = mx.zeros(size)
            w[here + "k_norm.weight"] = mx.zeros(size)

    for number, kind in enumerate(shape.layer_types()):
        block(f"{TARGET}layers.{number}.", kind == "linear_attention")
    w[TARGET + "norm.weight"] = mx.zeros(h)
    matrix("mtp.fc", h, 2 * h)
    block("mtp.layers.0.", linear=False)
    for name in ("mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.norm"):
        w[name + ".weight"] = mx.zeros(h)
    return w
