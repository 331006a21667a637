"""Training at scale: 10 million clustered byte vectors, two workers. Markdown on stdout.

    scale.py [--program build/laconic] [--rows 10000000] [--columns 128] [--bits 64] [--iterations 10] [--workers 2]
             [--generator build/bench/generate_vectors] [--keep]

Writes the vectors with the generator (1.3 GB in the folder given by --work; --keep leaves them there), trains, and says
what it took: wall and CPU time, the peak of RssAnon + RssShmem (sampled 50 times a second, mapped file pages apart), the
phases by wall time, and what ten times as many points would take, every phase being linear in the points. A run ends
before --iterations when all codes are the encoder's: look at the time per point and iteration.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import runs


class Peak:
    """The largest RssAnon + RssShmem seen, in bytes."""

    def __init__(self):
        self.bytes = 0

    def __call__(self, pid):
        try:
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        sizes = [int(line.split()[1]) for line in text.splitlines() if line.startswith(("RssAnon:", "RssShmem:"))]
        self.bytes = max(self.bytes, 1024 * sum(sizes))


def generate(work, options):
    path = work.path(f"clustered-{options.rows}x{options.columns}.bvecs")
    if not os.path.exists(path):
        command = [options.generator, "--rows", str(options.rows), "--columns", str(options.columns), path]
        if subprocess.run(command).returncode != 0:
            sys.exit("the generator failed")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_options(parser)
    parser.add_argument("--generator", default=str(runs.ROOT / "build" / "bench" / "generate_vectors"))
    parser.add_argument("--rows", type=int, default=10 ** 7)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep the vectors")
    options = parser.parse_args()
    work, peak = runs.Work(options), Peak()
    print(f"{runs.machine()}\n")
    path = generate(work, options)
    with open(path, "rb") as file:  # into the page cache, as far as it goes
        while file.read(1 << 24):
            pass
    result = work.train(path, work.path("scale.safetensors"), "--bits", options.bits, "--iterations",
                        options.iterations, "--epochs", 1, "--workers", options.workers, "--seed", 1, "--log-view",
                        "--undo-limit", 1000, watch=peak)
    done, seconds = result["done"], result["done"]["seconds"]
    iterations = [line for line in result["lines"] if line["event"] == "iteration"]
    size = os.path.getsize(path)
    if not options.keep:
        os.remove(path)
    rest = result["wall"] - seconds["init"] - seconds["w"] - seconds["z"]
    idle = result["cpu"] / options.workers
    per_point = 1e9 * options.workers / options.rows / done["iterations"]
    runs.print_table(["", ""], [
        ["points, columns, bits", f"{options.rows}, {options.columns}, {options.bits}"],
        ["file", f"{size / 1e9:.2f} GB"],
        ["workers, threads each, load before", f"{options.workers}, 1, {result['load']:.1f}"],
        ["iterations, of them undone", f"{done['iterations']}, {sum(not one['accepted'] for one in iterations)}"],
        ["wall time of the process", f"{result['wall']:.1f} s"],
        ["CPU time of the process", f"{result['cpu']:.1f} s"],
        ["peak of RssAnon + RssShmem", f"{peak.bytes / 1e6:.0f} MB"],
        ["start (PCA, ITQ, first codes)", f"{seconds['init']:.1f} s"],
        ["W steps", f"{seconds['w']:.1f} s, {per_point * seconds['w']:.0f} ns of a core per point and iteration"],
        ["Z steps", f"{seconds['z']:.1f} s, {per_point * seconds['z']:.0f} ns of a core per point and iteration"],
        ["everything else", f"{rest:.1f} s"],
        ["E_BA / variance", f"{done['e_ba']:.4f}"],
        ["messages, bytes of submodels", f"{done['messages']}, {done['bytes']}"],
        ["CPU time per point and iteration", f"{1e9 * result['cpu'] / options.rows / done['iterations']:.0f} ns"],
        ["CPU time over workers: wall time on idle cores, at least", f"{idle:.1f} s"],
        [f"of {10 * options.rows} points, if the file stays in memory", f"{idle / 6:.1f} min"],
    ])
    print("```\n" + result["stderr"].strip() + "\n```")
    return 0


if __name__ == "__main__":
    sys.exit(main())
