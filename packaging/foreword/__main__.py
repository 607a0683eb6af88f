"""The program of the .app: the window, or what its arguments ask for.

In an .app `sys.executable` is the app itself. What Python's own libraries start as `sys.executable -c …`, such as the
processes of `multiprocessing`, would open the window once more; so `-c` is answered here as Python answers it.
"""

from __future__ import annotations

import sys


def code_among(arguments: list[str]) -> int | None:
    """Where `-c` stands if the arguments are those of Python: nothing but its options may come before it."""
    if "-c" not in arguments[:-1]:
        return None
    at = arguments.index("-c")
    return at if all(argument.startswith("-") for argument in arguments[:at]) else None


def main() -> int:
    arguments = sys.argv[1:]
    if (at := code_among(arguments)) is not None:
        sys.argv = ["-c", *arguments[at + 2 :]]
        exec(arguments[at + 1], {"__name__": "__main__"})
        return 0
    from app.__main__ import main as start

    return start()


if __name__ == "__main__":
    raise SystemExit(main())
