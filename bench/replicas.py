"""Two workers of one thread each against one: pictures per second of `laconic train`, paired. Markdown on stdout.

    replicas.py mnist|cifar10:DIR|mnist:DIR|... [--model lenet] [--method parle] [--epochs 0.035] [--pairs 7]
                [--program build/laconic] [--work build/bench-work]

Both runs take the same number of gradients, so two workers handle twice the pictures. A figure is that of the last
metrics line: it counts gradients, exchanges and the preparation of batches, and leaves out the evaluation. Runs
alternate; ratios are those of neighbours. The load is the mean over one minute before a run, which the runs themselves
raise to 1 or 2.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import runs


def images_per_second(options, workers):
    stem = pathlib.Path(options.work) / "replicas"
    command = [options.program, "train", "--model", options.model, "--data", options.data, "--method", options.method,
               "--workers", str(workers), "--epochs", str(options.epochs), "--held-out", "0", "--statistics", "1", "--json",
               "--overwrite", "-o", f"{stem}.safetensors"]
    load = os.getloadavg()[0]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {ended.returncode}: {ended.stderr.strip()}")
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    return [line for line in lines if line["event"] == "epoch"][-1]["images_per_second"], load


def figure(values, digits=0):
    return (f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--method", default="parle")
    parser.add_argument("--epochs", type=float, default=0.035)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--program", default=str(runs.ROOT / "build" / "laconic"))
    parser.add_argument("--work", default=str(runs.ROOT / "build" / "bench-work"))
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    print(f"{runs.machine()}\n")
    taken, loads = {1: [], 2: []}, []
    for pair in range(options.pairs):
        for workers in [1, 2] if pair % 2 == 0 else [2, 1]:
            speed, load = images_per_second(options, workers)
            taken[workers].append(speed)
            loads.append(load)
            print(f"pair {pair + 1}, {workers} workers, load {load:.1f}: {speed:.0f} images/s", file=sys.stderr, flush=True)
    ratios = [two / one for one, two in zip(*taken.values())]
    runs.print_table(["model", "method", "one worker, images/s", "two", "two to one", "load"], [
        [options.model, options.method, figure(taken[1]), figure(taken[2]), figure(ratios, 2),
         f"{min(loads):.1f}-{max(loads):.1f}"]])
    return 0


if __name__ == "__main__":
    sys.exit(main())
