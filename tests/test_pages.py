"""What is written for people who read the source: what it names is there."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "packaging/RELEASE.md", "packaging/guide/README.md"]


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> Path:
    return ROOT / request.param


def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


def test_every_file_that_is_named_is_there(page: Path) -> None:
    """Names in backquotes of a file, or of a folder with its stroke, in a folder of this repository."""
    named = re.findall(r"`((?:engine|app|tests|resources|packaging)/[\w./-]*(?:\.[a-z]+|/))`", page.read_text())
    assert not [name for name in named if not (ROOT / name).exists() and "NAME" not in name]


def test_every_command_can_be_given(page: Path) -> None:
    text = page.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^ +|`)make ([a-z-]+)", text, re.MULTILINE)) <= targets
    assert all(find_spec(module) for module in re.findall(r"python -m (tests\.[\w.]+)", text))
