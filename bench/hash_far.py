"""Why codes that rebuild better find far neighbours worse: autoencoder beside ITQ. Markdown on stdout.

    hash_far.py [--program build/laconic] [--bits 64] [--seed 1] [--train ...]

Precision on Fashion-MNIST for k from 50 to 5,000; the correlation between bits (root mean square over pairs of bits, 0
for independent ones) and that of Hamming and Euclidean distance over random pairs of images; for 200 images as queries
the mean Hamming distance at several ranks of the Euclidean distance, and the separation of the k nearest from the next
4 k: the difference of their mean Hamming distances over their common standard deviation, mean over the queries.
"""

import argparse
import shlex
import sys

import runs

import numpy

KS = (50, 100, 200, 500, 1000, 2000, 5000)
RANKS = (50, 200, 1000, 5000)
PAIRS, QUERIES = 200000, 200


def codes_of(work, model, bits):
    path = work.path("far.npy")
    work.run("hash", "encode", model, work.images("train"), "-o", path)
    return numpy.unpackbits(numpy.load(path), axis=1, bitorder="little", count=bits)


def separation(near, far):
    """How far apart two groups of distances are, in their common standard deviation; mean over queries (the rows)."""
    return float(((far.mean(1) - near.mean(1)) / numpy.sqrt((near.var(1) + far.var(1)) / 2)).mean())


def around_queries(images, codes):
    """Hamming distances by the rank of the Euclidean distance, for some images as queries among all others."""
    queries = numpy.random.default_rng(3).choice(len(images), QUERIES, replace=False)
    x = images.astype("f4")
    squares = (x ** 2).sum(1)
    distances = squares[queries, None] + squares - 2 * x[queries] @ x.T
    hamming = numpy.stack([(codes[i] != codes).sum(1) for i in queries]).astype("f4")
    ranked = numpy.take_along_axis(hamming, numpy.argsort(distances, axis=1), 1)  # column 0 is the query itself
    return {"means": [float(ranked[:, rank - 25:rank + 25].mean()) for rank in RANKS],
            "separations": [separation(ranked[:, 1:k + 1], ranked[:, k + 1:5 * k + 1]) for k in RANKS]}


def study(work, method, options, images):
    model = work.path(f"far-{method}.safetensors")
    trained = work.train(work.images("train"), model, "--method", method, "--bits", options.bits, "--seed",
                         options.seed, "--workers", 1, *shlex.split(options.train))
    measured = work.evaluate(model, "-k", ",".join(map(str, KS)))
    codes = codes_of(work, model, options.bits)
    correlation = numpy.corrcoef(codes, rowvar=False)
    off = correlation[~numpy.eye(options.bits, dtype=bool)]
    random = numpy.random.default_rng(0)
    a, b = random.integers(0, len(codes), (2, PAIRS))
    a, b = a[a != b], b[a != b]
    hamming = (codes[a] != codes[b]).sum(1).astype("f8")
    euclidean = numpy.concatenate([numpy.linalg.norm(images[i].astype("f4") - images[j], axis=1) for i, j in zip(
        numpy.array_split(a, 50), numpy.array_split(b, 50))])
    return {"e_ba": trained["done"]["e_ba"], "precision": measured["precision"],
            "bits": float(numpy.sqrt((off ** 2).mean())), "pairs": float(numpy.corrcoef(euclidean, hamming)[0, 1]),
            **around_queries(images, codes)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_options(parser)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", default="", help="further options of hash train, as one text")
    options = parser.parse_args()
    work = runs.Work(options)
    images = numpy.fromfile(work.images("train"), "u1", offset=16).reshape(-1, 784)
    print(f"{runs.machine()}; {options.bits} bits, seed {options.seed}\n")
    results = {}
    for method in ("ba", "itq"):
        results[method] = work.once(["far", method, options.bits, options.seed, options.train],
                                    lambda m=method: study(work, m, options, images))
    runs.print_table(["", *results], [
        ["E_BA / variance", *(f"{r['e_ba']:.4f}" for r in results.values())],
        *([f"precision, k = {k}", *(f"{100 * r['precision'][str(k)]:.2f} %" for r in results.values())] for k in KS),
        ["correlation between bits", *(f"{r['bits']:.3f}" for r in results.values())],
        ["Hamming with Euclidean distance, random pairs", *(f"{r['pairs']:.3f}" for r in results.values())],
        *([f"mean Hamming distance about rank {k}", *(f"{r['means'][i]:.1f}" for r in results.values())]
          for i, k in enumerate(RANKS)),
        *([f"separation, nearest {k} from the next {4 * k}", *(f"{r['separations'][i]:.3f}" for r in results.values())]
          for i, k in enumerate(RANKS)),
    ])
    return 0


if __name__ == "__main__":
    sys.exit(main())
