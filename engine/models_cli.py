"""The command line's `foreword models`: find a model on the hub, and judge one before it is downloaded."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from engine import downloads_cli
from engine.errors import EngineError
from engine.printed import failed, report_json, table
from engine.sizes import count_words, size_words
from engine.types import Judgement, SearchOrder, SearchPage, Suggestion


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `models` and what can be done with them to the commands of a parser."""
    models = commands.add_parser("models", help="find models, download them, and see what is on this machine")
    actions = models.add_subparsers(title="commands", metavar="COMMAND", required=True)
    downloads_cli.add_actions(actions)

    search = actions.add_parser(
        "search",
        help="look for models on the Hugging Face hub",
        description="Without WORDS: the model that suits this machine best, and a smaller one.",
    )
    search.set_defaults(run=_search)
    search.add_argument("words", metavar="WORDS", nargs="*", help="what has to be in the model's name")
    search.add_argument("--sort", choices=("downloads", "date"), default="downloads", help="default: downloads")
    search.add_argument("--pages", metavar="N", type=_pages, default=1, help="pages of 30 models (default: 1)")
    search.add_argument("--json", action="store_true", help="print what was found as one JSON object")

    show = actions.add_parser(
        "show",
        help="say what a model would be on this machine, before it is downloaded",
        description="Only the list of its files, its config and the headers of its weights are read. Leaves with 1 "
        "where the model cannot be used here or the hub cannot be asked.",
    )
    show.set_defaults(run=_show)
    show.add_argument("model", metavar="MODEL", help="a repo id or address of the hub, a folder, or `guide`")
    show.add_argument("--context", metavar="N", type=_tokens, default=8192, help="tokens of a chat (default: 8192)")
    show.add_argument("--json", action="store_true", help="print the judgement and its receipt as one JSON object")


def _pages(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of pages, 1 to 100")
    return int(text)


def _tokens(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens, 1 or more")
    return int(text)


# ---------------------------------------------------------------- commands


def _search(args: argparse.Namespace) -> int:
    """List what was found, or suggest something. 1 where there is nothing."""
    from engine.library.hub import Hub

    if not args.words:
        return _suggest(args)
    pages: list[SearchPage] = []
    try:
        with Hub() as hub:
            order: SearchOrder = "lastModified" if args.sort == "date" else "downloads"
            while len(pages) < args.pages and (not pages or pages[-1].next):
                pages.append(hub.search(" ".join(args.words), order, pages[-1].next if pages else ""))
    except EngineError as error:
        return failed(error.report, args.json)
    found = [model for page in pages for model in page.models]
    if args.json:
        print(json.dumps({"models": [asdict(model) for model in found], "more": bool(pages[-1].next)}, indent=2))
    else:
        rows = [
            (model.repo, f"{model.downloads:,} downloads", model.updated, "asks for consent" if model.gated else "")
            for model in found
        ]
        print(table(rows) if rows else "No model for MLX has all these words in its name.")
        if pages[-1].next:
            print(f"There are more: --pages {args.pages + 1}", file=sys.stderr)
    return 0 if found else 1


def _suggest(args: argparse.Namespace) -> int:
    from engine.device import probe
    from engine.suggest import suggest

    found = suggest(probe())
    if args.json:
        print(json.dumps({"suggestions": [suggestion_json(each) for each in found]}, indent=2))
    elif found:
        print("\n\n".join(suggestion_words(each) for each in found))
    else:
        print("None of the models that are known to be good fits into the memory of this machine.")
    return 0 if found else 1


def _show(args: argparse.Namespace) -> int:
    """Judge a model. 1 where it cannot be used here; that it would not read ahead is no error."""
    from engine.judge import judge
    from engine.library.hub import Hub

    try:
        with Hub() as hub:
            found = judge(args.model, hub, context=args.context)
    except EngineError as error:
        return failed(error.report, args.json)
    if args.json:
        print(json.dumps(judgement_json(found), indent=2))
    elif found.capability is not None:
        print(judgement_table(found))
    if found.error is not None and not args.json:
        print(found.error, file=sys.stderr)
    return 0 if found.error is None else 1


# ---------------------------------------------------------------- what is printed


def judgement_json(found: Judgement) -> dict[str, Any]:
    """A judgement as published. Keys are only ever added."""
    memory = found.memory
    return {
        "name": found.name,
        "repo": found.repo or None,
        "commit": found.commit or None,
        "size": found.size,
        "download": found.download,
        "capability": None if found.capability is None else asdict(found.capability),
        "memory": None if memory is None else memory.to_json(),
        "available": found.available,
        "fit": found.fit,
        "mtp": asdict(found.mtp),
        "receipt": found.receipt.to_json(),
        "error": None if found.error is None else report_json(found.error),
    }


def judgement_table(found: Judgement) -> str:
    """The same for people: a few aligned lines, every part of the memory by itself."""
    from engine.judge import FIT_WORDS

    capability, memory = found.capability, found.memory
    assert capability is not None
    assert memory is not None
    assert found.fit is not None
    lines = [
        ("Model", f"{found.repo or found.name} ({capability.model_type})"),
        ("Parameters", f"{count_words(capability.parameters)}, {capability.quantisation}"),
        ("Made for", f"{capability.context:,} tokens"),
        ("On disk", size_words(found.size)),
        ("Fit", f"{FIT_WORDS[found.fit]}: {size_words(memory.total)} of {size_words(found.available)}"),
        ("  weights", size_words(memory.weights)),
        ("  chat", f"{size_words(memory.kv)} of keys and values at {memory.context:,} tokens"),
        ("  states", f"{size_words(memory.recurrent)} of recurrent states"),
        ("  head", size_words(memory.head)),
        ("  to work with", f"{size_words(memory.working)}, the most of what comes one after the other:"),
        ("    attention", f"{size_words(memory.chunk)} for a piece of a prompt, {size_words(memory.scores)} of scores"),
        ("    recurrence", f"{size_words(memory.scan)} for a piece of a prompt"),
        *([("    queued", f"{size_words(memory.queued)} for the layers behind")] if memory.queued else []),
        ("    choosing", f"{size_words(memory.choosing)} for the tokens of a round"),
        *([("    replaying", f"{size_words(memory.replayed)} of states meanwhile")] if memory.replayed else []),
        ("This machine", found.device.name),
        ("Reading ahead", f"{found.mtp.words}. {found.mtp.sentence}"),
    ]
    return table(lines)


def suggestion_json(found: Suggestion) -> dict[str, Any]:
    return {**asdict(found.entry), "fit": found.fit, "why": found.why}


def suggestion_words(found: Suggestion) -> str:
    entry = found.entry
    lines = [f"{entry.name}: {entry.repo}", f"{size_words(entry.whole)} with its head. {found.why}"]
    if entry.head is not None:
        lines.insert(1, f"its head: {entry.head.repo}")
    return "\n  ".join(lines)
