"""How rings and replicas scale, by formula and under SimGrid's SMPI: the tables and pictures of docs/scaling.md.

    scaling.py [PART …] [--program build/laconic] [--calibration here.json] [--work build/bench-work/scaling] [--plots docs/plots]

PART: paper, engine (speedups for three settings on two networks), shares (half the machines at half speed), memory, replicas
(methods on three networks), slowing (machines that slow down in mid-run), real and trained (codes and networks, this machine
against the prediction).
Without PART all of them: half an hour, most of it the largest simulations. Without --calibration one is made. Markdown on
stdout. A run that is finished is kept in the work folder under its command.
"""

import argparse
import gzip
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import runs

NETWORKS = {"1 Gbit/s, 50 us": "1Gbit,50us", "10 Gbit/s, 25 us": "10Gbit,25us"}
SETTINGS = {
    "N = 5e4, D = 320, L = 16, e = 1": ["--points", "5e4", "--dims", "320", "--bits", "16"],
    "N = 1e6, D = 128, L = 16, e = 1": ["--points", "1e6", "--dims", "128", "--bits", "16"],
    "N = 1e8, D = 128, L = 64, e = 2": ["--points", "1e8", "--dims", "128", "--bits", "64", "--epochs", "2"],
}
SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
# t_W, t_Z in seconds and the bytes of a submodel: about what numpy-like code takes for equal submodels, in the ratio of
# the paper, t_Z = 40 t_W, with t_C from the network.
PAPER_W = 40e-9
PAPER_BYTES = {"320": 1320, "128": 552}


class Runs:
    def __init__(self, options):
        self.program = options.program
        self.folder = pathlib.Path(options.work)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.folder / "plans.jsonl"
        self.build = runs.fingerprint(self.program)
        self.kept = {}
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                entry = json.loads(line)
                self.kept[json.dumps(entry["key"])] = entry["lines"]

    def plan(self, *arguments, files=()):
        """The JSON lines of a plan."""
        command = ["plan", *map(str, arguments), "--json"]
        key = [self.build, command, [pathlib.Path(file).read_text() for file in files]]
        if json.dumps(key) not in self.kept:
            print("laconic", *command, file=sys.stderr)
            done = subprocess.run([self.program, *command], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            with open(self.file, "a") as file:
                file.write(json.dumps({"key": key, "lines": lines}) + "\n")
            self.kept[json.dumps(key)] = lines
        return [line for line in self.kept[json.dumps(key)] if "workers" in line and "source" in line]


def table(heads, rows):
    runs.print_table(heads, rows)
    print()


def draw(path, title, panels):
    """panels: (title, [(name, x, y, style)]); both axes logarithmic."""
    with tempfile.TemporaryDirectory() as folder:
        script = [f"set terminal svg size {520 * len(panels)},420 font 'sans,12'", f"set output '{path}'",
                  f"set multiplot layout 1,{len(panels)} title '{title}'", "set logscale xy", "set key top left",
                  "set xlabel 'workers'", "set grid"]
        for number, (name, curves) in enumerate(panels):
            parts = []
            for index, (label, x, y, style) in enumerate(curves):
                data = pathlib.Path(folder) / f"{number}-{index}"
                data.write_text("".join(f"{a} {b}\n" for a, b in zip(x, y)))
                parts.append(f"'{data}' with {style} title '{label}'")
            script += [f"set title '{name}'", "plot " + ", ".join(parts)]
        subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)


def paper(all_runs, options):
    """Speedup of equal submodels with t_Z = 40 t_W: SMPI and the plain formula."""
    ring(all_runs, options, "paper")


def engine(all_runs, options):
    """Speedup of the engine as it is, with measured costs: SMPI, the formula, and the plain formula."""
    ring(all_runs, options, "engine")


def ring(all_runs, options, costs):
    panels = []
    for name, sizes in SETTINGS.items():
        for network, text in NETWORKS.items():
            common = ["hash", *sizes, "--iterations", "11", "--workers", ",".join(map(str, SIZES)), "--simulate",
                      "--real-limit", "0"]
            if costs == "paper":
                bandwidth, latency = {"1Gbit,50us": (1.25e8, 50e-6), "10Gbit,25us": (1.25e9, 25e-6)}[text]
                hop = latency + PAPER_BYTES[sizes[3]] / bandwidth
                lines = all_runs.plan(*common, "--costs", f"{PAPER_W},{40 * PAPER_W},{hop:.6g}")
            else:
                lines = all_runs.plan(*common, "--network", text, "--calibration", options.calibration,
                                      files=[options.calibration])
            by = {source: {line["workers"]: line for line in lines if line["source"] == source}
                  for source in ("formula", "smpi")}
            print(f"{name}, {network}\n")
            rows = []
            for p in SIZES:
                formula, smpi = by["formula"][p], by["smpi"][p]
                rows.append([str(p), f"{smpi['speedup']:.2f}", f"{100 * smpi['speedup'] / p:.1f} %",
                             f"{formula['speedup']:.2f}",
                             f"{100 * (formula['seconds']['total'] / smpi['seconds']['total'] - 1):+.1f} %",
                             f"{formula['plain_speedup']:.2f}", f"{smpi['seconds']['total'] / 11:.4g}"])
            table(["P", "S (SMPI)", "of ideal", "S (formula)", "its time against SMPI's", "S (plain formula)",
                   "s an iteration (SMPI)"], rows)
            points = lambda source, key: [by[source][p][key] for p in SIZES]
            panels.append((f"{name.replace(', e', '; e')} - {network}",
                           [("ideal", SIZES, SIZES, "lines dt 2 lc 'gray'"),
                            ("plain formula", SIZES, points("formula", "plain_speedup"), "lines dt 3 lc 'black'"),
                            ("formula", SIZES, points("formula", "speedup"), "lines lc 'blue'"),
                            ("SMPI", SIZES, points("smpi", "speedup"), "points pt 7 lc 'red'")]))
    draw(os.path.join(options.plots, f"scaling-ring-{costs}.svg"), "Speedup", panels[::2])


def shares(all_runs, options):
    """Half the machines at half speed, 10^8 points, 64 bits."""
    rows = []
    for p in (8, 32, 64):
        common = ["hash", "--points", "1e8", "--dims", "128", "--bits", "64", "--epochs", "2", "--iterations", "11",
                  "--network", "10Gbit,25us", "--calibration", options.calibration, "--workers", p, "--simulate",
                  "--real-limit", "0"]
        seconds = {}
        for name, more in (("equal machines", []), ("shares by speed", ["--speeds", "1,0.5"]),
                           ("equal shares", ["--speeds", "1,0.5", "--shares", "equal"])):
            lines = all_runs.plan(*common, *more, files=[options.calibration])
            seconds[name] = [line["seconds"]["total"] - line["seconds"]["serial"] for line in lines]
        ideal = seconds["equal machines"][1] / 0.75
        rows.append([str(p), f"{ideal:.4g}", f"{seconds['shares by speed'][1]:.4g} ({seconds['shares by speed'][1] / ideal:.3f})",
                     f"{seconds['shares by speed'][0]:.4g}",
                     f"{seconds['equal shares'][1]:.4g} ({seconds['equal shares'][1] / ideal:.3f})",
                     f"{seconds['equal shares'][0]:.4g}"])
    table(["P", "ideal, s", "shares by speed, SMPI", "formula", "equal shares, SMPI", "formula"], rows)


def memory(all_runs, options):
    """What a worker needs, by the estimate, and what one that trains such a share really takes."""
    rows = []
    for p in (1, 16, 64, 128, 256):
        lines = all_runs.plan("hash", "--points", "1e8", "--bits", "64", "--workers", p)
        weak = all_runs.plan("hash", "--points", f"{p * 781250}", "--bits", "64", "--workers", p)
        rows.append([str(p), f"{lines[0]['memory_per_worker'] / 1e6:.1f} MB", f"{weak[0]['memory_per_worker'] / 1e6:.1f} MB"])
    table(["P", "10^8 points over P workers", "781,250 points each"], rows)
    base = str(all_runs.folder / "share.u8bin")
    if not os.path.exists(base):
        generator = os.path.join(os.path.dirname(options.program), "bench", "generate_vectors")
        subprocess.run([generator, "--rows", "781250", "--columns", "128", base], check=True)
    done = subprocess.Popen([options.program, "hash", "train", base, "-o", str(all_runs.folder / "m.safetensors"),
                             "--bits", "64", "--workers", "1", "--threads", "1", "--iterations", "3", "-q"])
    _, status, usage = os.wait4(done.pid, 0)
    if status:
        sys.exit("hash train failed")
    print(f"One worker that trains 781,250 x 128 bytes at 64 bits: {usage.ru_maxrss / 1e3:.0f} MB at most, the 100 MB of "
          "mapped data among them.\n")


REPLICAS = ["sgd", "elastic", "parle", "sgd/dpsgd", "sgd/adpsgd"]


def replicas(all_runs, options):
    """Seconds of 1,000 gradients of each worker: ResNet-20, batch 128."""
    compute = options.compute
    panels = []
    for network in ("100Mbit,50us", "1Gbit,50us", "10Gbit,25us"):
        lines = all_runs.plan("train", "--model", "resnet20", "--compute", compute, "--network", network, "--workers",
                              "8,16,32,64,128", "--compare", ",".join(REPLICAS), "--simulate")
        rows, curves = [], []
        for label in REPLICAS:
            of = {s: [line for line in lines if line["label"] == label and line["source"] == s] for s in ("formula", "smpi")}
            rows.append([label, *(f"{a['seconds_per_1000_gradients']:.1f} ({b['seconds_per_1000_gradients']:.1f})"
                                  for a, b in zip(of["smpi"], of["formula"]))])
            curves.append((label, [line["workers"] for line in of["smpi"]],
                           [line["seconds_per_1000_gradients"] for line in of["smpi"]], "linespoints"))
        base, parle = rows[0][1:], rows[2][1:]
        rows.append(["sgd / parle", *(f"{float(a.split()[0]) / float(b.split()[0]):.2f}" for a, b in zip(base, parle))])
        print(f"{network}, a gradient takes {compute}: SMPI (formula)\n")
        table(["method", "8", "16", "32", "64", "128"], rows)
        panels.append((network, curves))
    draw(os.path.join(options.plots, "scaling-replicas.svg"), "Seconds of 1,000 gradients", panels)
    crossing(all_runs, options)


def crossing(all_runs, options):
    """From which time of a gradient on Parle is less than 2 times, and 1.1 times, as fast as data-parallel SGD."""
    rows = []
    for network in ("100Mbit,50us", "1Gbit,50us", "10Gbit,25us"):
        for p in (8, 128):
            def ratio(seconds):
                lines = all_runs.plan("train", "--model", "resnet20", "--compute", f"{seconds:.9f}s", "--network",
                                      network, "--workers", p, "--compare", "sgd,parle")
                return lines[0]["seconds_per_1000_gradients"] / lines[1]["seconds_per_1000_gradients"]
            cells = []
            for wanted in (4, 2, 1.1):
                low, high = 1e-6, 100.0
                for _ in range(24):
                    middle = (low * high) ** 0.5
                    low, high = (middle, high) if ratio(middle) > wanted else (low, middle)
                cells.append(f"{1e3 * low:.3g} ms")
            rows.append([network, str(p), *cells])
    table(["network", "P", "4 times as fast up to", "2 times up to", "1.1 times up to"], rows)


def platform(path, workers, slow):
    """A star in which the `slow` last hosts lose three quarters of their speed after a while."""
    with open(path, "w") as file:
        file.write('<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
                   '<platform version="4.1">\n<zone id="cluster" routing="Cluster">\n')
        for i in range(workers):
            speed = f' speed_file="{os.path.basename(path)}.{i}.speed"' if i >= workers - slow else ""
            file.write(f'<host id="host{i}" speed="1Gf"{speed}/>\n<link id="link{i}" bandwidth="1.25e8Bps" latency="25us" '
                       f'sharing_policy="SPLITDUPLEX"/>\n<host_link id="host{i}" up="link{i}_UP" down="link{i}_DOWN"/>\n')
        file.write("</zone>\n</platform>\n")


def slowing(all_runs, options):
    """Of 16 machines one, or four, lose three quarters of their speed in mid-run."""
    path = str(all_runs.folder / "slowing.xml")
    rows = []
    jobs = {"ring: hash, 10^6 points, 64 bits": ["hash", "--points", "1e6", "--bits", "64", "--calibration",
                                                 options.calibration, "--real-limit", "0", "--rehearse-iterations", "10"]}
    for label in ("sgd", "parle", "sgd/dpsgd", "sgd/adpsgd", "sgd/async-ring", "sgd/async-server"):
        method, _, exchange = label.partition("/")
        jobs[f"train: {label}"] = ["train", "--model", "resnet20", "--compute", options.compute, "--method", method,
                                   *(["--exchange", exchange] if exchange else []), "--gradients", "100",
                                   "--rehearse-gradients", "100"]
    for name, job in jobs.items():
        seconds = []
        for slow in (0, 1, 4):
            if slow:
                # of a ring 10 iterations are timed after a first one
                moment = 6 * seconds[0] if job[0] == "hash" else seconds[0] / 2
                for i in range(16 - slow, 16):  # SimGrid takes a file for one host only
                    pathlib.Path(f"{path}.{i}.speed").write_text(f"0.0 1.0\n{moment:.9f} 0.25\n")
            platform(path, 16, slow)
            files = [path, f"{path}.15.speed"] if slow else [path]
            lines = all_runs.plan(*job, "--workers", "16", "--cluster", path, "--simulate", files=files)
            line = next(line for line in lines if line["source"] == "smpi")
            seconds.append(line.get("seconds_per_iteration", line["seconds"]["total"]))
        rows.append([name, f"{seconds[0]:.4g}", *(f"{s / seconds[0]:.2f}" for s in seconds[1:])])
    table(["job on 16 machines", "undisturbed, s", "1 slows down", "4 slow down"], rows)


def cpu_of(command):
    """CPU seconds of a command, and the load meanwhile."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    elapsed = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, elapsed, os.getloadavg()[0]


def real(all_runs, options):
    """The whole program at 1 and 2 workers against the prediction, in pairs: CPU seconds a worker, and elapsed ones."""
    rows = []
    for points, dims, bits in ((200000, 128, 64), (200000, 128, 16), (60000, 784, 16), (60000, 784, 64)):
        base = str(all_runs.folder / f"real-{points}-{dims}.u8bin")
        if dims == 784:
            base = str(all_runs.folder / "fashion-mnist-idx3-ubyte")
            with gzip.open(os.path.join(runs.DATA, "train-images-idx3-ubyte.gz")) as packed:
                pathlib.Path(base).write_bytes(packed.read())
        elif not os.path.exists(base):
            generator = os.path.join(os.path.dirname(options.program), "bench", "generate_vectors")
            subprocess.run([generator, "--rows", str(points), "--columns", str(dims), base], check=True)
        calibration = str(all_runs.folder / f"real-{dims}-{bits}.json")
        pairs = {1: [], 2: []}
        loads = []
        for _ in range(options.pairs):
            subprocess.run([options.program, "plan", "calibrate", "-o", calibration, "--base", base, "--bits", str(bits),
                            "--models", "none", "-q"], check=True, capture_output=True)
            for p in (1, 2):
                train = [options.program, "hash", "train", base, "-o", str(all_runs.folder / "m.safetensors"), "--bits",
                         str(bits), "--workers", str(p), "--threads", "1", "--undo-limit", "13", "--json"]
                done = subprocess.run(train, check=True, capture_output=True, text=True)
                events = [json.loads(line) for line in done.stdout.splitlines()]
                iterations = events[-1]["iterations"]  # fewer where the codes have settled
                full = sum(line.get("points") == points for line in events if line["event"] == "iteration")
                cpu, elapsed, load = cpu_of(train)
                lines = [json.loads(line) for line in subprocess.run(
                    [options.program, "plan", "hash", "--points", str(points), "--dims", str(dims), "--bits", str(bits),
                     "--iterations", str(iterations), "--full-iterations", str(full), "--workers", str(p), "--network", "100Gbit,2us", "--calibration",
                     calibration, "--json"], check=True, capture_output=True, text=True).stdout.splitlines()]
                predicted = lines[0]["seconds"]["total"]
                pairs[p].append((predicted, cpu / p, elapsed))
                loads.append(load)
        for p in (1, 2):
            middle = [statistics.median(pair[i] for pair in pairs[p]) for i in range(3)]
            ratio = statistics.median(pair[0] / pair[1] for pair in pairs[p])
            rows.append([f"{points:,} x {dims}, {bits} bits", str(p), f"{middle[0]:.2f}", f"{middle[1]:.2f}",
                         f"{ratio:.2f}", f"{middle[2]:.2f}", f"{statistics.median(loads):.1f}"])
    table(["data", "P", "predicted, s", "CPU s a worker", "ratio (median of pairs)", "elapsed, s", "load"], rows)


def trained(all_runs, options):
    """Networks trained at 1 and 2 workers against the prediction, in pairs: seconds of 1,000 gradients."""
    rows = []
    for model in ("resnet20", "lenet"):
        calibration = str(all_runs.folder / f"trained-{model}.json")
        found = {}
        for _ in range(options.pairs):
            load = os.getloadavg()[0]
            for command in (["calibrate", "-o", calibration, "--dims", "none", "--models", model, "-q"],
                            ["train", "--model", model, "--workers", "1,2", "--compare", "sgd,parle", "--network",
                             "100Gbit,2us", "--calibration", calibration, "--simulate", "--json"]):
                done = subprocess.run([options.program, "plan", *command], check=True, capture_output=True, text=True)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            for line in lines[:-1]:
                each = line["seconds_per_1000_gradients"]
                computed = each * line["seconds"]["w"] / line["seconds"]["total"]
                key = line["method"], line["workers"]
                found.setdefault(key, {}).setdefault(line["source"], []).append((each, computed, load))
        for (method, workers), of in found.items():
            said, real = of["formula"], of["real"]
            rows.append([model, method, str(workers), *(f"{statistics.median(values):.4g}" for values in (
                [pair[0] for pair in said], [pair[0] for pair in of["smpi"]], [pair[1] for pair in real])),
                f"{statistics.median(one[1] / two[1] for one, two in zip(said, real)):.2f}",
                f"{statistics.median(pair[0] for pair in real):.4g}", f"{statistics.median(pair[2] for pair in real):.1f}"])
    table(["network", "method", "P", "predicted, s", "SMPI, s", "CPU s a worker", "ratio (median of pairs)", "elapsed, s",
           "load"], rows)
    picture = os.path.join(options.plots, "scaling-trained.svg")
    subprocess.run([options.program, "plan", "train", "--model", "lenet", "--workers", "1:64:x2", "--compare", "sgd,parle",
                    "--calibration", calibration, "--simulate", "--plot", picture, "-q"], check=True, stdout=subprocess.DEVNULL)


PARTS = {"paper": paper, "engine": engine, "shares": shares, "memory": memory, "replicas": replicas, "slowing": slowing,
         "real": real, "trained": trained}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--program", default=str(runs.ROOT / "build" / "laconic"))
    parser.add_argument("--calibration")
    parser.add_argument("--compute", default="210ms", help="seconds of a ResNet-20 gradient on one core")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--work", default=str(runs.ROOT / "build" / "bench-work" / "scaling"))
    parser.add_argument("--plots", default=str(runs.ROOT / "docs" / "plots"))
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"found {unknown[0]}, expected some of {', '.join(PARTS)}")
    all_runs = Runs(options)
    if not options.calibration:
        options.calibration = str(all_runs.folder / "here.json")
        if not os.path.exists(options.calibration):
            subprocess.run([options.program, "plan", "calibrate", "-o", options.calibration, "--dims", "128,320", "--bits",
                            "16,64"], check=True)
    for part in options.parts or PARTS:
        print(f"## {PARTS[part].__doc__.splitlines()[0]}\n")
        PARTS[part](all_runs, options)


if __name__ == "__main__":
    main()
