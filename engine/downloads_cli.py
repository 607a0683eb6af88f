"""The command line's `foreword models list | pull | verify | remove`: what is on this computer, how more comes here."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError, ModelError
from engine.printed import failed, report_json, table
from engine.sizes import size_words
from engine.types import Download, ErrorReport, StoredModel

if TYPE_CHECKING:
    from rich.progress import Progress

GLANCE = 0.2
"""Seconds between two looks at a download."""

STATE_WORDS = {
    "queued": "in the queue",
    "listing": "asking what there is to download",
    "fetching": "downloading",
    "checking": "checking what is here already",
    "waiting": "waiting",
    "stalled": "nothing is coming at the moment",
    "paused": "paused",
    "failed": "ended with an error",
    "done": "done",
    "removing": "removing",
}


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add what can be done with models on this computer to the commands of `models`."""
    listing = actions.add_parser("list", help="list the models on this machine")
    listing.set_defaults(run=_list)
    listing.add_argument("--updates", action="store_true", help="ask the hub which of them have a newer version")
    listing.add_argument("--json", action="store_true", help="print them as one JSON object")

    pull = actions.add_parser(
        "pull",
        help="download a model, or go on with a download",
        description="Files go into the Hugging Face cache, where other programs find them too. Ctrl-C keeps what came: "
        "the same command goes on with it.",
    )
    pull.set_defaults(run=_pull)
    pull.add_argument("model", metavar="MODEL", help="OWNER/NAME, OWNER/NAME@VERSION, or its address on the hub")
    pull.add_argument("--json", action="store_true", help="print how it ended as one JSON object")

    verify = actions.add_parser(
        "verify",
        help="read a model's files and compare them with their hashes",
        description="Leaves with 1 where a file is missing or damaged; `pull` fetches just those again.",
    )
    verify.set_defaults(run=_verify)
    verify.add_argument("model", metavar="MODEL", help="as `foreword models list` names it")
    verify.add_argument("--json", action="store_true", help="print what was found as one JSON object")

    remove = actions.add_parser("remove", help="delete a model, or what came of a download, from this machine")
    remove.set_defaults(run=_remove)
    remove.add_argument("model", metavar="MODEL", help="as `foreword models list` names it")
    remove.add_argument("--yes", action="store_true", help="do not ask")
    remove.add_argument("--json", action="store_true", help="print what was freed as one JSON object")


# ---------------------------------------------------------------- commands


def _list(args: argparse.Namespace) -> int:
    from engine.library.places import Places, disk_use

    models = Places().models()
    newer: dict[str, str] = {}
    failure: ErrorReport | None = None
    if args.updates:
        try:
            newer = _updates(models)
        except EngineError as error:
            failure = error.report
    used = disk_use(models)
    if args.json:
        shown: dict[str, Any] = {"models": [asdict(model) for model in models], "size": used}
        if args.updates:
            shown |= {"newer": newer, "error": None if failure is None else report_json(failure)}
        print(json.dumps(shown, indent=2))
    else:
        rows = [
            (
                *(model.name, state_words(model), size_words(model.size), ORIGIN_WORDS[model.origin]),
                f"newer version: foreword models pull {model.repo}" if model.name in newer else "",
            )
            for model in models
        ]
        if rows:
            print(table(rows))
        print(f"{size_words(used)} on this computer.")
        if failure is not None:
            print(failure, file=sys.stderr)
    return 0 if failure is None else 1


ORIGIN_WORDS = {
    "box": "in the box",
    "cache": "Hugging Face cache",
    "lm_studio": "LM Studio",
    "folder": "folder",
}


def state_words(model: StoredModel) -> str:
    match model.state:
        case "installed":
            return "installed"
        case "partial":
            return f"partial, {model.percent} %"
        case "not_connected":
            return "not connected"


def _pull(args: argparse.Namespace) -> int:
    """Download a model. 0 once it is there, 1 where it does not come, 130 after Ctrl-C."""
    from engine.library import snapshot
    from engine.library.connection import endpoint
    from engine.library.downloads import Downloads
    from engine.library.repo_id import parse

    try:
        wanted = parse(args.model, endpoint())
        with Downloads(snapshot.cache_folder()) as downloads:
            id = downloads.add(wanted.id, wanted.revision)
            try:
                ended = _watch(downloads, id)
            except KeyboardInterrupt:
                print("\nStopped. What came is kept: the same command goes on with it.", file=sys.stderr)
                return 130
    except EngineError as error:
        return failed(error.report, args.json)
    if args.json:
        print(json.dumps(download_json(ended), indent=2))
    elif ended.error is not None:
        print(ended.error, file=sys.stderr)
        if ended.page:
            print(f"Its page: {ended.page}", file=sys.stderr)
    else:
        print(ended.folder)
    return 0 if ended.state == "done" else 1


def _watch(downloads: Any, id: str) -> Download:
    """Show a download until it ended: a bar on a terminal, else a line for each change."""
    with _bar() as bar:
        task = None if bar is None else bar.add_task("", total=None)
        said = ""
        while True:
            seen: Download = downloads.wait(id, GLANCE)
            if bar is not None and task is not None:
                bar.update(task, completed=seen.have, total=seen.total or None, description=pace_words(seen))
            elif (words := progress_words(seen)) != said:
                said = words
                print(f"{seen.repo}: {words}", file=sys.stderr, flush=True)
            if seen.ended:
                return seen


def progress_words(seen: Download) -> str:
    """What a download does now; while it waits, what for."""
    words = STATE_WORDS[seen.state]
    return f"{words}: {seen.error.what}" if seen.state == "waiting" and seen.error is not None else words


def pace_words(seen: Download) -> str:
    """How fast it comes and how long it will take, or what it does instead."""
    from engine.library.failures import seconds_in_words

    if seen.state != "fetching" or seen.seconds_left is None:
        return progress_words(seen)
    return f"{size_words(seen.rate)}/s, {seconds_in_words(seen.seconds_left)} left"


def _verify(args: argparse.Namespace) -> int:
    from engine.library.keeping import verify

    try:
        model = named(args.model)
        with _bar() as bar:
            task = None if bar is None else bar.add_task("checking", total=model.size)

            def moved(count: int) -> None:
                if bar is not None and task is not None:
                    bar.advance(task, count)

            found = verify(model, moved)
    except EngineError as error:
        return failed(error.report, args.json)
    if args.json:
        print(json.dumps({"model": model.name, **asdict(found), "good": found.good}, indent=2))
        return 0 if found.good else 1
    for name in found.damaged:
        print(f"{name}: damaged")
    for name in found.missing:
        print(f"{name}: missing")
    if not found.good:
        if model.origin == "cache":
            print(f"To fetch these files again: foreword models pull {model.repo}", file=sys.stderr)
        return 1
    if found.checked:
        print(f"{len(found.checked)} files are as the hub has them.")
    if found.unknown:
        print(f"{len(found.unknown)} files have no hash to compare with; every file that the model needs is there.")
    return 0


def _remove(args: argparse.Namespace) -> int:
    from engine.library.keeping import removal, remove

    try:
        model = named(args.model)
        frees = size_words(removal(model).frees)  # what cannot be deleted is refused before anybody is asked
        if not args.yes and not _agreed(f"Delete {model.name} from {model.folder}? That frees {frees}."):
            print("Nothing was deleted.", file=sys.stderr)
            return 1
        freed = remove(model)
    except EngineError as error:
        return failed(error.report, args.json)
    if args.json:
        print(json.dumps({"model": model.name, "freed": freed}, indent=2))
    else:
        print(f"{model.name} was deleted. {size_words(freed)} are free again.")
    return 0


# ---------------------------------------------------------------- parts of them


def named(name: str) -> StoredModel:
    """The model that is called so here, complete or not. Raises ModelError (model_missing)."""
    from engine.library.places import Places

    for model in Places().models():
        if name in (model.name, model.repo, model.folder):
            return model
    next_step = "foreword models list shows what there is."
    raise ModelError("model_missing", f"There is no model “{name}” on this computer.", next_step=next_step)


def download_json(ended: Download) -> dict[str, Any]:
    """How a download ended, as published. Keys are only ever added."""
    return {
        "repo": ended.repo,
        "revision": ended.revision,
        "commit": ended.commit or None,
        "state": ended.state,
        "folder": ended.folder or None,
        "have": ended.have,
        "total": ended.total,
        "files": [asdict(file) for file in ended.files],
        "error": None if ended.error is None else report_json(ended.error),
    }


def _updates(models: tuple[StoredModel, ...]) -> dict[str, str]:
    from engine.library.connection import Connection
    from engine.library.keeping import newer

    with Connection() as connection:
        found = {model.name: newer(connection, model) for model in models if model.origin == "cache"}
    return {name: commit for name, commit in found.items() if commit is not None}


def _agreed(question: str) -> bool:
    """Whether somebody says yes. Where nobody can be asked, the answer is no."""
    if not sys.stdin.isatty():
        print(f"{question} Say so with --yes.", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


@contextmanager
def _bar() -> Iterator[Progress | None]:
    """A progress bar below what is printed, on a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    with Progress(
        BarColumn(), DownloadColumn(), TextColumn("{task.description}"), console=Console(stderr=True), transient=True
    ) as bar:
        yield bar
