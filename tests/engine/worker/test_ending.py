"""A worker, and the process it is in, end cleanly."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.types import (
    RoundDone,
    WorkerStopped,
)
from engine.worker import Worker
from tests.engine.worker.steps import PATIENCE, loaded, request, until


def test_shutdown_stops_a_running_reply(model: Path) -> None:
    worker = Worker()
    worker.start()
    loaded(worker, model)
    worker.generate(request(1, max_tokens=4000))
    until(worker, RoundDone)
    assert worker.shutdown(PATIENCE)
    assert worker.drain()[-1] == WorkerStopped(None)


STARTS_AND_STOPS = """
import sys
import threading
from engine.types import *
from engine.worker import Worker

def until(worker, kind):
    while worker.wait(60):
        for event in worker.drain():
            if isinstance(event, kind):
                return
    sys.exit("no " + kind.__name__)

for number in range(40):
    worker = Worker()
    worker.start()
    if number % 10 == 0:
        worker.load(sys.argv[1])
        until(worker, Loaded)
        worker.generate(Request(number, "a", (Message("user", "neji"),), SamplingChoice(temperature=1.0), max_tokens=4))
        until(worker, Finished)
    elif number % 10 == 1:
        until(worker, Ready)
    if not worker.shutdown(60):
        sys.exit("a worker did not stop")
# and one more, which the end of the process finds at work
worker = Worker()
worker.start()
worker.load(sys.argv[1])
until(worker, Loaded)
worker.generate(Request(0, "a", (Message("user", "neji"),), max_tokens=4000))
until(worker, RoundDone)
"""


@pytest.mark.slow
def test_w02_forty_starts_and_stops_and_one_left_at_work_end_in_a_clean_exit(model: Path) -> None:
    command = [sys.executable, "-c", STARTS_AND_STOPS, str(model)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stderr) == (0, "")
