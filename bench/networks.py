"""What networks reach when they are trained by each method: errors, gradients, seconds, bytes. Markdown on stdout.

    networks.py mnist|cifar|resnet [--program build/laconic] [--data DIR] [--work build/bench-work/networks] [--seeds 1 2]
                [--only NAME ...] [--jobs 2] [--precision bf16] [--plot curves.svg]

mnist: LeNet, all 60,000 images, SGD, Elastic-SGD (3 replicas), Entropy-SGD and Parle (3 replicas) with schedules shortened to 12
and 21 passes; "longer" and "longest": to 21 and 30, with scopes that tighten four times as fast where there are any.
cifar: All-CNN of a quarter of the width, augmented, schedules of the paper divided by four: SGD on all images and on one
split, Parle on 3 splits of a half and on 6 of a quarter: as it is, "scoped" with scopes that tighten four times as fast, "late"
and "later" with its learning rate falling later as well, "tied" with replicas that are held together from the start,
"cosine" tied, with a rate that falls along a cosine.
resnet: ResNet-20, 30 epochs, float32 and bfloat16.

DIR holds the published files (of CIFAR-10 the unpacked ones). A run that was interrupted is taken up again, a finished one
is kept: delete its folder to repeat it. --precision bf16 halves the time of mnist and cifar where the processor multiplies
bfloat16 matrices (AMX). Methods with one worker share the cores, --jobs at a time. An error's interval is
Wilson's at 95 %; two methods are compared on the same test images by McNemar's exact test, all seeds together.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys

import runs

MNIST = ["--model", "lenet", "--learning-rate", "0.1", "--held-out", "0", "--batch", "128"]
SHORT = ["--epochs", "12", "--drops", "5,8,10", "--drop-factor", "0.2"]
LONGER = ["--epochs", "21", "--drops", "9,14,17.5", "--drop-factor", "0.2"]
LONGEST = ["--epochs", "30", "--drops", "14,22,27", "--drop-factor", "0.2"]
OUTER = ["--epochs", "0.84", "--drops", "0.4,0.6,0.74", "--drop-factor", "0.1"]
OUTER_LONGEST = ["--epochs", "1.2", "--drops", "0.7,1", "--drop-factor", "0.2", "--scoping", "4"]
CIFAR = ["--model", "allcnn", "--width", "0.25", "--learning-rate", "0.1", "--weight-decay", "1e-3", "--held-out", "0",
         "--batch", "128", "--flip", "--crop", "4"]
QUARTER = ["--epochs", "50", "--drops", "15,30,45", "--drop-factor", "0.2"]
NESTED = ["--epochs", "2.5", "--drop-factor", "0.2"]
PAPER = ["--drops", "0.5,1,1.5"]  # divided by four, too
LATE = ["--drops", "0.5,2"]
LATER = ["--drops", "1,2.2"]
SCOPED = ["--scoping", "4"]
TIED = ["--rho", "0.1"]
COSINE = ["--epochs", "2.5", "--schedule", "cosine"]
RESNET = ["--model", "resnet20", "--learning-rate", "0.1", "--weight-decay", "5e-4", "--held-out", "0", "--batch", "128",
          "--flip", "--crop", "4", "--epochs", "30", "--drops", "15,23,27", "--drop-factor", "0.1"]

# name: (workers, options)
SETS = {
    "mnist": ("mnist", {
        "sgd": (1, [*MNIST, *LONGER, "--method", "sgd"]),
        "sgd-longest": (1, [*MNIST, *LONGEST, "--method", "sgd"]),
        "elastic-3": (3, [*MNIST, *SHORT, "--method", "elastic"]),
        "elastic-3-longer": (3, [*MNIST, *LONGER, "--method", "elastic"]),
        "entropy": (1, [*MNIST, *OUTER, "--method", "entropy"]),
        "entropy-longest": (1, [*MNIST, *OUTER_LONGEST, "--method", "entropy"]),
        "parle-3": (3, [*MNIST, *OUTER, "--method", "parle"]),
        "parle-3-longest": (3, [*MNIST, *OUTER_LONGEST, "--method", "parle"]),
    }),
    "cifar": ("cifar10", {
        "sgd-all": (1, [*CIFAR, *QUARTER, "--method", "sgd"]),
        "sgd-half": (1, [*CIFAR, *QUARTER, "--method", "sgd", "--split", "0.5"]),
        "sgd-quarter": (1, [*CIFAR, *QUARTER, "--method", "sgd", "--split", "0.25"]),
        "parle-3-half": (3, [*CIFAR, *NESTED, *PAPER, "--method", "parle", "--split", "0.5"]),
        "parle-3-half-scoped": (3, [*CIFAR, *NESTED, *PAPER, *SCOPED, "--method", "parle", "--split", "0.5"]),
        "parle-3-half-late": (3, [*CIFAR, *NESTED, *LATE, *SCOPED, "--method", "parle", "--split", "0.5"]),
        "parle-3-half-later": (3, [*CIFAR, *NESTED, *LATER, *SCOPED, "--method", "parle", "--split", "0.5"]),
        "parle-6-quarter-late": (6, [*CIFAR, *NESTED, *LATE, *SCOPED, "--method", "parle", "--split", "0.25"]),
        "parle-6-quarter-tied": (6, [*CIFAR, *NESTED, *LATER, *SCOPED, *TIED, "--method", "parle", "--split", "0.25"]),
        "parle-6-quarter-cosine": (6, [*CIFAR, *COSINE, *SCOPED, *TIED, "--method", "parle", "--split", "0.25"]),
    }),
    "resnet": ("cifar10", {
        "f32": (1, [*RESNET, "--method", "sgd"]),
        "bf16": (1, [*RESNET, "--method", "sgd", "--precision", "bf16"]),
    }),
}


class Run:
    def __init__(self, options, kind, name, seed):
        source, methods = SETS[kind]
        self.name, self.seed, self.program = name, seed, options.program
        self.workers, self.options = methods[name]
        self.data = f"{source}:{options.data}"
        if options.precision:
            self.options = [*self.options, "--precision", options.precision]
        stem = pathlib.Path(options.work) / f"{kind}-{name}{'-' if options.precision else ''}{options.precision}-{seed}"
        self.model, self.folder, self.done = f"{stem}.safetensors", f"{stem}.run", pathlib.Path(f"{stem}.done")
        self.predictions = f"{stem}.npy"
        self.cache = ["--zca-cache", str(pathlib.Path(options.work) / "cifar-whitening.safetensors")] if kind == "cifar" else []

    def train(self):
        if self.done.exists():
            return
        if os.path.exists(f"{self.folder}/checkpoint.safetensors"):
            command = [self.program, "train", "--resume", self.folder, "--json"]
        else:
            command = [self.program, "train", "--data", self.data, "-o", self.model, "--workers", str(self.workers), "--seed",
                       str(self.seed), "--json", "--overwrite", *self.options, *self.cache]
        print(f"{self.name}, seed {self.seed}: {' '.join(command)}", file=sys.stderr, flush=True)
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\nended with {ended.returncode}: {ended.stderr.strip()}")
        self.done.write_text(ended.stdout.splitlines()[-1] + "\n")

    def metrics(self):
        return [json.loads(line) for line in open(f"{self.folder}/metrics.jsonl")]

    def wrong(self, images, labels):
        """Which test images the model gets wrong."""
        import numpy
        if not os.path.exists(self.predictions):
            subprocess.run([self.program, "predict", self.model, images, "-o", self.predictions, "-q"], check=True)
        return numpy.load(self.predictions).argmax(1) != labels


def test_files(kind, data, work):
    """The test pictures as predict reads them, and their labels."""
    import gzip
    import numpy
    if kind == "mnist":
        with gzip.open(f"{data}/t10k-labels-idx1-ubyte.gz") as file:
            labels = numpy.frombuffer(file.read(), "u1", offset=8)
        return f"{data}/t10k-images-idx3-ubyte.gz", labels
    records = numpy.fromfile(f"{data}/test_batch.bin", "u1").reshape(-1, 3073)
    path = pathlib.Path(work) / "cifar-test.npy"
    numpy.save(path, records[:, 1:].reshape(-1, 3, 32, 32))
    return str(path), records[:, 0]


def wilson(wrong, count):
    p, z = wrong / count, 1.959964
    centre, half = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return (centre - half) / (1 + z * z / count), (centre + half) / (1 + z * z / count)


def mcnemar(first, second):
    """Images that only the one or only the other gets wrong, and the two-sided exact probability."""
    only = int((first & ~second).sum()), int((second & ~first).sum())
    total, least = sum(only), min(only)
    tail = sum(math.comb(total, k) for k in range(least + 1)) / 2 ** total if total else 1
    return (*only, min(1.0, 2 * tail))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=SETS)
    parser.add_argument("--program", default=str(runs.ROOT / "build" / "laconic"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", default=str(runs.ROOT / "build" / "bench-work" / "networks"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--precision", default="", choices=["", "f32", "bf16"])
    parser.add_argument("--plot")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    names = [name for name in SETS[options.kind][1] if not options.only or name in options.only]
    wanted = [Run(options, options.kind, name, seed) for name in names for seed in options.seeds]
    print(f"{runs.machine()}\n")
    alone = [run for run in wanted if run.workers == 1]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(Run.train, alone):
            del result
    for run in wanted:
        run.train()

    import numpy
    images, labels = test_files(options.kind, options.data, options.work)
    wrong = {name: numpy.array([run.wrong(images, labels) for run in wanted if run.name == name]) for name in names}
    rows = []
    for name in names:
        mine = [run for run in wanted if run.name == name]
        last = [run.metrics()[-1] for run in mine]
        errors, count = int(wrong[name].sum()), wrong[name].size
        low, high = wilson(errors, count)
        rows.append([name, mine[0].workers, " ".join(f"{100 * each.mean():.2f}" for each in wrong[name]),
                     f"{100 * errors / count:.2f}", f"{100 * low:.2f}-{100 * high:.2f}", f"{last[0]['passes']:.4g}",
                     last[0]["gradients"], f"{sum(line['seconds'] for line in last) / len(last):.0f}", last[0]["messages"],
                     f"{last[0]['bytes'] / 1e6:.1f}"])
    runs.print_table(["method", "workers", "errors, %, by seed", "mean", "95 %", "passes", "gradients", "seconds", "messages",
                      "MB"], rows)
    rows = []
    for i, one in enumerate(names):
        for other in names[i + 1:]:
            first, second, chance = mcnemar(wrong[one].ravel(), wrong[other].ravel())
            rows.append([f"{one}, {other}", first, second, f"{chance:.2g}", "yes" if chance < 0.05 else "no"])
    runs.print_table(["pair", "only the first wrong", "only the second", "probability if equal", "different at 5 %"], rows)
    if options.plot:
        folders = [os.path.basename(run.folder) for run in wanted if run.seed == options.seeds[0]]  # the picture's labels
        subprocess.run([os.path.abspath(options.program), "compare", *folders, "--plot", os.path.abspath(options.plot)],
                       check=True, stdout=subprocess.DEVNULL, cwd=options.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
