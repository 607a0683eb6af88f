"""Every reason for which MTP does not run, or a model cannot be opened: one code each, with a sentence for people.

Codes are published in receipts (`resources/receipt.schema.json`): add, never rename.
"""

from __future__ import annotations

from enum import StrEnum


class RefusalCode(StrEnum):
    """A stable code; `sentence` says it in general where nothing more particular is known."""

    sentence: str

    def __new__(cls, code: str, sentence: str = "") -> RefusalCode:
        member = str.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    # The user's choice, and what the policy finds where MTP could run.
    DISABLED_BY_USER = "disabled_by_user", "You turned MTP off."
    DEVICE_POLICY = "device_policy", "On this chip checking several words at once does not pay."
    MEASURED_SLOWER = "measured_slower", "Measured on this computer, MTP does not make this model faster."
    LOW_ACCEPTANCE = "low_acceptance", "Too few drafts of this MTP head were accepted when it was tried."
    UNVALIDATED_SIDECAR = (
        "unvalidated_sidecar",
        "It is not known which model this MTP head was made for, and it has not been tried with this one yet.",
    )

    # The model or its head cannot draft.
    MISSING_HEAD_WEIGHTS = "missing_head_weights", "This model has no MTP head, so it writes one word at a time."
    UNSUPPORTED_FAMILY = (
        "unsupported_family",
        "Foreword cannot read ahead with this kind of model yet; it writes one word at a time.",
    )
    UNSUPPORTED_HEAD = "unsupported_head", "The MTP head in this model does not fit it."
    INCOMPATIBLE_SIDECAR = "incompatible_sidecar", "This MTP head does not fit the model."
    MISSING_DRAFT_MODEL = "missing_draft_model", "There is no draft model beside this model."
    INCOMPATIBLE_DRAFT_MODEL = "incompatible_draft_model", "The draft model was made with another vocabulary."
    MIXED_NORMS = "mixed_norms", "The norm weights of the MTP head seem to be stored in two ways."
    UNSUPPORTED_CACHE = "unsupported_cache", "This model keeps a memory that cannot take back rejected words."
    UNSUPPORTED_KERNEL = "unsupported_kernel", "This computer cannot check several words of this model at once."

    # The model cannot be opened at all.
    FOLDER_MISSING = "folder_missing", "There is no such folder."
    NOT_A_FOLDER = "not_a_folder", "This is a file, and a model is a folder."
    MODEL_MISSING = "model_missing", "There is no such model on this computer."
    NO_CONFIG = "no_config", "The folder has no config.json."
    MALFORMED_CONFIG = "malformed_config", "The config of this model cannot be used."
    NO_WEIGHTS = "no_weights", "The folder has no weights that Foreword can open."
    PICKLE_WEIGHTS = "pickle_weights", "The weights are Python pickle files, which can run code when they are opened."
    SHARD_MISSING = "shard_missing", "Some of the weight files are missing."
    TRUNCATED_WEIGHTS = "truncated_weights", "A weight file is incomplete."
    MALFORMED_WEIGHTS = "malformed_weights", "A weight file is not a readable safetensors file."
    UNREADABLE_FILE = "unreadable_file", "A file could not be read."
    NO_TOKENIZER = "no_tokenizer", "The model has no tokenizer, so it cannot read text."
    REMOTE_CODE_REFUSED = "remote_code_refused", "The model wants to run Python code that came with it."
    UNSUPPORTED_MODEL = "unsupported_model", "Foreword does not know models of this kind."
    HEAD_MISSING = "head_missing", "There is no MTP head at the place that was named."
    TOO_LARGE = "too_large", "The model needs more memory than this computer has."
