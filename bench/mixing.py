"""Mixing times beside numpy and scipy in one run: CPU seconds, one thread, interleaved, medians. Markdown on stdout.

    mixing.py [--program build/bench/mixing] [--slots 1024] [--workers 100000] [--repeats 5]

The first table is of the exact mixing time of a dense ring: lac_mixing_exact; numpy squaring until the chain has mixed,
then bisecting with the stored powers, every product whole; and numpy doing no more than these squarings. Both have the
OpenBLAS that the system gives them. GFLOP/s count each squaring and each bit of the time beyond the first as 2 m^3: what
is saved counts as speed.

The second is of the spectral gap of large graphs: what lac_mixing_spectrum does, the same where nothing but the matrix is
known, and scipy's eigsh (ARPACK; with sigma, by SuperLU) on the same matrix: plain, of largest modulus, where that
converges, else nearest 1. Its second eigenvalue is what counts, the first being 1. Laconic's Lanczos stops at a residual
of 1e-4 of the gap, so that plain eigsh is also timed with that tolerance.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import runs  # first: by way of it numpy is loaded with one thread

import numpy
import scipy
import scipy.sparse
import scipy.sparse.linalg


def timed(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def ring(n):
    eye = numpy.eye(n)
    return (eye + numpy.roll(eye, 1, 1) + numpy.roll(eye, -1, 1)) / 3


def farthest(power):
    return 0.5 * numpy.abs(power - 1 / len(power)).sum(1).max()


def squares(matrix, count):
    powers = [matrix]
    for _ in range(count):
        powers.append(powers[-1] @ powers[-1])
    return powers


def squares_and_bisection(matrix):
    """Of a doubly stochastic matrix: pi is uniform."""
    powers = [matrix]
    while farthest(powers[-1]) > 0.25:
        powers.append(powers[-1] @ powers[-1])
    if len(powers) == 1:
        return 1
    top = len(powers) - 2
    steps, product = 1 << top, powers[top]
    for k in reversed(range(top)):
        longer = product @ powers[k]
        if farthest(longer) > 0.25:
            steps, product = steps + (1 << k), longer
    return steps + 1


def read_weights(path):
    with open(path, "rb") as file:
        n, entries = numpy.fromfile(file, "i8", 2)
        start = numpy.fromfile(file, "i8", n + 1)
        column = numpy.fromfile(file, "i4", entries)
        return scipy.sparse.csr_matrix((numpy.fromfile(file, "f8", entries), column, start), (n, n))


def spread(values):
    return [f"{statistics.median(values):.3g}", f"{min(values):.3g}-{max(values):.3g}"]


def of_peer(values, peer):
    return f"{statistics.median(a / b for a, b in zip(values, peer)):.2g}"


def exact(options):
    n, matrix = options.slots, ring(options.slots)
    times = {name: [] for name in ("laconic", "numpy, squares and bisects", "numpy, the squarings alone", "numpy, one product")}
    for _ in range(options.repeats):
        result = run(options.program, "exact", n, 1)[0]
        steps = result["steps"]
        count = (steps - 1).bit_length()
        times["laconic"].append(result["seconds"])
        seconds, found = timed(lambda: squares_and_bisection(matrix))
        if found != steps:
            sys.exit(f"a ring of {n}: found {steps}, numpy {found}")
        times["numpy, squares and bisects"].append(seconds)
        times["numpy, the squarings alone"].append(timed(lambda: squares(matrix, count))[0])
        times["numpy, one product"].append(timed(lambda: matrix @ matrix)[0])
    products = {"laconic": count + steps.bit_count() - 1, "numpy, squares and bisects": 2 * count - 1,
                "numpy, the squarings alone": count, "numpy, one product": 1}
    print(f"A dense ring of {n:,} slots, weights 1/3: t_mix {steps:,}\n")
    runs.print_table(["", "CPU s, median", "range", "of numpy's squarings", "products", "GFLOP/s"],
                     [[name, *spread(values), of_peer(values, times["numpy, the squarings alone"]), products[name],
                       f"{products[name] * 2e-9 * n ** 3 / statistics.median(values):.0f}"]
                      for name, values in times.items()])


def peer_gap(matrix, sigma, tolerance):
    values = scipy.sparse.linalg.eigsh(matrix, 2, sigma=sigma, which="LM", tol=tolerance, return_eigenvectors=False)
    return 1 - sorted(abs(values))[0]


def spectra(options):
    rows = []
    inverse, plain = {"eigsh, sigma 1 + 1e-10": (1 + 1e-10, 0)}, {"eigsh": (None, 0), "eigsh, tol 1e-5": (None, 1e-5)}
    for kind, peers in (("ring", inverse), ("torus", inverse), ("random-regular", plain)):
        with tempfile.NamedTemporaryFile() as file:
            run(options.program, "weights", kind, options.workers, file.name)
            matrix = read_weights(file.name)
        matrix = matrix.tocsc() if peers is inverse else matrix
        first = next(iter(peers))
        times = {name: [] for name in ("laconic", "laconic, the matrix alone", *peers)}
        gaps, how = {}, dict.fromkeys(peers, "arpack")
        for _ in range(options.repeats):
            for name, command in (("laconic", "spectrum"), ("laconic, the matrix alone", "numeric")):
                result = run(options.program, command, kind, options.workers, 1)[0]
                times[name].append(result["seconds"])
                gaps[name], how[name] = result["gap"], result["method"]
            for name, settings in peers.items():
                seconds, gaps[name] = timed(lambda: peer_gap(matrix, *settings))
                times[name].append(seconds)
            print(f"{kind}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        rows += [[kind, name, how[name], *spread(values), of_peer(values, times[first]), f"{gaps[name]:.9g}"]
                 for name, values in times.items()]
    print(f"{options.workers:,} workers, Metropolis weights; scipy {scipy.__version__}\n")
    runs.print_table(["topology", "", "method", "CPU s, median", "range", "of eigsh", "spectral gap"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(runs.ROOT / "build" / "bench" / "mixing"),
                        help="default: build/bench/mixing")
    parser.add_argument("--slots", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=100000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"{runs.machine()}; numpy {numpy.__version__}; {options.repeats} repeats\n")
    exact(options)
    spectra(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
