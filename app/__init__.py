"""Foreword's window: Qt lives here, MLX does not."""

import os

# Qt's classes are made when Python first asks for them, and two threads must not do so at once: pyqtgraph, which the
# engine's thread imports, asks for all of them, while the window is at work. So they are made with the first import.
os.environ.setdefault("PYSIDE6_OPTION_LAZY", "0")
