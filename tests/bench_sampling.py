"""What choosing costs beside the model's own work: a measurement, no test.

Times one plain step of a model of 350 million parameters in float32 with OpenBLAS (`bench_openblas.py` says why), and
in turn with it the choice for the rows of a verify over a large vocabulary, for each of some settings. Prints what each
adds to a step. Leaves with 1 where a setting that is bounded by top-k adds more than `WANTED`.

    python tests/bench_sampling.py [--vocabulary 250000] [--rows 4] [--repeats 31] [--threads 2]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
OPENBLAS = Path("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0")
WANTED = 0.03
CONTEXT = 64


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocabulary", type=int, default=250_000)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if os.environ.get("LD_PRELOAD") != str(OPENBLAS):
        if not OPENBLAS.exists():
            print(f"{OPENBLAS} is missing: install Debian's libopenblas0-pthread.", file=sys.stderr)
            return 1
        preload = {"LD_PRELOAD": str(OPENBLAS), "OPENBLAS_NUM_THREADS": str(args.threads), "PYTHONPATH": str(ROOT)}
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | preload)

    import mlx.core as mx

    from engine.bench.constructed import SHAPES, build
    from engine.decode.sample import Chooser
    from engine.model.load import load
    from engine.types import Sampling

    mx.set_default_device(mx.cpu)
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), shape=SHAPES["350m"], head="none")
        model = load(Path(folder), None, lambda stage, fraction: None)
    target = model.target
    caches = target.make_caches()
    mx.eval(target.hidden(mx.arange(300, 300 + CONTEXT)[None], caches))

    def step() -> None:
        caches.begin()
        choice = mx.argmax(target.logits(target.hidden(mx.array([[7]]), caches)), axis=-1)
        caches.commit([0])
        mx.eval(choice)

    logits = mx.random.normal((1, args.rows, args.vocabulary), key=mx.random.key(1)) * 3
    mx.eval(logits)

    def choosing(sampling: Sampling) -> Callable[[], None]:
        chooser = Chooser(sampling, [5])
        seen = mx.random.randint(0, args.vocabulary, (1, chooser.window + args.rows - 1), key=mx.random.key(2))
        mx.eval(seen)
        return lambda: mx.eval(chooser.choose(logits, [99], seen if chooser.window else None))

    every = Sampling(
        *(0.7, 100, 0.95, 0.05, 1.1, 0.5, 0.2, 64),
        logit_bias=tuple((id, 1.0) for id in range(100)),
        banned=tuple(range(200, 300)),
    )
    settings = {
        "greedy": Sampling(),
        "T 0.7, top-k 20": Sampling(0.7, 20),
        "T 0.7, top-k 100": Sampling(0.7, 100),
        "T 0.7, top-k 20, top-p, min-p": Sampling(0.7, 20, 0.95, 0.05),
        "T 0.7, top-k 100 and everything else": every,
        "T 0.7": Sampling(0.7),
        "T 0.7, min-p": Sampling(0.7, min_p=0.05),
        "T 0.7, top-p": Sampling(0.7, top_p=0.95),
    }
    parts = {"one plain step": step, **{name: choosing(sampling) for name, sampling in settings.items()}}
    times: dict[str, list[float]] = {name: [] for name in parts}
    for part in parts.values():
        part()
    for _ in range(args.repeats):
        for name, part in parts.items():
            started = time.perf_counter()
            part()
            times[name].append((time.perf_counter() - started) * 1000)
    medians = {name: median(samples) for name, samples in times.items()}
    plain = medians["one plain step"]
    print(f"{'':36}  {'ms':>7}  of a plain step; {args.rows} rows of {args.vocabulary:,}")
    for name, ms in medians.items():
        print(f"{name:36}  {ms:7.2f}  {ms / plain:6.1%}")
    return 0 if all(medians[name] < WANTED * plain for name, s in settings.items() if s.top_k) else 1


if __name__ == "__main__":
    sys.exit(main())
