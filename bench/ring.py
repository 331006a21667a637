"""What the ring costs and gains: errors at P = 1 to 16, and two workers against one. Markdown on stdout.

    ring.py [--program build/laconic] [--bits 16 64] [--rings 2 4 16] [--seeds 1 2 3] [--pairs 5] [--train ...]

First table: E_BA over the variance of Fashion-MNIST's 60,000 images, of one shard trained serially and of rings, the same
seeds. It does not depend on load or timing. Second table: runs with one worker and with two, alternating; wall time of
the training (seconds.total), of the whole process, and CPU time of the process, each median with its range; the ratio is
the median over pairs. Undone steps do not end these runs, so that one worker and two make equally many iterations. The
load is the mean over one minute before a run, which the runs themselves raise to 1 or 2. "1 and 1" are two runs of one
worker each at the same time, the slower of which counts: twice the time of one alone over theirs is what two workers
could gain here that had nothing to say to each other and shared all the work out.
"""

import argparse
import concurrent.futures
import shlex
import statistics
import sys

import runs


def error_of(work, bits, seed, workers, extra):
    """One shard serially, or a ring of threads."""
    serial = ["--serial"] if workers == 1 else []
    result = work.train(work.images("train"), work.path("ring.safetensors"), "--bits", bits, "--seed", seed,
                        "--workers", workers, *serial, *extra)
    return {"e_ba": result["done"]["e_ba"], "done": result["done"], "cpu": result["cpu"]}


def errors(work, options, extra):
    rows = []
    for bits in options.bits:
        serial = None
        for workers in [1, *options.rings]:
            found = [work.once(["ring", bits, seed, workers, *extra],
                               lambda s=seed, w=workers, b=bits: error_of(work, b, s, w, extra))
                     for seed in options.seeds]
            values = [one["e_ba"] for one in found]
            serial = serial or values
            ratios = [a / b for a, b in zip(values, serial)]
            rows.append([bits, "serial, 1 shard" if workers == 1 else f"ring of {workers}",
                         runs.mean_and_spread(values, 4), f"{statistics.mean(values) / statistics.mean(serial):.4f}",
                         f"{min(ratios):.4f}-{max(ratios):.4f}",
                         found[0]["done"]["messages"], f"{statistics.mean(one['cpu'] for one in found):.1f}"])
            print(f"{bits} bits, {workers} workers: done", file=sys.stderr, flush=True)
    runs.print_table(["bits", "workers", "E_BA", "of serial", "seed by seed", "messages", "CPU s"], rows)


def figure(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def one_run(work, model, bits, workers, extra):
    return work.train(work.images("train"), work.path(model), "--bits", bits, "--seed", 1, "--workers", workers,
                      "--undo-limit", 1000, *extra)


def total(result):
    return result["done"]["seconds"]["total"]


def two_at_once(work, bits, extra):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs_of_one = [pool.submit(one_run, work, f"ring-{i}.safetensors", bits, 1, extra) for i in range(2)]
        return max((run.result() for run in runs_of_one), key=total)


def pairs(work, options, extra):
    rows = []
    kinds = {1: lambda bits: one_run(work, "ring.safetensors", bits, 1, extra),
             2: lambda bits: one_run(work, "ring.safetensors", bits, 2, extra),
             "1 and 1": lambda bits: two_at_once(work, bits, extra)}
    for bits in options.bits:
        taken = {kind: [] for kind in kinds}
        for pair in range(options.pairs):
            for kind in list(kinds) if pair % 2 == 0 else reversed(kinds):
                result = kinds[kind](bits)
                taken[kind].append(result)
                print(f"{bits} bits, pair {pair + 1}, {kind} workers, load {result['load']:.1f}: "
                      f"{result['done']['seconds']}", file=sys.stderr, flush=True)
        for kind, results in taken.items():
            gain = [(2 if kind == "1 and 1" else 1) * total(one) / total(other)
                    for one, other in zip(taken[1], results)]
            process = [one["wall"] / other["wall"] for one, other in zip(taken[1], results)]
            phases = {phase: statistics.median(one["done"]["seconds"][phase] / other["done"]["seconds"][phase]
                                               for one, other in zip(taken[1], results)) for phase in ("init", "w", "z")}
            rows.append([bits, kind, figure([total(r) for r in results]), figure([r["wall"] for r in results]),
                         figure([r["cpu"] for r in results]),
                         f"{min(r['load'] for r in results):.1f}-{max(r['load'] for r in results):.1f}",
                         figure(gain) if kind != 1 else "", figure(process) if kind == 2 else "",
                         ", ".join(f"{name} {value:.2f}" for name, value in phases.items()) if kind == 2 else ""])
    runs.print_table(["bits", "workers", "training, wall s", "process, wall s", "process, CPU s", "load",
                      "speedup of training", "of process", "of phases"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_options(parser)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--rings", type=int, nargs="*", default=[2, 4, 16])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--train", default="", help="further options of hash train, as one text")
    options = parser.parse_args()
    work, extra = runs.Work(options), shlex.split(options.train)
    print(f"{runs.machine()}; {len(options.seeds)} seeds, {options.pairs} pairs; options of hash train: "
          f"{options.train or 'defaults'}\n")
    if options.rings:
        errors(work, options, extra)
    if options.pairs:
        pairs(work, options, extra)
    return 0


if __name__ == "__main__":
    sys.exit(main())
