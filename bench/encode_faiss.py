"""Encoding beside FAISS in one run: vectors per CPU-second, one thread, medians of alternating repeats.

    encode_faiss.py build/bench/encode [--rows 60000] [--columns 784] [--bits 64] [--repeats 9]

FAISS is python3-faiss with the OpenBLAS that the system gives it: IndexPreTransform(LinearTransform, IndexLSH), read from
the file that holds the same model, encodes float32 vectors in memory. Laconic encodes the same vectors from mapped files,
as float32 and as bytes. Also printed: what the products cost alone in that OpenBLAS, and what its sgemm reaches on square
matrices. Values do not matter for the time; they are random bytes.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import blas  # first: it sets what numpy and FAISS read when they are loaded

import faiss  # noqa: E402
import numpy  # noqa: E402


def cpu_seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


class Laconic:
    """The program with one file open; a call encodes all of it."""

    def __init__(self, program, path, bits, *model):
        self.process = subprocess.Popen([program, path, str(bits), *model], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def seconds(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def index_of(path, bits, columns):
    """The model in FAISS, its weight taken from the safetensors file (the first tensor after the header)."""
    with open(path, "rb") as file:
        content = file.read()
    start = 8 + int.from_bytes(content[:8], "little")
    weight = numpy.frombuffer(content, "<f4", bits * columns, start)
    transform = faiss.LinearTransform(columns, bits, True)
    faiss.copy_array_to_vector(weight, transform.A)
    faiss.copy_array_to_vector(numpy.zeros(bits, "f4"), transform.b)
    transform.is_trained = True
    index = faiss.IndexPreTransform(transform, faiss.IndexLSH(bits, bits, False, False))
    index.is_trained = True
    return index, weight.reshape(bits, columns)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--columns", type=int, default=784)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    rows, columns, bits = options.rows, options.columns, options.bits
    faiss.omp_set_num_threads(1)
    random = numpy.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        raw = random.integers(0, 256, (rows, columns), "u1")
        x = raw.astype("f4")
        numpy.save(f"{folder}/u8.npy", raw)
        numpy.save(f"{folder}/f32.npy", x)
        model = f"{folder}/model.safetensors"
        own = {"laconic, float32": Laconic(options.program, f"{folder}/f32.npy", bits, model),
               "laconic, bytes": Laconic(options.program, f"{folder}/u8.npy", bits)}
        for one in own.values():
            one.seconds()  # the pages of the file and of the program
        index, weight = index_of(model, bits, columns)
        square = random.standard_normal((1024, 1024), "f4")
        kinds = {"faiss": lambda: cpu_seconds(lambda: index.sa_encode(x)),
                 **{name: one.seconds for name, one in own.items()},
                 "sgemm of that shape": lambda: cpu_seconds(lambda: x @ weight.T)}
        times = {name: [] for name in kinds}
        squares = []
        for _ in range(options.repeats):
            for name, work in kinds.items():
                times[name].append(work())
            squares.append(cpu_seconds(lambda: square @ square))
        for one in own.values():
            one.process.stdin.close()
            one.process.wait()
    flops = 2 * rows * columns * bits
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"{rows} vectors, {columns} -> {bits} bits, one thread, median of {options.repeats} (CPU seconds)")
    print(f"{'':22}{'median':>9}{'min':>9}{'max':>9}{'vectors/s':>12}{'GFLOP/s':>9}{'of faiss':>10}")
    for name, values in times.items():
        print(f"{name:22}{medians[name]:9.4f}{min(values):9.4f}{max(values):9.4f}{rows / medians[name]:12.0f}"
              f"{flops / medians[name] / 1e9:9.1f}{medians['faiss'] / medians[name]:10.2f}")
    print(f"square sgemm (1024): {2 * 1024 ** 3 / statistics.median(squares) / 1e9:.1f} GFLOP/s; "
          f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
