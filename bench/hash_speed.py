"""Training time beside FAISS's ITQ in one run: CPU seconds, one thread, interleaved, medians. Markdown on stdout.

    hash_speed.py [--program build/laconic] [--bits 16] [--repeats 5]

FAISS is python3-faiss with the OpenBLAS that the system gives it: ITQTransform(784, bits) with PCA, trained on all 60,000
Fashion-MNIST images as float32 in memory, max_train_per_dim raised so that it does use all; timed is train() alone. For
Laconic the whole process is timed, with starting, reading the mapped file and writing the model. E is the reconstruction
error over the variance of the images, for FAISS with the least-squares decoder of its codes.
"""

import argparse
import os
import statistics
import sys
import time

import runs

import faiss
import numpy

KINDS = {
    "laconic ba": [],
    "laconic ba, all points always": ["--subsample", 1],
    "laconic itq": ["--method", "itq", "--sample", 60000],
}


def faiss_itq(x, bits):
    transform = faiss.ITQTransform(x.shape[1], bits, True)
    transform.max_train_per_dim = len(x)
    start = time.process_time()
    transform.train(x)
    return time.process_time() - start, transform


def reconstruction_error(x, codes):
    """With the least-squares decoder, over the total variance; x centred."""
    z = numpy.hstack([codes.astype("f8"), numpy.ones((len(x), 1))])
    cross = z.T @ x
    solution = numpy.linalg.lstsq(z.T @ z, cross, rcond=None)[0]
    return 1 - float((solution * cross).sum() / (x.astype("f8") ** 2).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_options(parser)
    parser.add_argument("--bits", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    work, bits = runs.Work(options), options.bits
    faiss.omp_set_num_threads(1)
    images = work.images("train")
    x = numpy.fromfile(images, "u1", offset=16).reshape(-1, 784).astype("f4")
    print(f"{runs.machine()}; FAISS {faiss.__version__}; {len(x)} images, {bits} bits, {options.repeats} repeats\n")
    times = {name: [] for name in ["faiss itq", *KINDS]}
    errors = {name: [] for name in times}
    inner = {name: [] for name in KINDS}
    model = work.path("speed.safetensors")
    for repeat in range(options.repeats):
        seconds, transform = faiss_itq(x, bits)
        times["faiss itq"].append(seconds)
        if repeat == 0:
            errors["faiss itq"].append(reconstruction_error(x - x.mean(0), transform.apply_py(x) >= 0))
        for name, extra in KINDS.items():
            result = work.train(images, model, "--bits", bits, "--workers", 1, "--seed", repeat + 1, *extra)
            times[name].append(result["cpu"])
            errors[name].append(result["done"]["e_ba"])
            inner[name].append(result["done"]["seconds"]["total"])
        print(f"repeat {repeat + 1}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    rows = []
    for name, values in times.items():
        ratio = statistics.median(a / b for a, b in zip(values, times["faiss itq"]))
        rows.append([name, f"{statistics.median(values):.2f}", f"{min(values):.2f}-{max(values):.2f}", f"{ratio:.2f}",
                     f"{statistics.median(inner[name]):.2f}" if name in inner else "",
                     f"{statistics.mean(errors[name]):.4f}"])
    runs.print_table(["training", "CPU s, median", "range", "of faiss itq", "wall s, training alone", "E / variance"],
                     rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
