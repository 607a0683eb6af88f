"""The handle to the local API: start it, stop it, see where it is.

    server = Server(lambda: worker)
    server.start()          # raises EngineError where it cannot listen there
    server.address          # "http://127.0.0.1:11543/v1"
    server.stop()           # streams end with what was written

It has a thread and an event loop of its own, and shares model and scheduler with whoever else uses the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.server.settings import LOOPBACK, ServerSettings

if TYPE_CHECKING:
    import uvicorn

    from engine.server.desk import Desk, Writes

log = logging.getLogger(__name__)

GRACE_S = 3
"""Seconds within which answers have to end when the server stops; a round takes less."""


class Server:
    """One local API. Use it from one thread; every method but `stop` returns at once."""

    def __init__(self, worker: Callable[[], Writes | None], settings: ServerSettings | None = None) -> None:
        """`worker` gives the worker in use, None where there is none; it is called on the server's thread."""
        self._worker = worker
        self._settings = settings or ServerSettings()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._desk: Desk | None = None
        self._stop = threading.Event()
        self._address = ""

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def address(self) -> str:
        """What a client takes as its base URL; empty while the server is not running."""
        return self._address if self.running else ""

    @property
    def served(self) -> int:
        """Requests for replies that were taken since the start."""
        return 0 if self._desk is None else self._desk.served

    @property
    def rows(self) -> int:
        """Replies that are being written for others, or wait."""
        return self._desk.rows if self._desk is not None and self.running else 0

    def start(self) -> None:
        """Listen from now on. Raises EngineError where that is not possible: not_loopback, port_taken."""
        if self.running:
            return
        listening = _listening(self._settings.host, self._settings.port)
        host, port = listening.getsockname()[:2]
        self._address = f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(listening,), name="local API", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = GRACE_S + 2.0) -> bool:
        """Take nothing more, end what is being written with what there is, and wait for that. Whether it has ended
        within `timeout` seconds."""
        self._stop.set()
        loop, desk = self._loop, self._desk
        if loop is not None and desk is not None and self.running:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(desk.close)
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout)
        return not self.running

    def _run(self, listening: socket.socket) -> None:
        try:
            asyncio.run(self._serve(listening))
        except Exception:
            log.exception("the local API has ended")
        finally:
            listening.close()

    async def _serve(self, listening: socket.socket) -> None:
        import uvicorn

        from engine.server.desk import Desk
        from engine.server.routes import application

        self._loop = asyncio.get_running_loop()
        self._desk = Desk(self._worker, self._settings)
        config = uvicorn.Config(
            application(self._desk),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=4 * self._settings.rows,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = uvicorn.Server(config)
        if not self._stop.is_set():
            await self._server.serve(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """A socket that already takes connections, so that whoever is told of the address can use it."""
    if host not in LOOPBACK:
        raise EngineError(
            "not_loopback",
            f"The local API does not listen on {host}: other computers might reach it there. "
            f"It listens on {' or '.join(LOOPBACK)} only.",
            next_step="Leave the address out, or give one of these.",
        )
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        raise EngineError(
            "port_taken",
            f"The local API cannot listen on port {port}: another program has it, or it is not free to use.",
            next_step="Choose another port.",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    return listening
