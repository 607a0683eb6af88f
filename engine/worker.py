"""The one MLX thread: commands in, events out.

Everything that touches MLX happens on this thread, from import to exit: arrays that are not evaluated yet belong to
the thread that made them. Only plain data crosses over. Events gather in a deque that the owner drains when it suits
him (the window does so 30 times a second); a signal per token would starve an event loop.
"""

from __future__ import annotations

import atexit
import importlib
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from engine.errors import EngineError, logged
from engine.types import (
    ErrorReport,
    Event,
    Failed,
    Finished,
    ModelInfo,
    Ready,
    Request,
    RoundDone,
    Snapshot,
    Status,
    WorkerStopped,
)

if TYPE_CHECKING:
    from engine.service import Service

Listener = Callable[[Event], None]
"""Hears the events of one reply on the engine's thread: it returns at once and raises nothing."""


class Worker:
    """Owns the engine thread. Every method returns at once, except `wait` and `shutdown`."""

    def __init__(self, imports: Sequence[str] = ()) -> None:
        """`imports` are modules to import on the thread before MLX: imports that run on two threads at once hold
        each other up, so a slow one of the owner's is better done here."""
        self._imports = tuple(imports)
        self._commands: SimpleQueue[_Command | None] = SimpleQueue()
        self._events: deque[Event] = deque()
        self._listeners: dict[int, Listener] = {}
        self._rows: dict[int, Snapshot] = {}
        self._service: Service | None = None
        self._ended: WorkerStopped | None = None
        self._arrived = threading.Event()
        self._stopped: set[int] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the thread. `Ready` follows when it takes commands; earlier ones are kept."""
        self._thread.start()
        # An interpreter that exits under a live MLX thread aborts; this runs before that.
        atexit.register(self.shutdown)

    def load(self, model: str, head: str | None = None, draft: str | None = None) -> None:
        """Load "guide", a folder, or a repo id that is on disk. Ends in `Loaded` or `LoadFailed`.

        `head` is a file or folder with its MTP head, `draft` another model to draft for it; one that knows other
        tokens is left out, and the capability then says why.
        """
        self._commands.put(_Command(lambda service: service.load(model, head, draft), alone=True))

    @property
    def model(self) -> ModelInfo | None:
        """The model that is loaded, as of now."""
        service = self._service
        return None if service is None else service.info

    @property
    def status(self) -> Status:
        """What the engine is doing, as of now."""
        service = self._service
        return Status() if service is None else replace(service.status, rows=tuple(self._rows.values()))

    def generate(self, request: Request, listener: Listener | None = None) -> None:
        """Write a reply, beside those that are being written, or after them where there is no room. Those of one chat
        are written one after the other. Ends in `Finished` or `Failed`, unless the worker itself ends first
        (`WorkerStopped`).

        Its events go to the `listener`, if there is one, and not to `drain`: that is for whoever shares the worker with
        its owner.
        """
        if listener is not None:
            self._listeners[request.id] = listener
        self._commands.put(_Command(lambda service: service.generate(request), id=request.id))
        if self._ended is not None:
            self._emit(self._ended)  # nobody will carry it out

    def measure(self, request_id: int) -> None:
        """Time the loaded model, plain against each depth, for up to a minute, and keep what was found. Ends in
        `Measured` or `Failed`. `stop` ends it early; then nothing is kept."""
        self._commands.put(_Command(lambda service: service.measure(request_id), alone=True, id=request_id))

    def check(self, request: Request) -> None:
        """Write the reply to this request plainly and with drafts, and compare them word for word. Its chat is left
        alone. Ends in `Checked` or `Failed`; `stop` ends it early."""
        self._commands.put(_Command(lambda service: service.check(request), alone=True, id=request.id))

    def stop(self, request_id: int) -> None:
        """End a reply within one round, or before it starts. What was written is kept."""
        self._stopped.add(request_id)

    def look_at(self, chat: str | None) -> None:
        """Name the chat that people look at: where replies have to wait for each other, its own go first."""
        self._commands.put(_Command(lambda service: service.look_at(chat)))

    def forget(self, chat: str) -> None:
        """Free what is remembered of a chat that was closed."""
        self._commands.put(_Command(lambda service: service.forget(chat)))

    def set_chat_memory(self, budget: int | None) -> None:
        """Bytes that chats may keep in memory for a quick next turn; None for what suits this computer."""
        self._commands.put(_Command(lambda service: service.set_chat_memory(budget)))

    def count(self, request_id: int, text: str) -> None:
        """Count the tokens of a text, in between the rounds of what is being written. Ends in `Counted`."""
        self._commands.put(_Command(lambda service: service.count(request_id, text)))

    def weigh(self, request: Request) -> None:
        """Put the prompt of a request together and say how long it is and what would not be read of it; nothing is
        written. Ends in `Weighed`."""
        self._commands.put(_Command(lambda service: service.weigh(request)))

    def unload(self) -> None:
        """Free the model. Ends in `Unloaded`, if there was one."""
        self._commands.put(_Command(lambda service: service.unload(), alone=True))

    def shutdown(self, timeout: float = 5.0) -> bool:
        """Stop what runs and end the thread. False if it did not end within `timeout` seconds."""
        self._closing.set()
        self._commands.put(None)
        if self._thread.ident is not None and threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        atexit.unregister(self.shutdown)
        return not self._thread.is_alive()

    def drain(self) -> list[Event]:
        """All events since the last call, in order."""
        self._arrived.clear()
        events = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def wait(self, timeout: float) -> bool:
        """Sleep until there are events, at most `timeout` seconds; whether there are."""
        return self._arrived.wait(timeout)

    # ------------------------------------------------------------ on the engine thread

    def _emit(self, event: Event) -> None:
        id = getattr(event, "id", 0)
        if isinstance(event, RoundDone):
            self._rows[id] = event.snapshot
        elif isinstance(event, Finished | Failed):
            self._rows.pop(id, None)
        if (listener := self._listeners.get(id)) is not None:
            if isinstance(event, Finished | Failed):
                del self._listeners[id]
            listener(event)
            return
        while isinstance(event, WorkerStopped) and self._listeners:
            self._listeners.popitem()[1](event)
        self._events.append(event)
        self._arrived.set()

    def _run(self) -> None:
        error: ErrorReport | None = None
        try:
            self._bring_up()
            from engine.service import Service

            service = self._service = Service(self._emit, self._stopped, self._closing.is_set)
            self._emit(Ready())
            self._serve(service)
            service.unload()
        except BaseException as failure:  # the thread must say that it ends, whatever ended it
            error = logged(failure)
        finally:
            _clear_streams()
            self._service, self._ended = None, WorkerStopped(error)
            self._emit(self._ended)

    def _bring_up(self) -> None:
        """Import what is slow, and let MLX compute something. Raises EngineError where it cannot: its libraries or
        their kernels are not where they belong, or are not for this system."""
        try:
            for name in (*self._imports, "mlx_lm.utils"):
                importlib.import_module(name)
            import mlx.core as mx

            mx.eval(mx.ones(2) + 1)
        except Exception as failure:
            traceback.print_exception(failure)
            raise EngineError(
                "no_engine",
                "MLX, which runs the models, could not start.",
                kept="Your chats are kept.",
                next_step="Quit Foreword and open it again. If that does not help, download it once more and move it "
                "into Applications with the Finder.",
                detail=f"{type(failure).__name__}: {failure}",
            ) from failure

    def _serve(self, service: Service) -> None:
        """Carry out commands in their order, and write replies in between. A command that needs the model for itself
        waits until those asked for before it are written, and all others behind it, unless they have been stopped."""
        waiting: deque[_Command] = deque()
        while not self._closing.is_set():
            while not (self._commands.empty() and (service.busy or waiting)):
                command = self._commands.get()
                if command is None or self._closing.is_set():
                    break
                waiting.append(command)
            while waiting and not self._closing.is_set() and not (waiting[0].alone and service.busy):
                waiting.popleft().run(service)
            for command in [each for each in waiting if each.id in self._stopped]:
                waiting.remove(command)
                command.run(service)  # it ends at once
            if service.busy:
                service.step()
        while service.busy:  # they end with what was written, being asked to
            service.step()


@dataclass(frozen=True)
class _Command:
    """Something for the engine thread to do; `alone` while no reply is being written. `stop` knows it by its `id`."""

    run: Callable[[Service], None]
    alone: bool = False
    id: int | None = None


def _clear_streams() -> None:
    """Without this, about every second process that used MLX on a thread aborts at exit."""
    try:
        import mlx.core as mx

        mx.synchronize()  # what is still computed counts as under way for ever once its stream is gone
        mx.clear_streams()
    except Exception:  # MLX never came up: there are no streams
        traceback.print_exc()
