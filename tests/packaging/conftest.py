"""The scripts of `packaging/` are no package: tests import them by the folder they lie in, as running one does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "packaging"))
