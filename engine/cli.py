"""The command line: what `foreword` does when it is given a command.

It drives the same worker as the window does. Nothing heavy is imported here, so that help, a wrong option and
`--version` answer at once: MLX comes up on the worker's thread.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import models_cli
from engine.errors import EngineError
from engine.figures import (
    error_json,
    evidence_table,
    inspection_json,
    inspection_table,
    reply_json,
    stats_line,
    totals_line,
)
from engine.terminal import Engine, Printer, ReportedError
from engine.types import MAX_DEPTH, DrafterWish, Message, ModelInfo, MtpWish, Reply, Request, SamplingChoice

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. 0 when it did its work, a reply that Ctrl-C ended included, 1 after an error, 130 where Ctrl-C
    left nothing; wrong usage exits with 2."""
    _open_streams()
    try:
        args = _parser().parse_args(argv)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except EngineError as error:
        print(error.report, file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read the output has seen enough
        _write_nowhere()
        return 1
    except OSError as error:
        if error.filename is not None:
            raise
        _write_nowhere()
        print(f"The output could not be written: {error.strerror}. What is there of it is kept.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130


def _open_streams() -> None:
    """Whoever starts a command may have closed a stream, which is then None: nothing comes of it, or goes there."""
    sys.stdin, sys.stdout, sys.stderr = (
        stream or open(os.devnull, mode)  # noqa: SIM115  # as long as the process
        for stream, mode in ((sys.stdin, "r"), (sys.stdout, "w"), (sys.stderr, "w"))
    )
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character must not end a reply


def _write_nowhere() -> None:
    """What Python still holds for the output cannot be written either when it ends: let it go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


MODEL = "`guide` (the small model in the box), a model folder, or a repo id that is on this machine"
HEAD = "a file or folder with the model's MTP head, if it is shipped apart"
THINKING = "think before answering, or not, where the model has a switch for it"
DRAFTER = (
    "what reads ahead: the MTP head (default), a copy of what was said before, both in turns, or a second, smaller "
    "model with the same vocabulary"
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="foreword",
        description="A local chat app that reads ahead. Without a command it opens the window.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and leave")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_chat(commands)
    _add_generate(commands)
    _add_inspect(commands)
    _add_measure(commands)
    models_cli.add_commands(commands)
    _add_serve(commands)
    _add_bench(commands)
    return parser


def _add_chat(commands: Commands) -> None:
    chat = commands.add_parser("chat", help="chat in the terminal")
    chat.set_defaults(run=_chat)
    chat.add_argument("model", metavar="MODEL", nargs="?", default="guide", help=MODEL)
    chat.add_argument("--thinking", choices=("on", "off"), help=THINKING)


def _add_generate(commands: Commands) -> None:
    generate = commands.add_parser("generate", help="write one reply")
    generate.set_defaults(run=_generate)
    add = generate.add_argument
    add("model", metavar="MODEL", help=MODEL)
    add("--prompt", metavar="TEXT", required=True, help="the message to answer; - reads it from the input")
    add("--system", metavar="TEXT", default="", help="instructions for the model")
    add("--seed", metavar="N", type=int, help="repeats a reply exactly; drawn fresh if not given")
    add("--temperature", metavar="F", type=float, help="0 always takes the likeliest token")
    add("--top-k", metavar="N", type=int, help="choose among the N likeliest tokens")
    add("--top-p", metavar="F", type=float, help="choose among the likeliest tokens that make up this share")
    add("--min-p", metavar="F", type=float, help="drop tokens less likely than this share of the likeliest")
    add("--repetition-penalty", metavar="F", type=float, help="make tokens of the window less likely; 1 is off")
    add("--presence-penalty", metavar="F", type=float, help="taken from the score of tokens of the window; 0 is off")
    add("--frequency-penalty", metavar="F", type=float, help="the same for each time a token occurs; 0 is off")
    add("--repetition-window", metavar="N", type=int, help="how many tokens the penalties look back on (default: 64)")
    add("--logit-bias", metavar="ID=F", type=_bias, action="append", help="add F to a token's score (repeatable)")
    add("--ban", metavar="ID", type=int, action="append", help="never choose this token (repeatable)")
    add("--max-tokens", metavar="N", type=_max_tokens, default=-1, help="end the reply after N tokens")
    add("--stop", metavar="S", action="append", default=[], help="end the reply at this text (repeatable)")
    add("--thinking", choices=("on", "off"), help=THINKING)
    add("--mtp", choices=("auto", "on", "off"), default="auto", help="whether to read ahead (default: auto)")
    add("--depth", metavar=f"auto|1-{MAX_DEPTH}", type=_depth, help="drafts per round (default: auto)")
    add("--head", metavar="PATH", help=HEAD)
    add("--drafter", metavar="mtp|lookup|mixed|MODEL", type=_drafter, default=_drafter("mtp"), help=DRAFTER)
    add("--kv-bits", metavar="4|8", type=int, choices=(4, 8), help="keep keys and values in 4 or 8 bits to save memory")
    add("--kv-from", metavar="N", type=_kv_from, default=0, help="… once there are N tokens (default: 0)")
    add("--json", action="store_true", help="print the reply and its figures as one JSON object")


def _add_inspect(commands: Commands) -> None:
    inspect = commands.add_parser("inspect", help="say what a model can do and whether it would read ahead here")
    inspect.set_defaults(run=_inspect)
    inspect.add_argument("model", metavar="MODEL", help=MODEL)
    inspect.add_argument("--head", metavar="PATH", help=HEAD)
    inspect.add_argument(
        "--drafter", metavar="mtp|lookup|mixed|MODEL", type=_drafter, default=_drafter("mtp"), help=DRAFTER
    )
    inspect.add_argument("--json", action="store_true", help="print the capability and the receipt as one JSON object")


def _add_measure(commands: Commands) -> None:
    measure = commands.add_parser(
        "measure",
        help="find out what reading ahead is worth for a model on this machine, and remember it (a minute)",
    )
    measure.set_defaults(run=_measure)
    measure.add_argument("model", metavar="MODEL", help=MODEL)
    measure.add_argument("--head", metavar="PATH", help=HEAD)
    measure.add_argument("--json", action="store_true", help="print what was found as one JSON object")


def _add_serve(commands: Commands) -> None:
    serve = commands.add_parser(
        "serve",
        help="let other programs on this computer use a model, through an API like OpenAI's",
        description="Serves one model on a loopback address, where no other computer reaches it, until Ctrl-C.",
    )
    serve.set_defaults(run=_serve)
    add = serve.add_argument
    add("model", metavar="MODEL", nargs="?", default="guide", help=MODEL)
    add("--head", metavar="PATH", help=HEAD)
    add("--port", metavar="N", type=_port, default=None, help="where to listen; 0 takes any free port (default: 11543)")
    add("--host", metavar="ADDRESS", default="127.0.0.1", help="127.0.0.1 (default) or ::1")
    add("--token", metavar="TEXT", default="", help="what a program has to send along (Authorization: Bearer TEXT)")


def _add_bench(commands: Commands) -> None:
    bench = commands.add_parser(
        "bench",
        help="compare plain decoding, depths and mlx-lm, with figures for developers",
        description="Without MODEL: the standard edition, several cases in processes of their own, into a page.",
    )
    bench.set_defaults(run=_bench, wrong_usage=bench.error)
    add = bench.add_argument
    constructed = "or constructed:SIZE:FORM:ACCEPTANCE (constructed:350m:4bit:0.85)"
    add("model", metavar="MODEL", nargs="?", help=f"{MODEL}, {constructed}")
    add("--context", metavar="N", type=_tokens, default=512, help="tokens before the reply, 4k is 4096 (default: 512)")
    add("--depths", metavar="N,N", type=_depths, default=(1, 2, 3), help="drafts per round (default: 1,2,3)")
    add("--cycles", metavar="N", type=_max_tokens, default=9, help="how often each arm writes its reply (default: 9)")
    add("--tokens", metavar="N", type=_reply_tokens, default=48, help="tokens of a reply (default: 48)")
    add("--against", choices=("mlx-lm",), help="let mlx-lm's own generate_step write too, and time reading prompts")
    add("--json", metavar="FILE", help="write all figures there")
    add("--page", metavar="FILE", help="where the standard edition goes (default: BENCHMARKS.md)")


class _Version(argparse.Action):
    """Looked up only when asked for: reading a package's metadata takes longer than all the rest."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"foreword {version('foreword')}")
        parser.exit()


def _depth(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or not 1 <= int(text) <= MAX_DEPTH:
        raise argparse.ArgumentTypeError(f"{text!r} is neither auto nor a number from 1 to {MAX_DEPTH}")
    return int(text)


def _drafter(text: str) -> tuple[DrafterWish, str | None]:
    """The drafter that is wished for, and the draft model where it is one."""
    match text:
        case "mtp" | "lookup" | "mixed":
            return text, None
    return "draft_model", text


def _max_tokens(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens, 1 or more")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 0 to 65535")
    return int(text)


def _bias(text: str) -> tuple[int, float]:
    id, _, value = text.partition("=")
    try:
        return int(id), float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a token's id and a number, as in 42=-1.5") from None


def _tokens(text: str) -> int:
    """ "4k" -> 4096"""
    number, unit = (text[:-1], 1024) if text.endswith("k") else (text, 1)
    try:
        tokens = round(float(number) * unit)
    except (ValueError, OverflowError):
        tokens = 0
    if tokens < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens, 2 or more")
    return tokens


def _reply_tokens(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens, 2 or more")
    return int(text)


def _depths(text: str) -> tuple[int, ...]:
    depths = [_depth(part) or 0 for part in text.split(",")]
    if 0 in depths or len(set(depths)) < len(depths):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different depths, 1 to {MAX_DEPTH}")
    return tuple(depths)


def _kv_from(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens")
    return int(text)


# ---------------------------------------------------------------- commands


def _chat(args: argparse.Namespace) -> int:
    """Hold a chat in the terminal; with something else than a terminal as input, answer that and leave."""
    asked = None if sys.stdin.isatty() else sys.stdin.read().strip()
    if asked == "":
        return 0
    with Engine() as engine:
        model = engine.load(args.model)
        thinking = _thinking(args, model)
        if asked is not None:
            return _say(engine, model, [Message("user", asked)], thinking)[1]
        import readline  # noqa: F401  # input() then has a history and can be edited

        if not model.has_template:
            print(f"{model.name} is a base model: it goes on with a text rather than answer.", file=sys.stderr)
        print(f"{model.name} is ready. Ctrl-C stops a reply, Ctrl-D leaves.", file=sys.stderr)
        messages: list[Message] = []
        while (question := _asked()) is not None:
            if question:
                messages, _ = _say(engine, model, [*messages, Message("user", question)], thinking)
        if engine.totals.replies > 1:
            print(totals_line(engine.totals), file=sys.stderr)
        return 0


def _asked() -> str | None:
    """What is typed next; None at the end of input. Ctrl-C drops the line."""
    try:
        return input("\n> ").strip()
    except KeyboardInterrupt:
        return ""
    except EOFError:
        print()
        return None


def _thinking(args: argparse.Namespace, model: ModelInfo) -> bool | None:
    """What was said about thinking, None for nothing; a note where the model cannot be told."""
    if args.thinking is not None and model.thinks is None:
        print(f"{model.name} has no switch for thinking.", file=sys.stderr)
    return None if args.thinking is None else args.thinking == "on"


def _say(engine: Engine, model: ModelInfo, messages: list[Message], thinking: bool | None) -> tuple[list[Message], int]:
    """Stream the reply to the last message. Gives the messages to go on with (a question that could not be answered
    is left out, or it would fail again and again) and an exit code."""
    printer = Printer()
    try:
        request = Request(engine.next_id(), chat="terminal", messages=tuple(messages), thinking=thinking)
        reply = engine.reply(request, printer)
    except ReportedError as failed:
        printer.end_line()
        print(failed.report, file=sys.stderr)
        return messages[:-1], 1
    printer.end_line()
    print(stats_line(reply), file=sys.stderr)
    return [*messages, Message("assistant", reply.text, reply.tokens, model.path, reply.opened_thinking)], 0


def _generate(args: argparse.Namespace) -> int:
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    system = [Message("system", args.system)] if args.system else []
    sampling = SamplingChoice(
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        presence_penalty=args.presence_penalty,
        frequency_penalty=args.frequency_penalty,
        repetition_window=args.repetition_window,
        logit_bias=None if args.logit_bias is None else tuple(args.logit_bias),
        banned=None if args.ban is None else tuple(args.ban),
    )
    partial: Reply | None = None
    try:
        with Engine() as engine:
            drafter, draft_model = args.drafter
            model = engine.load(args.model, args.head, draft_model)
            request = Request(
                engine.next_id(),
                chat="generate",
                messages=(*system, Message("user", prompt)),
                sampling=sampling,
                seed=args.seed,
                max_tokens=args.max_tokens,
                stop=tuple(args.stop),
                mtp=MtpWish(args.mtp, args.depth, drafter),
                kv_bits=args.kv_bits,
                kv_quantise_from=args.kv_from,
                thinking=_thinking(args, model),
            )
            printer = Printer(quiet=args.json)
            try:
                reply = engine.reply(request, printer)
            except ReportedError as failed:
                partial = failed.partial
                raise
            finally:
                printer.end_line()
    except EngineError as error:
        if not args.json:
            raise
        print(json.dumps(error_json(error.report, partial)))
        return 1
    if args.json:
        print(json.dumps(reply_json(reply)))
    elif sys.stderr.isatty():
        print(stats_line(reply), file=sys.stderr)
    return 0


def _inspect(args: argparse.Namespace) -> int:
    """Look at a model without loading its weights. 1 where it cannot be opened; that MTP cannot run is no error."""
    from engine.inspection import inspect

    drafter, draft_model = args.drafter
    found = inspect(args.model, args.head, MtpWish(drafter=drafter), draft_model)
    if args.json:
        print(json.dumps(inspection_json(found), indent=2))
    elif found.error is None:
        print(inspection_table(found))
    else:
        print(found.error, file=sys.stderr)
    return 0 if found.error is None else 1


def _measure(args: argparse.Namespace) -> int:
    """Measure a model. 1 where nothing came of it."""
    from engine.evidence import speedups, to_json

    with Engine() as engine:
        engine.load(args.model, args.head)
        measured = engine.measure()
    found = measured.evidence
    if args.json:
        figures = {} if found is None else {**to_json(found), "speedups": speedups(found)}
        print(json.dumps({"sentence": measured.sentence, **figures}, indent=2))
    else:
        if found is not None:
            print(f"{evidence_table(found)}\n")
        print(measured.sentence)
    return 0 if found is not None else 1


def _serve(args: argparse.Namespace) -> int:
    """Serve a model until Ctrl-C or SIGTERM, which are its ordinary end."""
    from engine.server.server import Server
    from engine.server.settings import ServerSettings

    settings = ServerSettings(host=args.host, token=args.token)
    if args.port is not None:
        settings = replace(settings, port=args.port)
    for ending in (signal.SIGINT, signal.SIGTERM):  # a shell starts what runs behind it with Ctrl-C ignored
        signal.signal(ending, signal.default_int_handler)
    engine = Engine()
    server = Server(lambda: engine.worker, settings)
    server.start()  # a port that is taken is said before MLX comes up, which takes seconds
    with engine:
        try:
            model = engine.load(args.model, args.head)
            print(f"{model.name} is at {server.address}. Ctrl-C ends it.", flush=True)
            engine.idle()
        except KeyboardInterrupt:
            return 0
        finally:
            server.stop()


def _bench(args: argparse.Namespace) -> int:
    from engine.bench.command import bench_case, bench_edition

    if args.model is None:
        if args.json:
            args.wrong_usage("--json is for one MODEL; the standard edition writes its figures beside its page")
        print(bench_edition(Path(args.page or "BENCHMARKS.md")))
        return 0
    if args.page:
        args.wrong_usage("--page is for the standard edition, without MODEL")
    options: dict[str, Any] = {name: getattr(args, name) for name in ("context", "depths", "cycles", "tokens")}
    options["against"] = args.against is not None
    notes = Printer()

    def progress(stage: str, fraction: float) -> None:
        notes.note(f"{fraction:>4.0%} {stage}")

    try:
        section = bench_case(args.model, options, Path(args.json) if args.json else None, progress)
    finally:
        notes.clear_note()
    print(section)
    return 0
