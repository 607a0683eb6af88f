"""What a person typed or pasted -> the id of a repo on the hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from engine.errors import ModelError

MAX_NAME = 96
"""Characters of an owner's or a model's name on the hub, and of an id together."""
HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co", "hf-mirror.com")
OTHER_KINDS = {"datasets": "a data set", "spaces": "a space", "collections": "a collection", "papers": "a paper"}

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class RepoId:
    """A repo, "owner/name", and the branch, tag or commit of it that is meant."""

    id: str
    revision: str = "main"

    @property
    def name(self) -> str:
        return self.id.rpartition("/")[2]


def parse(text: str, endpoint: str = "") -> RepoId:
    """The repo that an id ("owner/name", "owner/name@revision"), an address of the hub or a copied command means.

    `endpoint` is the hub that is asked, if it is another than the usual one. Raises ModelError (not_a_repo) with a
    sentence that says what is wrong with it.
    """
    words = text.strip().strip("\"'<>()").strip()
    if not words:
        raise _refused("There is nothing to look for.")
    if "://" in words or words.lower().startswith(tuple(f"{host}/" for host in HOSTS)):
        return _of_address(words, endpoint)
    words = words.removeprefix("hf:").removeprefix("models/").strip("/")
    name, at, revision = words.partition("@")
    return RepoId(_checked(name, text), _revision(revision) if at else "main")


def _of_address(words: str, endpoint: str) -> RepoId:
    try:
        address = urlsplit(words if "://" in words else f"https://{words}")
        host = address.hostname or ""
    except ValueError as error:
        raise _refused("This is not an address that can be read.") from error
    if address.scheme == "hf":  # hf://owner/name
        return RepoId(_checked(f"{host}{address.path}".strip("/"), words))
    if address.scheme not in ("http", "https"):
        raise _refused(f"An address begins with https://, not with {address.scheme}://.")
    if host.lower() not in (*HOSTS, urlsplit(endpoint).hostname or ""):
        raise _refused(f"{host or 'This'} is not the Hugging Face hub, where models are fetched from.")
    parts = [unquote(part) for part in address.path.split("/") if part]
    if parts[:2] == ["api", "models"]:
        parts = parts[2:]
    if parts and parts[0] in OTHER_KINDS:
        raise _refused(f"This is the address of {OTHER_KINDS[parts[0]]}, not of a model.")
    if len(parts) < 2:
        raise _refused("This address names no model.")
    revision = "main"
    if len(parts) > 3 and parts[2] in ("tree", "blob", "resolve", "commit", "raw"):
        revision = _revision(parts[3])
    return RepoId(_checked("/".join(parts[:2]), words), revision)


def _checked(id: str, typed: str) -> str:
    owner, slash, name = id.partition("/")
    if not slash or "/" in name:
        raise _refused(f"“{_short(typed)}” is not a model’s id: an id is an owner and a name, as in owner/name.")
    for part in (owner, name):
        if not _NAME.fullmatch(part) or "--" in part or ".." in part or len(id) > MAX_NAME:
            raise _refused(f"“{_short(typed)}” cannot be a model’s id on the hub.")
    if name.endswith(".git"):
        raise _refused(f"“{_short(typed)}” cannot be a model’s id on the hub: leave out .git.")
    return id


def _revision(words: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}", words) or ".." in words:
        raise _refused(f"“{_short(words)}” cannot be a branch or a commit.")
    return words


def _short(words: str) -> str:
    words = " ".join(words.split())
    return words if len(words) <= 60 else f"{words[:59]}…"


def _refused(what: str) -> ModelError:
    example = "Give an id such as owner/name, or the address of the model’s page."
    return ModelError("not_a_repo", what, next_step=example)
