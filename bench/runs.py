"""What the drivers of this folder share: runs of the program, kept results, data, tables, the machine."""

import gzip
import hashlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import blas  # first: it sets what numpy and FAISS read when they are loaded

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = "/usr/share/datasets/fashion-mnist"


def add_options(parser):
    parser.add_argument("--program", default=str(ROOT / "build" / "laconic"), help="default: build/laconic")
    parser.add_argument("--data", default=DATA, help="folder of the Fashion-MNIST files; default: %(default)s")
    parser.add_argument("--work", default=str(ROOT / "build" / "bench-work"),
                        help="folder for models, codes and results; default: build/bench-work")


def fingerprint(program):
    """Of the program and of those libraries of its own that it loads: the program alone may stay the same in a new
    build."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    files = [program, *sorted(line.split("=>")[1].split()[0] for line in listed.splitlines()
                              if line.strip().startswith("liblaconic") and "=> /" in line)]
    digest = hashlib.sha256()
    for path in files:
        digest.update(pathlib.Path(path).read_bytes())
    return digest.hexdigest()[:16]


class Work:
    """A folder of intermediate files with a file of results. A result is kept under the command and the fingerprint of
    the program that gave it, so that an interrupted driver goes on where it stopped and a new build starts afresh."""

    def __init__(self, options):
        self.program = options.program
        self.folder = pathlib.Path(options.work)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.build = fingerprint(self.program)
        self.data = pathlib.Path(options.data)
        self.file = self.folder / "results.jsonl"
        self.kept = {}
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                entry = json.loads(line)
                self.kept[json.dumps(entry["key"])] = entry["result"]

    def path(self, name):
        return str(self.folder / name)

    def images(self, part):
        """A set of images unpacked, so that it is mapped and not unpacked in every run; part is train or t10k."""
        packed = self.data / f"{part}-images-idx3-ubyte.gz"
        plain = self.folder / f"{part}-images-idx3-ubyte"
        if not plain.exists():
            if not packed.exists():
                sys.exit(f"{packed}: not found; it is in the Debian package dataset-fashion-mnist, --data names another "
                         "folder")
            with gzip.open(packed) as source, open(f"{plain}.tmp", "wb") as file:
                shutil.copyfileobj(source, file)
            os.replace(f"{plain}.tmp", plain)
        return str(plain)

    def once(self, key, work):
        """work() unless its result is kept."""
        key = [self.build, *key]
        text = json.dumps(key)
        if text not in self.kept:
            self.kept[text] = work()
            with open(self.file, "a") as file:
                file.write(json.dumps({"key": key, "result": self.kept[text]}) + "\n")
        return self.kept[text]

    def run(self, *arguments, watch=None):
        """One run: {"lines": its JSON lines, "stderr", "cpu", "wall" seconds, "load" before it}. watch(pid) is called
        until the program ends."""
        command = [self.program, *map(str, arguments)]
        load, start = os.getloadavg()[0], time.monotonic()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err)
            while watch:
                watch(process.pid)
                if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    break
                time.sleep(0.02)
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            for file in (out, err):
                file.seek(0)
            text, errors = out.read(), err.read()
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)}\nended with {process.returncode}: {errors.strip()}")
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return {"lines": lines, "stderr": errors, "cpu": usage.ru_utime + usage.ru_stime, "wall": wall, "load": load}

    def train(self, base, model, *arguments, **more):
        """A training run; "done" is its last line."""
        result = self.run("hash", "train", base, "-o", model, "--json", *arguments, **more)
        result["done"] = result["lines"][-1]
        return result

    def truth(self):
        """The 5,000 nearest images of every query; computed once, a minute or two."""
        path = self.path("truth.ivecs")
        if not os.path.exists(path):
            model = self.path("truth-model.safetensors")
            self.train(self.images("train"), model, "--method", "lsh", "--bits", 16, "--workers", 1)
            self.run("hash", "eval", model, "--base", self.images("train"), "--query", self.images("t10k"), "--json",
                     "-k", 5000, "--save-truth", path)
        return path

    def evaluate(self, model, *arguments):
        result = self.run("hash", "eval", model, "--base", self.images("train"), "--query", self.images("t10k"),
                          "--truth", self.truth(), "--json", *arguments)
        return result["lines"][-1]


def mean_and_spread(values, digits, factor=1.0):
    """The mean and, behind it, the standard deviation of a single run."""
    values = [factor * value for value in values]
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"


def print_table(heads, rows):
    """A table in Markdown, columns aligned."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
    print(flush=True)


def machine():
    """A line that says what the figures were taken on."""
    fields = dict(line.split(":", 1) for line in subprocess.run(["lscpu"], capture_output=True, text=True, env={
        **os.environ, "LC_ALL": "C"}).stdout.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    sets = [name for name in ("avx512f", "avx2", "avx") if name in fields.get("Flags", "").split()]
    caches = ", ".join(f"{key} {fields[key + ' cache']}" for key in ("L1d", "L2", "L3") if key + " cache" in fields)
    return (f"{fields.get('Model name', 'unknown processor')} (family {fields.get('CPU family')}, model "
            f"{fields.get('Model')}), {fields.get('CPU(s)')} processors, {sets[0] if sets else 'no avx'}, {caches}; "
            f"OpenBLAS's {blas.core()} kernels; load {os.getloadavg()[0]:.1f}")
