"""What drafting is worth where checking costs little more than writing: a measurement, no test.

The CPU wheel of MLX links the reference BLAS, which is bound by arithmetic: four rows cost over three times one. With
OpenBLAS in its place float32 is bound by memory traffic, as 4-bit weights are on the GPUs of recent Macs. This builds
a large checkpoint with known acceptance, preloads Debian's `libopenblas0-pthread` and prints the bench's table.

    python tests/bench_openblas.py [--depths 1,2,3] [--tokens 48] [--repeats 4] [--threads 1]
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

OPENBLAS = Path("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0")
MARGIN = 1.12
"""Accepts about 85 of 100 drafts."""
SHARE_WANTED = 0.85


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--depths", default="2")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    if os.environ.get("LD_PRELOAD") != str(OPENBLAS):
        if not OPENBLAS.exists():
            print(f"{OPENBLAS} is missing: install Debian's libopenblas0-pthread.", file=sys.stderr)
            return 1
        # A library can only be preloaded before the process begins, so begin again.
        preload = {"LD_PRELOAD": str(OPENBLAS), "OPENBLAS_NUM_THREADS": str(args.threads)}
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | preload)

    from engine.bench.constructed import SHAPES, build
    from engine.measure import BenchPrompt, bench, table
    from engine.model.load import load

    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), shape=SHAPES["170m"], margin=MARGIN)
        model = load(Path(folder), None, lambda stage, fraction: None)
    prompts = [BenchPrompt(f"from {start}", tuple(range(start, start + 16))) for start in (300, 2000, 5000)]
    depths = [int(depth) for depth in args.depths.split(",")]
    result = bench(
        model.target, model.head, prompts, max_tokens=args.tokens, depths=depths, repeats=args.repeats, progress=_dots
    )
    print(f"\n{table(result)}")
    return 0 if all(depth.share >= SHARE_WANTED for depth in result.depths) else 1


def _dots(fraction: float) -> None:
    print(".", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
