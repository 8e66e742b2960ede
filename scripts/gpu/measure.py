#!/usr/bin/env python3
"""Measures three decoders on this machine's accelerator and writes a raw table.

Decode steps by batch and context and prefill by length, alone and beside one and two busy
neighbours in processes of their own; loads from disk and from host memory; sleep and wake.
`gearshift profile gpu TABLE` fits profiles to the table. docs/profiling.md has its columns.
"""

import argparse
import os
import signal
import sys
import time

START = time.monotonic()  # reading PyTorch counts
BUDGET = 300
# What each part gets of the time; "end" is kept for stopping the workers.
SHARES = {"start": 0.13, "alone": 0.26, "beside": 0.34, "host": 0.13, "disk": 0.11, "end": 0.03}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--out", default="gpu-out/table.jsonl", help="file to write the table to")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: tiny shapes, to try the script")
    p.add_argument("--budget", type=float, default=BUDGET, metavar="S", help="seconds that all may take")
    p.add_argument("--dir", help="folder of the file to load from, on the disk to be measured (default: that of --out)")
    p.add_argument("--quiet", action="store_true", help="say nothing of the progress")
    o = p.parse_args()
    if not o.budget > 0:
        p.error(f"--budget {o.budget:g}: want seconds above 0")
    return o


def fail(words):
    print("gpu: " + words, file=sys.stderr)
    sys.exit(1)


def torch_or_fail():
    try:
        import torch
    except ImportError as fault:
        if fault.name not in (None, "torch"):
            fail(f"PyTorch is here but cannot be imported: {fault}")
        fail(
            f"PyTorch is missing in {sys.executable}: `python3 -m pip install torch` in an environment and PYTHON=its python, "
            "or on Debian and Ubuntu `apt-get install python3-torch` (processor only)"
        )
    return torch


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    o = arguments()
    torch = torch_or_fail()
    if o.device == "cuda" and not torch.cuda.is_available():
        fail("no accelerator: torch.cuda.is_available() is false. Try the script on tiny shapes with DEVICE=cpu (--device cpu)")
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import machine
    import parts
    import shapes
    from budget import Budget
    from table import Table

    folder = os.path.dirname(os.path.abspath(o.out))
    try:
        os.makedirs(folder, exist_ok=True)
        table = Table(o.out, o.quiet)
    except OSError as fault:
        fail(f"--out {o.out} cannot be written: {fault.strerror}")
    plan = shapes.ACCELERATOR if o.device == "cuda" else shapes.PROCESSOR
    table.add("machine", **machine.described(o.device, torch, "float16" if plan.half else "float32"), budget_s=o.budget)
    signal.signal(signal.SIGTERM, interrupt)
    run = parts.Run(plan, o.device, table, Budget(o.budget, SHARES, START), o.dir or folder)
    whole, interrupted = False, False
    try:
        whole = run.all()
    except KeyboardInterrupt:
        table.note("interrupted")
        interrupted = True
    finally:
        run.stop()
    table.add("end", seconds=run.budget.elapsed(), complete=whole)
    table.close()
    table.say(f"{table.rows} rows in {o.out}")
    if interrupted:
        sys.exit(130)
    if not run.workers:
        fail("nothing was measured: " + "; ".join(table.notes))


if __name__ == "__main__":
    main()
