"""Writes the list of everything that the app brings along, with its licences: python packaging/licences.py FOLDER TO

FOLDER holds the packages that go into the app, TO is the app's `resources/licences.json`. Ends with 1 where a licence
or its text is not known: then somebody has to look.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from app import licences


def main(folder: Path, to: Path) -> int:
    made = licences.collected(folder)
    licences.write(made, to)
    unknown = licences.missing(made)
    print(f"{len(made)} parts in {to}" + (f"; not known: {', '.join(unknown)}" if unknown else ""))
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), Path(sys.argv[2])))
