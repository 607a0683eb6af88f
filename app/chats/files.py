"""Text files that go along with a message: read from the disk, and put into what the model reads. No Qt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from app.sizes import size_words
from app.words import tr

LARGEST = 2_000_000
"""Bytes of a file: about half a million tokens, more than any conversation holds."""

_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".heic", ".tiff", ".bmp", ".icns", ".ico")
_SOUNDS = (".mp3", ".m4a", ".wav", ".aac", ".flac", ".mp4", ".mov", ".avi", ".mkv")
_DOCUMENTS = (".pdf", ".docx", ".doc", ".pages", ".xlsx", ".xls", ".numbers", ".pptx", ".ppt", ".key", ".rtf", ".odt")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""What no text has. The escape sign is left out: logs have it for their colours."""

LANGUAGES = {
    "py": "python",
    "js": "javascript",
    "mjs": "javascript",
    "ts": "typescript",
    "rb": "ruby",
    "rs": "rust",
    "sh": "bash",
    "zsh": "bash",
    "yml": "yaml",
    "md": "markdown",
    "h": "c",
    "hpp": "cpp",
    "cc": "cpp",
    "m": "objective-c",
    "kt": "kotlin",
    "cs": "csharp",
    "txt": "",
    "log": "",
}
"""Endings of names that are not what a language is called."""


class FileRefused(Exception):  # noqa: N818  # nothing went wrong here: the file is not one that can be read
    """Why a file cannot go along, in words for people."""


@dataclass(frozen=True)
class TextFile:
    """A file's name, without its folder, and what stands in it. What is made of a large text is made once."""

    name: str
    text: str

    @cached_property
    def bytes(self) -> int:
        """Its size in UTF-8."""
        return len(self.text.encode(errors="replace"))

    @property
    def language(self) -> str:
        """What its text is written in, as fences name it; empty for plain text."""
        ending = PurePath(self.name).suffix.removeprefix(".").lower()
        return LANGUAGES.get(ending, ending if ending.isalnum() else "")

    @cached_property
    def block(self) -> str:
        """It as the model reads it: its name, and its text in a fence that nothing in it can close."""
        fence = fence_for(self.text)
        end = "" if self.text.endswith("\n") or not self.text else "\n"
        return f"{self.name}:\n{fence}{self.language}\n{self.text}{end}{fence}"


def fence_for(text: str) -> str:
    """A fence for `text` that nothing in it can close."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))


def read_file(path: Path) -> TextFile:
    """What stands in the file at `path`. Raises FileRefused."""
    name = path.name
    try:
        if path.is_dir():
            raise FileRefused(tr("“{name}” is a folder. Attach the files in it one by one.", name=name))
        if not path.is_file():  # a pipe or a device would never end
            raise FileRefused(tr("“{name}” is not a file.", name=name))
        size = path.stat().st_size
        if reason := _kind(path.suffix.lower()):
            raise FileRefused(tr("“{name}” is {reason}. Only text can be attached.", name=name, reason=reason))
        if size > LARGEST:
            raise FileRefused(
                tr(
                    "“{name}” has {size}. A file may have up to {limit}.",
                    name=name,
                    size=size_words(size),
                    limit=size_words(LARGEST),
                )
            )
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or tr("the disk refuses")).lower()
        raise FileRefused(tr("“{name}” cannot be read: {reason}.", name=name, reason=reason)) from None
    return TextFile(name, _decoded(name, data))


def _kind(ending: str) -> str:
    """What a file with this ending is, where that is known not to be text."""
    if ending in _PICTURES:
        return tr("a picture")
    if ending in _SOUNDS:
        return tr("a recording")
    return tr("a document with a layout of its own") if ending in _DOCUMENTS else ""


def _decoded(name: str, data: bytes) -> str:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        if b"\0" in data:
            raise FileRefused(tr("“{name}” is not text. Only text can be attached.", name=name)) from None
        raise FileRefused(
            tr("“{name}” is not text in UTF-8. Save it as UTF-8 and attach it again.", name=name)
        ) from None
    if _CONTROL.search(text):
        raise FileRefused(tr("“{name}” is not text. Only text can be attached.", name=name))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def with_files(question: str, files: Iterable[TextFile]) -> str:
    """What the model reads of a message: its files first, so that the question stands next to the answer."""
    return "\n\n".join([*(file.block for file in files), *([question] if question.strip() else [])])


def files_data(files: Iterable[TextFile]) -> list[dict[str, str]]:
    """Files as JSON-ready data."""
    return [{"name": file.name, "text": file.text} for file in files]


def files_of(data: Any) -> tuple[TextFile, ...]:
    """What `files_data` has written down; what is no file is passed over."""
    return tuple(
        TextFile(each["name"], each["text"])
        for each in (data if isinstance(data, list) else [])
        if isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("text"), str)
    )
