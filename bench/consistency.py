"""Whether the mixing time predicts how training slows down: one network, 8 workers, ten epochs of CIFAR-10, at several
mixing times reached by period and by slack, under several protocols and optimisers. Markdown on stdout.

    consistency.py --data DIR [--program build/laconic] [--work build/bench-work/consistency] [--workers 8] [--epochs 10]
                   [--levels 4 16 64 256 1000] [--only NAME ...] [--plot consistency.svg]

DIR holds CIFAR-10's unpacked .bin files. The network is consistency.txt. t_mix is what `laconic mix` says, in rounds. The
slow-down is how many updates the run takes to the training loss that all-reduce has after a fifth of its epochs, over what
all-reduce takes (interpolated between epochs). Exchanges without rounds run on a simulated network. A run that was
interrupted is taken up again, a finished one is kept: delete its folder to repeat it.

The last table is of one epoch at ever smaller slacks: which part of the moves towards the mean float32 cannot hold.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

import runs

HERE = pathlib.Path(__file__).resolve().parent
COMMON = ["--model", str(HERE / "consistency.txt"), "--batch", "32", "--held-out", "0", "--flip", "--statistics", "20",
          "--schedule", "cosine", "--seed", "1"]
OPTIMIZERS = {
    "momentum": ["--optimizer", "momentum", "--learning-rate", "0.05"],
    # a server takes whole updates, where others take their mean
    "momentum, rate / 8": ["--optimizer", "momentum", "--learning-rate", "0.00625"],
    "amsgrad": ["--optimizer", "amsgrad", "--learning-rate", "0.002"],
    "rmsprop": ["--optimizer", "rmsprop", "--learning-rate", "0.001", "--second-momentum", "0.99"],
}


def plan(options):
    """name: (optimiser, device, options of the exchange as mix and train take them)"""
    n, found = options.workers, {}

    def period(t):
        return ["periodic", "--period", str(t)] if t > 1 else ["allreduce"]

    def slack(t):
        return ["allreduce", "--slack", repr(1 - math.exp(-math.log(4 * (1 - 1 / n)) / t))]

    found["all-reduce"] = ("momentum", "", period(1))
    for t in options.levels:
        found[f"period {t}"] = ("momentum", "period", period(t))
        found[f"slack for {t}"] = ("momentum", "slack", slack(t))
    for name in ("dpsgd", "adpsgd", "async-ring", "async-server"):
        found[name] = ("momentum", "", [name])
    found["async-server, rate / 8"] = ("momentum, rate / 8", "", ["async-server"])
    for optimizer in ("amsgrad", "rmsprop"):
        for t in [1, options.levels[len(options.levels) // 2], options.levels[-1]]:
            found[f"{optimizer}, period {t}"] = (optimizer, "period", period(t))
    return found


def precisions():
    return {f"slack {slack:.0e}": ("momentum", "slack", ["allreduce", "--slack", f"{slack:.0e}"])
            for slack in (1e-1, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)}


class Run:
    def __init__(self, options, name, spec, epochs=None):
        self.name, self.program = name, options.program
        self.optimizer, self.device, self.exchange = spec
        stem = pathlib.Path(options.work) / name.replace(" ", "-").replace(",", "").replace("/", "by")
        self.folder, self.done = f"{stem}.run", pathlib.Path(f"{stem}.done")
        self.command = ["train", "--data", f"cifar10:{options.data}", "-o", f"{stem}.safetensors", "--workers",
                        str(options.workers), "--epochs", str(epochs or options.epochs), *COMMON, *OPTIMIZERS[self.optimizer],
                        "--exchange", *self.exchange]
        if self.exchange[0] in ("adpsgd", "async-ring", "async-server"):
            self.command += ["--simulate", "1Gbit,50us", "--compute", "10ms"]
        self.workers = options.workers

    def train(self):
        if self.done.exists():
            return
        resume = os.path.exists(f"{self.folder}/checkpoint.safetensors")
        command = [self.program, *(["train", "--resume", self.folder] if resume else [*self.command, "--overwrite"]), "--json"]
        print(f"{self.name}: {' '.join(command)}", file=sys.stderr, flush=True)
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode not in (0, 1):
            sys.exit(f"{' '.join(command)}\nended with {ended.returncode}: {ended.stderr.strip()}")
        self.done.write_text(ended.stderr)

    def lines(self):
        path = f"{self.folder}/metrics.jsonl"
        return [json.loads(line) for line in open(path)] if os.path.exists(path) else []

    def mixing(self):
        said = subprocess.run([self.program, "mix", "--json", "--workers", str(self.workers), "--protocol", *self.exchange],
                              check=True, capture_output=True, text=True).stdout
        return json.loads(said.splitlines()[0])["t_mix"]


def gradients_to(lines, loss):
    """Gradients of a worker until the training loss is so low; an epoch's loss stands for its middle."""
    before = None
    for line in lines:
        at, value = line["gradients"], line["train_loss"]
        if value is None:
            return math.nan
        if value <= loss:
            if before is None:
                return at
            return before[0] + (at - before[0]) * (before[1] - loss) / (before[1] - value)
        before = (at, value)
    return math.inf


def text(value, digits):
    return "never" if value == math.inf else "-" if value is None or value != value else f"{value:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(runs.ROOT / "build" / "laconic"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", default=str(runs.ROOT / "build" / "bench-work" / "consistency"))
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--levels", type=int, nargs="+", default=[4, 16, 64, 256, 1000])
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--plot")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    print(f"{runs.machine()}\n")
    wanted = [Run(options, name, spec) for name, spec in plan(options).items() if not options.only or name in options.only]
    for run in wanted:
        run.train()
    targets = {}
    for run in wanted:  # the first run of each optimiser is the one that mixes fully
        lines = run.lines()
        if run.optimizer.split(",")[0] not in targets and lines:
            early = lines[max(1, len(lines) // 5) - 1]
            targets[run.optimizer] = (early["train_loss"], gradients_to(lines, early["train_loss"]))
    rows = []
    for run in wanted:
        lines, mixing = run.lines(), run.mixing()
        loss, base = targets[run.optimizer.split(",")[0]]
        last = lines[-1] if lines else {}
        slow = gradients_to(lines, loss) / base
        rows.append([run.name, run.optimizer, text(mixing["rounds"], 1), mixing["kind"], text(last.get("train_loss"), 4),
                     text(100 * last["test_error"] if last else None, 2), text(slow, 2),
                     f"{last.get('spread', math.nan):.2g}", f"{last.get('bytes', 0) / 1e6:.0f}",
                     "yes" if len(lines) >= options.epochs else f"stopped: {run.done.read_text().strip()[-90:]}"])
    runs.print_table(["run", "optimiser", "t_mix", "kind", "loss", "test error, %", "slow-down", "spread", "MB", "whole"], rows)
    rows = []
    for name, spec in precisions().items() if not options.only else ():
        run = Run(options, name, spec, epochs=1)
        run.train()
        last = run.lines()[-1]
        rows.append([name, text(run.mixing()["rounds"], 0), text(100 * last["exchange"]["lost"], 1), f"{last['spread']:.2g}",
                     text(last["train_loss"], 4), "yes" if "float32" in run.done.read_text() else "no"])
    runs.print_table(["run", "t_mix", "moves lost, %", "spread", "loss", "said so"], rows)
    if options.plot:
        folders = [run.folder for run in wanted if run.lines()]
        subprocess.run([options.program, "compare", *folders, "--plot", options.plot], check=True, stdout=subprocess.DEVNULL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
