"""Search beside FAISS in one run: queries per CPU-second, one thread, medians of alternating repeats.

    search_faiss.py build/bench/search [--rows 60000] [--queries 2000] [-k 100] [--bits 16 32 64 128 256] [--repeats 5]
                    [--exact]

Codes: random ones, and those of Fashion-MNIST (Debian package dataset-fashion-mnist) by a random rotation of its
principal axes, thresholded at the mean; the latter where the package is installed and up to 256 bits. FAISS is
python3-faiss, IndexBinaryFlat; its distances must equal Laconic's, or the run fails. Debian builds it without the popcnt
instruction: get_compile_options is printed.

--exact adds exact neighbours of the images, as bytes and scaled to float32, beside IndexFlatL2, whose float32 distances
need not give the exact order.
"""

import argparse
import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import time

import blas  # first: it sets what numpy and FAISS read when they are loaded

import faiss  # noqa: E402
import numpy  # noqa: E402

IMAGES = "/usr/share/datasets/fashion-mnist"


class Laconic:
    """The program with its files open; a call looks up all queries."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit("the program failed")


def cpu_seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def images(name, count):
    with gzip.open(f"{IMAGES}/{name}-images-idx3-ubyte.gz") as file:
        return numpy.frombuffer(file.read(), "u1", offset=16).reshape(-1, 784)[:count]


def image_codes(base, query, bits):
    mean = base.mean(0, dtype="f8")
    centred = (base - mean).astype("f4")
    axes = numpy.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :bits]
    rotation = numpy.linalg.qr(numpy.random.default_rng(1).standard_normal((bits, bits)))[0]
    weight = (axes @ rotation).astype("f4")
    return [numpy.packbits((x - mean).astype("f4") @ weight >= 0, axis=1, bitorder="little") for x in (base, query)]


def random_codes(rows, queries, bits):
    random = numpy.random.default_rng(2)
    return [random.integers(0, 256, (n, (bits + 7) // 8), "u1") for n in (rows, queries)]


def report(label, queries, own, peer):
    a, b = statistics.median(own), statistics.median(peer)
    print(f"{label:24}{queries / a:12.0f}{queries / b:12.0f}{b / a:9.2f}   "
          f"({min(own):.3f}-{max(own):.3f} s, {min(peer):.3f}-{max(peer):.3f} s)", flush=True)


def compare_codes(options, folder, label, base, query, bits):
    numpy.save(f"{folder}/base.npy", base)
    numpy.save(f"{folder}/query.npy", query)
    own = Laconic(options.program, "hamming", f"{folder}/base.npy", f"{folder}/query.npy", str(options.k), str(bits),
                  f"{folder}/found.npy")
    index = faiss.IndexBinaryFlat(bits)
    index.add(base)
    own.seconds()
    distances = index.search(query[:200], options.k)[0]
    times = [[], []]
    for _ in range(options.repeats):
        times[0].append(own.seconds())
        times[1].append(cpu_seconds(lambda: index.search(query, options.k)))
    own.close()
    if not (numpy.load(f"{folder}/found.npy")[:200] == distances).all():
        sys.exit(f"{label}: distances differ from FAISS's")
    report(label, len(query), *times)


def compare_exact(options, folder, label, base, query):
    numpy.save(f"{folder}/base.npy", base)
    numpy.save(f"{folder}/query.npy", query)
    own = Laconic(options.program, "exact", f"{folder}/base.npy", f"{folder}/query.npy", str(options.k))
    index = faiss.IndexFlatL2(base.shape[1])
    index.add(base.astype("f4"))
    x = query.astype("f4")
    times = [[], []]
    for _ in range(options.repeats):
        times[0].append(own.seconds())
        times[1].append(cpu_seconds(lambda: index.search(x, options.k)))
    own.close()
    report(label, len(query), *times)
    gflops = 2e-9 * base.size * len(query) / statistics.median(times[0])
    print(f"{'':24}{gflops:.1f} GFLOP/s in products, with everything around them (compare bench/machine)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64, 128, 256])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--exact", action="store_true")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    real = os.path.isdir(IMAGES)
    base = images("train", options.rows) if real else None
    query = images("t10k", options.queries) if real else None
    print(f"{options.rows} codes, {options.queries} queries, k = {options.k}, one thread, median of {options.repeats}; "
          f"FAISS {faiss.__version__}, {faiss.get_compile_options().strip()}; load {os.getloadavg()[0]:.1f} on "
          f"{os.cpu_count()} processors")
    print(f"{'queries per CPU-second':24}{'laconic':>12}{'faiss':>12}{'ratio':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for bits in options.bits:
            compare_codes(options, folder, f"{bits} bits, random", *random_codes(options.rows, options.queries, bits),
                          bits)
            if real and bits <= 256:
                compare_codes(options, folder, f"{bits} bits, images", *image_codes(base, query, bits), bits)
        if options.exact and real:
            compare_exact(options, folder, "exact, bytes", base, query)
            compare_exact(options, folder, "exact, float32", base / numpy.float32(255), query / numpy.float32(255))
    return 0


if __name__ == "__main__":
    sys.exit(main())
