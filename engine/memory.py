"""What a model takes of this computer's memory: one sum for every place that asks whether it fits.

Nothing is allocated to find out, and the memory that happens to be free at the moment is not asked for: what other apps
hold moves aside, what the machine has does not change. MLX is not imported here.
"""

from __future__ import annotations

from engine.device import is_apple
from engine.errors import ModelError
from engine.sizes import size_words
from engine.types import Capability, Device, Fit, MemoryNeed

CHUNK, LARGE_CHUNK, LARGE = 512, 256, 10e9
"""Rows of a prompt that are computed at a time, those of models with more than `LARGE` weights, how many that is."""
STEP = 256
"""Rows by which caches grow."""
STATES_KEPT = 4
"""Recurrent states of a conversation that are always held: the present one and three marks to come back to."""
STATES_REPLAYED = 2
"""And those that a round holds besides: what it began with, kept in case it may not keep all, and what that became when
the part it may keep was run once more."""
VERIFY_ROWS = 6
"""Rows of a round whose scores are computed: the newest token and five drafts."""
CHOICE_COPIES = 12
"""Float32 numbers for each score of a round while a token is drawn: a copy, sorted, summed up, compared, with noise."""
FUSED = (64, 72, 80, 96, 128)
"""Sizes of heads for which Metal reads a prompt without keeping the scores of its attention, whatever its rows.

As `ScaledDotProductAttention::use_fallback` of MLX 0.32.4 has it: 256 and 512 have kernels too, but those are taken
from 1,024 rows at a time on, or where a caller asks for them and gives up speed (force_fused). Where scores are kept,
those of one layer are: by as much do builds of MLX differ that keep them and do not, on Macs with heads of 512 values
(its pull requests 4487 and 4518). One table has far more than that for a 27B model (4505), and does not say why."""
QUEUE = 11 * (50 << 20)
"""Bytes, weights included, that lie in the commands Metal has been given but has not done yet; what those compute is
held until they are done. For whoever reads MLX's source: a command buffer is handed over once it touches 50 Mi values
(40 on the smallest chips, device.cpp), and the next is waited with while more than ten are there (transforms.cpp).

A value of two bytes is counted twice there where it leaves one buffer for the next, as nearly all do in large pieces
of a prompt, so that a byte for each value is what published measurements on Macs are met with (test_memory.py). Nobody
has published enough of smaller pieces, or of gated-delta layers, to tell how far off it is there: the values of all
these buffers are twice as many bytes."""
GROUP = 64
"""Quantised values that share a scale and a bias."""
LEAST_CONTEXT = 2048
"""Tokens that a model must have room for, or it is not worth loading."""
CHAT_SHARE = 1 / 8
"""The share of that which goes to chats for a quick next turn."""
PLAIN_SHARE = 0.9
"""The share of its memory that a computer without Metal can give; Metal names its own limit."""
ROOMY, TIGHT = 0.5, 0.85
"""Shares of the memory for models: up to the first a model fits well, past the second it is tight."""
METAL_SMALL = 32 << 30
"""Up to so many bytes Metal's limit is two thirds of a Mac's memory, above that three quarters. For whoever may not ask
it, so that no window and no command line has to import MLX."""


def need_words(need: MemoryNeed) -> str:
    """What the memory that a model takes is made of, for people."""
    parts = [f"{size_words(need.weights)} for the model"]
    if need.head:
        parts.append(f"{size_words(need.head)} for its MTP head")
    if need.draft:
        parts.append(f"{size_words(need.draft)} for its draft model")
    parts.append(f"{size_words(need.chat)} for a chat of {need.context:,} tokens")
    parts.append(f"{size_words(need.working)} to work with")
    return ", ".join(parts)


def memory_needed(capability: Capability, device: Device, context: int, kv_bits: int | None = None) -> MemoryNeed:
    """What `capability`'s model takes on `device` with one conversation of `context` tokens, its keys and values in
    `kv_bits` bits, or as computed where None.

    On a GPU everything stays as stored; on a CPU 16-bit weights, and all that is computed, are float32.
    """
    shape, head, draft = capability.cache, capability.head, capability.draft_model
    value = 2 if device.gpu else 4
    row_value = value if kv_bits is None else kv_bits / 8 + 2 * value / GROUP
    rows = _whole_steps(context)
    at_once = CHUNK if capability.parameters <= LARGE else LARGE_CHUNK
    windows = sum(min(rows, _whole_steps(window + at_once)) * values for window, values in shape.windows)
    head_rows = min(rows, _whole_steps(shape.head_window + at_once)) if shape.head_window else rows
    block = shape.head_token * head_rows * value  # what each block of the head keeps
    chunk = min(at_once, context)
    # One layer at a time: its rows of the prompt, what it kept so far while that moves to a larger buffer, and for
    # latent attention the keys and values of all tokens.
    passing = (chunk * shape.row + (shape.head_token + shape.expanded) * rows) * value
    seen = rows if shape.token or not shape.windows else min(rows, _whole_steps(shape.windows[0][0] + at_once))
    scores = chunk * seen * shape.position_heads * value
    if kv_bits is not None or not device.gpu or shape.head_size not in FUSED:
        scores += chunk * seen * (shape.heads * value + 1)  # and a mask of one byte
    weights = _in_memory(capability.bytes, capability.quantisation, device)
    queued = 0
    if device.gpu and shape.layers:
        made = chunk * shape.layer_row * value
        queued = round(made * min(shape.layers, QUEUE / (made + weights / shape.layers)))
    return MemoryNeed(
        context=context,
        weights=weights,
        kv=round(shape.token * rows * row_value) + windows * value,
        recurrent=shape.state * STATES_KEPT,
        head=0 if head is None else _in_memory(head.bytes, head.quantisation, device) + head.count * block,
        draft=0 if draft is None else _in_memory(draft.bytes, draft.quantisation, device),
        chunk=passing,
        scores=scores,
        # Metal has a kernel that leaves the last state alone. On a processor each row leaves one.
        scan=chunk * (shape.scan_row * value + (0 if device.gpu else shape.scan)),
        queued=queued,
        choosing=VERIFY_ROWS * shape.vocabulary * 4 * CHOICE_COPIES,
        replayed=shape.state * STATES_REPLAYED,
    )


def _whole_steps(rows: int) -> int:
    return -(-rows // STEP) * STEP


def _in_memory(stored: int, quantisation: str, device: Device) -> int:
    return stored * 2 if not device.gpu and quantisation in ("bf16", "fp16") else stored


def memory_available(device: Device) -> int:
    """Bytes that a model and its conversations may take of this machine."""
    if device.working_set is not None:
        return device.working_set
    if is_apple(device):
        return device.memory * 3 // 4 if device.memory > METAL_SMALL else device.memory * 2 // 3
    return round(device.memory * PLAIN_SHARE)


def chat_memory(device: Device) -> int:
    """Bytes that chats may keep in memory for a quick next turn, unless their user says otherwise."""
    return round(memory_available(device) * CHAT_SHARE)


def context_that_fits(capability: Capability, device: Device, kv_bits: int | None = None) -> int:
    """The longest conversation that the memory holds beside the model, at most what the model was made for; whole
    steps, and 0 where the model alone does not fit."""
    has = memory_available(device)

    def fits(context: int) -> bool:
        return memory_needed(capability, device, context, kv_bits).total <= has

    if fits(capability.context):
        return capability.context
    low, high = 0, capability.context // STEP
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * STEP) else (low, middle)
    return low * STEP


def fit_of(need: float, available: int) -> Fit:
    """How a need of memory goes into what there is, both in bytes, for a model that fits with a short chat at least."""
    if need > available * TIGHT:
        return "tight"
    return "well" if need <= available * ROOMY else "fits"


def refuse_too_large(capability: Capability, device: Device) -> tuple[int, int]:
    """A model that does not fit would not fail: the whole machine would stand still, moving memory to disk and back.

    Returns what the model takes with a short chat and what a model can have here, in bytes.

    Raises ModelError (too_large) where there is no room for the model and a conversation of `LEAST_CONTEXT` tokens.
    """
    has = memory_available(device)
    need = memory_needed(capability, device, min(capability.context, LEAST_CONTEXT))
    if need.total > has:
        raise ModelError(
            "too_large",
            f"This model needs {size_words(need.total)} of memory, and {device.name} has {size_words(has)} for it.",
            next_step="Choose a smaller model, or one with fewer bits.",
            detail=need_words(need),
        )
    return need.total, has
