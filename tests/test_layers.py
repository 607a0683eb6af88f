"""The arrows of the house, read from the imports of every file.

An import counts wherever it stands: at the top, inside a function, under TYPE_CHECKING, relative, or by name
through importlib or runpy.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QT = ("PySide6", "shiboken6", "PyQt6")
MLX = ("mlx", "mlx_lm")


@dataclass(frozen=True)
class Rule:
    """What the modules under `inside`, save those under `outside`, may not import: `forbids` save `allows`.

    All four hold dotted module names; each stands for itself and everything beneath it.
    """

    says: str
    inside: tuple[str, ...]
    forbids: tuple[str, ...]
    allows: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    def covers(self, module: str) -> bool:
        return under(module, self.inside) and not under(module, self.outside)

    def breaks(self, imported: str) -> bool:
        return under(imported, self.forbids) and not under(imported, self.allows)


# What each part of the engine may import of the rest of it. What is not named is above it or beside it.
ENGINE = {
    "engine.types": (),
    "engine.sizes": (),
    "engine.errors": ("engine.types",),
    "engine.tool_calls": (),
    "engine.parts": ("engine.tool_calls",),
    "engine.device": ("engine.types", "engine.errors"),
    "engine.memory": ("engine.types", "engine.sizes", "engine.errors", "engine.device"),
    "engine.telemetry": ("engine.types", "engine.errors"),
    "engine.sampling": ("engine.types", "engine.errors"),
    "engine.whole_file": (),
    "engine.http_client": (),
    "engine.evidence": ("engine.types", "engine.errors", "engine.whole_file"),
    "engine.decode": ("engine.types", "engine.errors", "engine.telemetry"),
    "engine.model": (
        *("engine.types", "engine.errors", "engine.parts", "engine.sampling"),
        *("engine.decode.cache", "engine.decode.rotating", "engine.decode.state", "engine.decode.grammar"),
    ),
    "engine.library": (
        *("engine.types", "engine.sizes", "engine.errors", "engine.device", "engine.whole_file"),
        *("engine.model.capability", "engine.model.head_files", "engine.model.tensor_files"),
    ),
    "engine.measure_plan": (),
    "engine.measure": (
        *("engine.types", "engine.errors", "engine.device", "engine.telemetry", "engine.evidence", "engine.sampling"),
        *("engine.decode", "engine.model", "engine.measure_plan"),
    ),
    "engine.chips": ("engine.types", "engine.errors", "engine.device"),
    "engine.policy": (
        *("engine.types", "engine.errors", "engine.device", "engine.chips", "engine.evidence", "engine.telemetry"),
        *("engine.decode.depth", "engine.model.capability", "engine.model.refusals", "engine.measure"),
    ),
    "engine.bench": (
        *("engine.types", "engine.sizes", "engine.errors", "engine.device", "engine.telemetry"),
        *("engine.decode", "engine.model", "engine.library", "engine.measure", "engine.policy"),
    ),
    "engine.trials": ("engine.types", "engine.errors", "engine.model.refusals", "engine.whole_file"),
    "engine.inspection": (
        *("engine.types", "engine.errors", "engine.device", "engine.memory", "engine.trials", "engine.evidence"),
        *("engine.model.capability", "engine.model.pairing", "engine.model.refusals", "engine.library"),
        "engine.policy",
    ),
    "engine.judge": (
        *(
            "engine.types",
            "engine.sizes",
            "engine.errors",
            "engine.device",
            "engine.memory",
            "engine.evidence",
            "engine.inspection",
        ),
        *("engine.model.capability", "engine.model.refusals", "engine.library", "engine.policy"),
    ),
    "engine.suggest": (
        *(
            "engine.types",
            "engine.sizes",
            "engine.errors",
            "engine.device",
            "engine.memory",
            "engine.chips",
            "engine.library",
        ),
    ),
    "engine.librarian": (
        *("engine.types", "engine.errors", "engine.device", "engine.memory", "engine.chips", "engine.library"),
        *("engine.model.capability", "engine.judge", "engine.suggest"),
    ),
    "engine.writing": (
        *("engine.types", "engine.errors", "engine.telemetry", "engine.sampling"),
        *("engine.decode", "engine.model"),
    ),
    "engine.probe": (
        *("engine.types", "engine.errors", "engine.telemetry", "engine.writing"),
        *("engine.decode", "engine.model"),
    ),
    "engine.word_check": (
        *("engine.types", "engine.errors", "engine.telemetry", "engine.sampling", "engine.writing"),
        *("engine.decode", "engine.model"),
    ),
    "engine.counting": ("engine.types", "engine.errors", "engine.writing", "engine.model"),
    "engine.service": (
        *("engine.types", "engine.errors", "engine.device", "engine.telemetry", "engine.writing", "engine.probe"),
        *("engine.decode", "engine.model", "engine.library", "engine.measure", "engine.policy"),
        *("engine.trials", "engine.inspection", "engine.evidence", "engine.memory", "engine.word_check"),
        "engine.counting",
    ),
    "engine.worker": ("engine.types", "engine.errors", "engine.service"),
    "engine.server": (
        *("engine.types", "engine.errors", "engine.parts", "engine.tool_calls", "engine.sampling", "engine.evidence"),
    ),
    "engine.terminal": ("engine.types", "engine.errors", "engine.parts", "engine.worker"),
    "engine.printed": ("engine.types",),
    "engine.figures": (
        *("engine.types", "engine.sizes", "engine.parts", "engine.memory", "engine.inspection", "engine.printed"),
    ),
    "engine.downloads_cli": ("engine.types", "engine.sizes", "engine.errors", "engine.library", "engine.printed"),
    "engine.models_cli": (
        *(
            "engine.types",
            "engine.sizes",
            "engine.errors",
            "engine.device",
            "engine.memory",
            "engine.library",
            "engine.judge",
        ),
        *("engine.suggest", "engine.downloads_cli", "engine.printed"),
    ),
    "engine.cli": ("engine",),
}

RULES = [
    Rule("the engine runs without a window", inside=("engine",), forbids=(*QT, "app")),
    Rule("the window never touches MLX", inside=("app",), forbids=(*MLX, "transformers")),
    Rule(
        "the window knows the engine by plain types and by how replies and sizes are read; bridge and main see both",
        inside=("app",),
        outside=("app.bridge", "app.main", "app.__main__"),
        forbids=("engine",),
        allows=(
            *("engine.types", "engine.errors", "engine.parts", "engine.tool_calls", "engine.whole_file"),
            "engine.sizes",
        ),
    ),
    Rule(
        "the entry hands over to the command line and knows no more of the engine",
        inside=("app.__main__",),
        forbids=("engine",),
        allows=("engine.cli",),
    ),
    Rule("chats are kept without Qt", inside=("app.chats",), forbids=QT),
    Rule(
        "text is read and cut into segments without Qt",
        inside=(
            *("app.render.grammar", "app.render.segments", "app.render.mend"),
            "app.render.links",
        ),
        forbids=QT,
    ),
    Rule("chats and rendering know no views", inside=("app.chats", "app.render"), forbids=("app.views",)),
    Rule(
        "what crosses threads holds no arrays, and the library needs none",
        inside=(
            *("engine.types", "engine.errors", "engine.telemetry", "engine.library", "engine.judge", "engine.suggest"),
            *("engine.librarian", "engine.parts", "engine.tool_calls", "engine.sampling"),
        ),
        forbids=MLX,
    ),
    Rule("the local API knows the model by commands and events", inside=("engine.server",), forbids=MLX),
    Rule(
        "the product imports neither its tests, nor its data, nor how it is packed",
        inside=("engine", "app"),
        forbids=("tests", "resources", "packaging"),
        allows=("packaging.version",),  # a library of that name; our folder has no such file
    ),
    Rule("the engine's tests run without a window", inside=("tests.engine",), forbids=(*QT, "app")),
    *(
        Rule(
            f"{part} imports only what lies below it",
            inside=(part,),
            forbids=("engine",),
            allows=(part, *below),
        )
        for part, below in ENGINE.items()
        if "engine" not in below
    ),
]


def under(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def module_of(path: Path) -> str:
    """`engine/decode/round.py` -> `engine.decode.round`; a package's `__init__.py` is the package itself."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """Every import in the source of the file at `path` (relative to the root): line and absolute dotted name.

    `from a import b` gives `a.b`, since b may be a module.
    """
    for node in ast.walk(ast.parse(source, filename=str(path))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = [*path.parent.parts[: len(path.parent.parts) - level + 1]] if level else []
                base += [module] if module else []
                yield from ((node.lineno, ".".join([*base, alias.name])) for alias in names)
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called),
                args=[ast.Constant(value=str(name)), *_],
            ) if called in {"import_module", "__import__", "run_module"}:
                yield node.lineno, name


def broken(rule: Rule, source: str, path: Path) -> list[str]:
    """One line for people for each import in the source that breaks the rule."""
    if not rule.covers(module_of(path)):
        return []
    return [f"{path}:{line} imports {name}" for line, name in sorted(imports(source, path)) if rule.breaks(name)]


def python_files() -> list[Path]:
    return [path.relative_to(ROOT) for top in ("engine", "app", "tests") for path in sorted((ROOT / top).rglob("*.py"))]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.says)
def test_every_file_keeps(rule: Rule) -> None:
    found = [line for path in python_files() for line in broken(rule, (ROOT / path).read_text(), path)]
    assert not found, f"{rule.says}:\n  " + "\n  ".join(found)


def test_every_part_of_the_engine_has_its_place_in_the_order() -> None:
    parts = {module_of(path) for path in python_files() if path.parts[0] == "engine"} - {"engine"}
    homeless = sorted(part for part in parts if not under(part, tuple(ENGINE)))
    assert not homeless, f"say in ENGINE what these may import: {', '.join(homeless)}"


def test_the_order_of_the_engine_has_no_circle() -> None:
    placed: set[str] = set()
    for part, below in ENGINE.items():
        assert part == "engine.cli" or all(under(name, tuple(placed)) for name in below), part
        placed.add(part)


def test_resources_are_data_only() -> None:
    assert not list((ROOT / "resources").rglob("*.py"))


def test_packaging_is_no_package() -> None:
    """A package of that name at the root would hide the `packaging` that other libraries import."""
    assert not (ROOT / "packaging" / "__init__.py").exists()


# The checker itself: it must be able to fail.


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.says)
def test_a_file_that_breaks_the_rule_is_found(rule: Rule) -> None:
    path = Path(*rule.inside[0].split("."), "culprit.py")
    for forbidden in rule.forbids:
        assert broken(rule, f"def late():\n    import {forbidden}.anything\n", path) == [
            f"{path}:2 imports {forbidden}.anything"
        ]


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.allows], ids=lambda rule: rule.says)
def test_a_file_that_uses_what_the_rule_allows_is_not(rule: Rule) -> None:
    path = Path(*rule.inside[0].split("."), "neighbour.py")
    for allowed in rule.allows:
        assert broken(rule, f"import {allowed}\nfrom {allowed} import anything\n", path) == []


@pytest.mark.parametrize(
    ("statement", "imported"),
    [
        ("import mlx.core as mx", "mlx.core"),
        ("from mlx import core", "mlx.core"),
        ("from engine import worker", "engine.worker"),
        ("from ..chats import store", "app.chats.store"),
        ("from . import speed", "app.views.speed"),
        ("from .speed import Speed", "app.views.speed.Speed"),
        ("if TYPE_CHECKING:\n    import mlx_lm", "mlx_lm"),
        ("def late():\n    try:\n        import mlx\n    except ImportError:\n        pass", "mlx"),
        ("importlib.import_module('mlx.core')", "mlx.core"),
        ("runpy.run_module('engine.cli')", "engine.cli"),
        ("__import__('transformers')", "transformers"),
    ],
)
def test_an_import_is_seen_in_whatever_way_it_is_written(statement: str, imported: str) -> None:
    assert [name for _, name in imports(statement, Path("app/views/window.py"))] == [imported]


@pytest.mark.parametrize(
    ("path", "imported"),
    [
        ("app/__init__.py", "app.bridge"),
        ("app/views/__init__.py", "app.views.bridge"),
        ("app/main.py", "app.bridge"),
    ],
)
def test_a_relative_import_starts_at_the_files_own_package(path: str, imported: str) -> None:
    assert [name for _, name in imports("from . import bridge", Path(path))] == [imported]


def test_a_name_that_only_begins_alike_is_another_module() -> None:
    rule = Rule("no mlx", inside=("app",), forbids=("mlx",))
    assert broken(rule, "import mlxtend", Path("app/main.py")) == []
    assert broken(rule, "import mlx", Path("apple/main.py")) == []
