"""The user's hub token: found where it was put, kept in the system's keychain, never in a file of ours.

HF_TOKEN comes first, as with every other tool; then the keychain; then the file that the hub's own login wrote, which
is only read. A token is kept for one hub, so that a mirror never gets one that was made for another.
"""

from __future__ import annotations

import os
from pathlib import Path

from engine.errors import EngineError
from engine.library.failures import host_of
from engine.types import HubToken, TokenSource

SERVICE = "Foreword hub token"
"""What the entry is called in the keychain; its account is the hub's host name."""

THE_HUB = "huggingface.co"


def token_for(endpoint: str) -> str | None:
    """The token to send to the hub at `endpoint`, or None. A keychain that is locked or missing is none."""
    return _found(endpoint)[1]


def standing(endpoint: str) -> HubToken:
    """Where that token comes from, and whether one could be kept."""
    return HubToken(host_of(endpoint), _found(endpoint)[0], has_keychain())


def has_keychain() -> bool:
    """Whether this system has a keychain: Linux without a desktop has none."""
    import keyring
    from keyring.errors import KeyringError

    try:
        return bool(keyring.get_keyring().priority >= 1)  # what keyring itself would recommend for this
    except (KeyringError, RuntimeError, OSError):
        return False


def _found(endpoint: str) -> tuple[TokenSource, str | None]:
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if token := _clean(os.environ.get(variable, "")):
            return "environment", token
    host = host_of(endpoint)
    if token := _kept(host):
        return "keychain", token
    if host == THE_HUB:
        from huggingface_hub import constants

        try:
            token = _clean(Path(constants.HF_TOKEN_PATH).read_text(encoding="utf-8"))
        except (OSError, UnicodeError):
            token = None
        if token is not None:
            return "file", token
    return "none", None


def keep(endpoint: str, token: str) -> None:
    """Put a token into the keychain. Raises EngineError (not_a_token, no_keychain)."""
    import keyring
    from keyring.errors import KeyringError

    clean = _clean(token)
    if clean is None:
        what = "This does not look like a token of the hub."
        raise EngineError("not_a_token", what, next_step="Copy the whole token; it begins with hf_.")
    try:
        keyring.set_password(SERVICE, host_of(endpoint), clean)
    except (KeyringError, RuntimeError, OSError) as error:
        raise EngineError(
            "no_keychain",
            "The token could not be put into the system’s keychain, and Foreword keeps it nowhere else.",
            next_step="Unlock the keychain and try again, or start Foreword with HF_TOKEN set.",
            detail=type(error).__name__,
        ) from None


def forget(endpoint: str) -> None:
    """Take the token out of the keychain, if one is there."""
    import keyring
    from keyring.errors import KeyringError

    try:
        if _kept(host_of(endpoint)):
            keyring.delete_password(SERVICE, host_of(endpoint))
    except (KeyringError, RuntimeError, OSError) as error:
        what = "The token could not be taken out of the system’s keychain."
        raise EngineError("no_keychain", what, next_step="Remove it there.", detail=type(error).__name__) from None


def _kept(host: str) -> str | None:
    import keyring
    from keyring.errors import KeyringError

    try:
        return _clean(keyring.get_password(SERVICE, host) or "")
    except (KeyringError, RuntimeError, OSError):
        return None


def _clean(token: str) -> str | None:
    """A token is one word of plain characters; anything else would break a header."""
    token = token.strip()
    return token if token and token.isascii() and token.isprintable() and " " not in token else None
