"""`foreword --selftest [REPORT.json]`: whether this copy of the app works on this computer, from the window to a word.

The real window opens over the real engine, with a folder of its own for all that it keeps. Guide answers a question
with MTP, then plainly with the same seed, and is checked word for word; both have to be the same tokens. What was found
is written as JSON. A run that stands still is ended from another thread, and one that dies leaves what it had reached.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.about import kernels, metal_wheel

if TYPE_CHECKING:
    from app.views.window import Window
    from engine.types import Checked, ErrorReport, MtpWish, Reply, WordCheck

LIMIT_S = 55.0
"""How long a whole run may take."""
SEED, TOKENS, DEPTH = 5, 96, 2
"""Of both replies: the seed, the most tokens, drafts a round where MTP is on."""
QUESTION = "Tell me a story"
PACKAGES = ("foreword", "mlx", "mlx-metal", "mlx-cpu", "mlx-lm", "transformers", "PySide6-Essentials", "numpy")
POLL_MS = 5


class SelfTestError(Exception):
    """A stage did not end as it should; its words say how."""


@dataclass
class Report:
    """What was found. `stage` is the last one that began; times in ms since the start of the run."""

    passed: bool = False
    stage: str = ""
    failures: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    system: str = ""
    executable: str = ""
    display: str = ""
    """How Qt shows the window: cocoa, xcb, offscreen."""
    kernels: str = ""
    device: dict[str, Any] | None = None
    ms: dict[str, float] = field(default_factory=dict)
    mtp: dict[str, Any] | None = None
    plain: dict[str, Any] | None = None
    identity: dict[str, Any] | None = None
    stacks: str = ""
    """Where every thread was when the run was ended because it stood still."""

    file: Path | None = None
    began: float = field(default_factory=time.monotonic)

    def reach(self, stage: str) -> None:
        """Note that a stage begins; the one before has ended."""
        self.note_time()
        self.stage = stage
        self.write()

    def note_time(self) -> None:
        """The stage that is under way has ended."""
        if self.stage:
            self.ms[self.stage] = round((time.monotonic() - self.began) * 1000, 1)

    def fail(self, error: BaseException) -> None:
        """Note what went wrong in the stage that is under way."""
        words = str(error) if isinstance(error, SelfTestError) else repr(error)
        self.failures.append(f"{self.stage}: {words}")

    def text(self) -> str:
        """The report as JSON."""
        found = {name: value for name, value in vars(self).items() if name not in ("file", "began")}
        return json.dumps(found, indent=2)

    def write(self) -> None:
        """Bring the file up to date."""
        if self.file is not None:
            self.file.write_text(self.text() + "\n", encoding="utf-8")


class Watch:
    """Ends the process with 1 and a report when `limit` seconds have passed, unless `stop` comes first."""

    def __init__(self, report: Report, limit: float = LIMIT_S) -> None:
        self._report, self._limit = report, limit
        self._over = threading.Event()
        threading.Thread(target=self._run, name="watch", daemon=True).start()
        # Where not even this thread gets its turn, C code ends the process; the report has what was reached.
        faulthandler.dump_traceback_later(limit + 5, exit=True)

    def stop(self) -> None:
        self._over.set()
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        if self._over.wait(self._limit):
            return
        report = self._report
        report.passed = False
        report.failures.append(f"stood still: {self._limit:g} s were over in the stage “{report.stage}”")
        with tempfile.TemporaryFile("w+") as stacks:
            faulthandler.dump_traceback(stacks)
            stacks.seek(0)
            report.stacks = stacks.read()
        report.write()
        print(report.text(), flush=True)
        os._exit(1)


class Complaints(logging.Handler):
    """Gathers what is logged as an error while the app runs: an error in a slot ends nothing by itself."""

    def __init__(self, failures: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._failures = failures

    def emit(self, record: logging.LogRecord) -> None:
        what = record.exc_info[1] if record.exc_info else None
        self._failures.append(f"{record.name}: {record.getMessage()}" + (f": {what!r}" if what else ""))


def main(arguments: list[str]) -> int:
    """Run the self-test; 0 where all of it passed, else 1. The one argument is where the report goes, beside stdout."""
    report = Report(file=Path(arguments[0]).absolute() if arguments else None)
    watch = Watch(report)
    report.versions = _versions()
    report.system = f"{platform.platform()}, Python {platform.python_version()}"
    report.executable, report.kernels = sys.executable, kernels(metal_wheel())
    try:
        report.reach("imports")
    except OSError as error:
        print(f"The report cannot be written: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="foreword-selftest-", ignore_cleanup_errors=True) as home:
        # Before anything is imported that reads them: nothing of the user's is looked at or written.
        os.environ["FOREWORD_HOME"] = home
        os.environ["HF_HOME"] = str(Path(home) / "hub")
        try:
            _Run(report).run()
        except Exception as error:
            report.fail(error)
        finally:
            logging.shutdown()
    report.passed = not report.failures
    report.write()
    watch.stop()
    print(report.text(), flush=True)
    return 0 if report.passed else 1


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def difference(drafted: Sequence[int], plain: Sequence[int], check: WordCheck) -> str:
    """Why reading ahead is said to have changed a word; empty where it has not.

    On a GPU, one row and several round differently: where two words are tied within that, either may win.
    """
    if check.tied:
        return ""
    if not check.identical:
        return f"reading ahead changed a word after {check.tokens} tokens of the check"
    if tuple(drafted) != tuple(plain):
        return "the reply with MTP and the plain one are not the same tokens"
    return ""


class _Run:
    """The stages, one after the other."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._troubles: list[ErrorReport] = []

    def run(self) -> None:
        """Raises SelfTestError, and whatever the app raises."""
        report = self._report
        from app import crash, main, paths
        from app.bridge import Bridge
        from app.chats.store import Store
        from app.settings import Settings

        crash.install()
        complaints = Complaints(report.failures)
        for name in ("app", "engine"):
            logging.getLogger(name).addHandler(complaints)
        sys.setswitchinterval(main.SWITCH_INTERVAL_S)
        report.reach("window")
        qt = main.application(["foreword"])
        report.display = qt.platformName()
        bridge = Bridge(main.make_worker)
        window = main.build(Settings.load(paths.settings_file()), bridge, Store(paths.chats_file()))
        painted: list[bool] = []
        ready: list[bool] = []
        window.painted.connect(lambda: painted.append(True))
        bridge.ready.connect(lambda: ready.append(True))
        bridge.load_failed.connect(lambda event: self._troubles.append(event.error))
        bridge.failed.connect(lambda event: self._troubles.append(event.error))
        bridge.worker_lost.connect(self._troubles.append)
        bridge.job_failed.connect(self._troubles.append)
        try:
            window.show()
            self._until(lambda: bool(painted))
            report.reach("engine")
            self._until(lambda: bool(ready))
            report.reach("model")
            session = window.session
            self._until(lambda: session.model.info is not None)
            assert session.model.info is not None
            report.device = asdict(session.model.info.device)
            self._talk(window)
            report.reach("close")
        except Exception as error:
            report.fail(error)
        finally:
            window.close_unasked()
            qt.processEvents()
        if not report.failures:
            report.reach("done")

    def _talk(self, window: Window) -> None:
        from engine.types import MtpWish

        report = self._report
        report.reach("reply with MTP")
        drafted = self._reply(window, MtpWish("on", DEPTH))
        stats = drafted.stats
        report.mtp = {
            "depth": DEPTH,
            "tokens": len(drafted.tokens),
            "rounds": stats.rounds,
            "drafted": stats.drafted,
            "accepted": stats.accepted,
            "acceptance": stats.accepted / stats.evaluated if stats.evaluated else None,
            "tokens per second": stats.tokens_per_second,
            "first token ms": drafted.first_token_ms,
        }
        if not stats.accepted:
            raise SelfTestError(f"of {stats.drafted} drafts none was accepted")
        report.reach("plain reply")
        plain = self._reply(window, MtpWish("off"))
        report.plain = {
            "tokens": len(plain.tokens),
            "rounds": plain.stats.rounds,
            "tokens per second": plain.stats.tokens_per_second,
            "first token ms": plain.first_token_ms,
        }
        if plain.stats.drafted:
            raise SelfTestError("the plain reply was drafted")
        report.reach("check word for word")
        check = self._check(window)
        report.identity = {
            "replies are the same": drafted.tokens == plain.tokens,
            "tokens": len(plain.tokens),
            "check": asdict(check),
        }
        if words := difference(drafted.tokens, plain.tokens, check):
            raise SelfTestError(words)

    def _reply(self, window: Window, wish: MtpWish) -> Reply:
        """Send the question as a person does, in a chat of its own."""
        from app.views.reply import ReplyView

        session = window.session
        session.model.set_wish(wish)
        window.new_chat()
        session.set_reply(seed=SEED, max_tokens=TOKENS)
        composer = window.chat.composer
        composer.show_text(QUESTION)
        if not composer.send.isEnabled():
            raise SelfTestError("the Send button takes no click")
        composer.send.click()
        self._until(lambda: bool(session.current.turns) and not session.replies.busy)
        answer = session.current.turns[-1].latest
        if answer is None or answer.reply is None or answer.outcome != "done":
            raise SelfTestError(f"the reply ended as “{answer.outcome if answer else 'nothing'}”")
        shown = [turn for turn in window.chat.transcript.turns if isinstance(turn, ReplyView)]
        if not shown or not shown[-1].source().strip() or shown[-1].source() != answer.reply.text:
            raise SelfTestError("the window does not show the reply")
        return answer.reply

    def _check(self, window: Window) -> WordCheck:
        found: list[Checked] = []
        bridge, jobs = window.session.bridge, window.session.jobs
        bridge.checked.connect(found.append)
        if not jobs.possible:
            raise SelfTestError("the model cannot be checked: it has no MTP head that works")
        jobs.check(window.session.current)
        self._until(lambda: bool(found))
        check = found[0].check
        if check is None:
            raise SelfTestError(found[0].sentence)
        return check

    def _until(self, reached: Callable[[], bool]) -> None:
        """Let the app run until then. Raises SelfTestError where it says that something went wrong."""
        from PySide6.QtCore import QEventLoop, QTimer

        loop, poll = QEventLoop(), QTimer()
        poll.timeout.connect(lambda: loop.quit() if reached() or self._troubles else None)
        poll.start(POLL_MS)
        if not reached():
            loop.exec()
        poll.stop()
        if not reached():
            raise SelfTestError(str(self._troubles[0]))
