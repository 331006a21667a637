"""How good the codes are: Fashion-MNIST, every method, beside the aims and a reference run. Markdown on stdout.

    hash_quality.py [--program build/laconic] [--bits 16 32 64] [--seeds 1 2 3] [--methods ba itq pca lsh] [--train ...]

Base: the 60,000 training images; queries: the 10,000 test images; truth: exact Euclidean neighbours; equal Hamming
distances averaged. A cell is the mean over the seeds and the standard deviation of one run. Runs are kept in the folder
given by --work: an interrupted run goes on where it stopped. --train takes further options of `hash train`, as one text.

The reference is an earlier prototype in numpy (of the autoencoder, and of correct ITQ, PCA and LSH) on the same data.
"""

import argparse
import shlex
import statistics
import sys

import runs

PRECISION, RECALL = ("50", "100", "1000"), ("1", "10", "100", "1000")

# bits: E_BA at most, precision at 50 and 1000 and recall at 100 at least
AIMS = {16: (0.355, 9.3, 39.5, 27), 32: (0.293, 19.0, 49.0, 53), 64: (0.2355, 29.0, 54, 74)}

# precision at 50, 100, 1000 and recall at 1, 10, 100, 1000 in percent, E of base and queries
REFERENCE = {
    (16, "pca"): (12.36, 16.52, 35.36, 1.52, 9.63, 38.34, 83.49, 0.4645, 0.4655),
    (16, "itq"): (7.34, 11.03, 37.55, 0.58, 4.09, 20.63, 68.23, 0.3713, 0.3730),
    (16, "lsh"): (6.55, 9.08, 23.81, 0.68, 4.63, 21.49, 60.82, 0.5255, 0.5258),
    (16, "ba"): (9.42, 13.67, 39.71, 0.81, 5.87, 27.30, 75.77, 0.3545, 0.3566),
    (32, "pca"): (22.38, 26.42, 38.25, 6.45, 26.82, 67.35, 94.53, 0.4246, 0.4259),
    (32, "itq"): (16.02, 21.54, 48.82, 2.55, 12.99, 44.45, 89.39, 0.3095, 0.3111),
    (32, "lsh"): (12.76, 16.08, 32.47, 3.27, 13.92, 41.21, 79.85, 0.4276, 0.4290),
    (32, "ba"): (19.23, 24.58, 49.24, 3.84, 17.84, 53.18, 92.51, 0.2920, 0.2945),
    (64, "pca"): (29.78, 32.58, 36.74, 14.68, 47.18, 83.56, 97.14, 0.3883, 0.3897),
    (64, "itq"): (27.08, 32.91, 55.92, 7.39, 29.16, 69.70, 97.06, 0.2509, 0.2530),
    (64, "ba"): (29.19, 34.40, 54.44, 9.81, 35.31, 74.62, 97.56, 0.2349, 0.2375),
}


def one_run(work, method, bits, seed, extra):
    model = work.path(f"{method}-{bits}-{seed}.safetensors")
    trained = work.train(work.images("train"), model, "--method", method, "--bits", bits, "--seed", seed,
                         "--workers", 1, *extra)
    measured = work.evaluate(model)
    return {"cpu": trained["cpu"], "done": trained["done"], "eval": measured}


def reference_row(bits, method):
    values = REFERENCE.get((bits, method))
    if not values:
        return None
    return ["", "reference", *(f"{value:.2f}" for value in values[:7]), *(f"{value:.4f}" for value in values[7:]), ""]


def measured_row(bits, method, results):
    row = [bits, f"**{method}**"]
    for key, names in (("precision", PRECISION), ("recall", RECALL)):
        row += [runs.mean_and_spread([r["eval"][key][name] for r in results], 2, 100) for name in names]
    row += [runs.mean_and_spread([r["eval"]["e_ba"][name] for r in results], 4) for name in ("base", "query")]
    return row + [runs.mean_and_spread([r["cpu"] for r in results], 1)]


def aim_rows(bits, results):
    means = [statistics.mean(r["eval"]["e_ba"]["base"] for r in results),
             100 * statistics.mean(r["eval"]["precision"]["50"] for r in results),
             100 * statistics.mean(r["eval"]["precision"]["1000"] for r in results),
             100 * statistics.mean(r["eval"]["recall"]["100"] for r in results)]
    names = ["E_BA / variance, base, at most", "precision, k = 50, at least", "precision, k = 1000, at least",
             "recall@100, at least"]
    for i, (name, mean, aim) in enumerate(zip(names, means, AIMS[bits])):
        met = mean <= aim if i == 0 else mean >= aim
        yield [bits, name, f"{aim:g}", f"{mean:.4f}" if i == 0 else f"{mean:.2f}", "met" if met else "**missed**"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_options(parser)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--methods", nargs="+", default=["ba", "itq", "pca", "lsh"])
    parser.add_argument("--train", default="", help="further options of hash train, as one text")
    options = parser.parse_args()
    work, extra = runs.Work(options), shlex.split(options.train)
    print(f"{runs.machine()}; {len(options.seeds)} seeds; options of hash train: {options.train or 'defaults'}\n")
    rows, aims = [], []
    for bits in options.bits:
        for method in options.methods:
            results = [work.once(["quality", method, bits, seed, *extra],
                                 lambda m=method, b=bits, s=seed: one_run(work, m, b, s, extra))
                       for seed in options.seeds]
            rows.append(measured_row(bits, method, results))
            rows += [row for row in [reference_row(bits, method)] if row]
            if method == "ba" and bits in AIMS:
                aims += aim_rows(bits, results)
            print(f"{bits} bits, {method}: done", file=sys.stderr, flush=True)
    runs.print_table(["bits", "method", *(f"p{k}" for k in PRECISION), *(f"R@{k}" for k in RECALL), "E base", "E query",
                      "CPU s"], rows)
    runs.print_table(["bits", "autoencoder", "aim", "mean", ""], aims)
    return 0


if __name__ == "__main__":
    sys.exit(main())
