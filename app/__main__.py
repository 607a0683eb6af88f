"""`foreword` and `python -m app`: the window, or the command line where a command is given.

Where there is no display the same chat is held in the terminal, so starting it always ends in a conversation.
`--selftest [REPORT.json]` runs the whole app once and says whether it works here.
"""

from __future__ import annotations

import os
import sys

from app import preflight


def main() -> int:
    """Run what the arguments ask for and return the exit code."""
    try:
        return _run()
    except KeyboardInterrupt:  # before a command, or the window, has its own end for it
        return 130


def _run() -> int:
    # Older systems tell an app that they open its number in the queue of processes; nobody here wants to know it.
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("-psn_")]
    if preflight.refuse():
        return 1
    if arguments[:1] == ["--selftest"]:
        if not has_display():
            os.environ["QT_QPA_PLATFORM"] = "offscreen"
        from app import selftest

        return selftest.main(arguments[1:])
    if arguments:
        from engine import cli

        return cli.main(arguments)
    if not has_display():
        from engine import cli

        print("There is no display for the window, so here is the chat in the terminal.", file=sys.stderr)
        return cli.main(["chat"])
    try:
        from app.main import main as open_window
    except Exception as error:  # a library that is not there or not for this system: by a double click nothing is seen
        from app import crash

        crash.install()
        crash.tell(error)
        return 1
    return open_window()


def has_display() -> bool:
    """Only Linux may lack one. Qt can be told to do without."""
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in variables)


if __name__ == "__main__":
    raise SystemExit(main())
