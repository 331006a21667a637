"""What the tests of the program share: a folder of its own for each test, runs of the program, small data files."""

import ast
import json
import os
import random
import resource
import shutil
import struct
import subprocess
import tempfile
import unittest

LACONIC = os.environ["LACONIC"]
MPIEXEC = os.environ.get("LACONIC_MPIEXEC", "")


class ProgramTest(unittest.TestCase):
    """Each test runs in an empty folder, which is removed afterwards."""

    maxDiff = None

    def setUp(self):
        self.home = os.getcwd()
        self.folder = tempfile.mkdtemp(dir=self.home)
        os.chdir(self.folder)

    def tearDown(self):
        os.chdir(self.home)
        shutil.rmtree(self.folder)

    def run_program(self, *arguments, timeout=60, program=LACONIC, **more):
        """Returns the finished process: returncode, stdout, stderr as text."""
        return subprocess.run([program, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", timeout=timeout, **more)

    def run_ok(self, *arguments, **more):
        """Runs it, expects success without a word on stderr, returns stdout."""
        done = self.run_program(*arguments, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def run_json(self, *arguments, **more):
        """The same with --json: the lines of stdout, parsed."""
        return [json.loads(line) for line in self.run_ok(*arguments, "--json", **more).splitlines()]

    def run_bad(self, *arguments, names=(), status=2, **more):
        """Runs it, expects the exit status, one line on stderr with all of `names` in it, nothing on stdout and every
        file as it was. Returns the line."""
        before = self.files()
        done = self.run_program(*arguments, **more)
        self.assertEqual((done.returncode, done.stdout), (status, ""), (arguments, done.stderr))
        self.assertRegex(done.stderr, r"\Alaconic: [^\n]+\n\Z", arguments)
        for name in names:
            self.assertIn(str(name), done.stderr, arguments)
        self.assertEqual(self.files(), before, arguments)
        return done.stderr

    def run_short(self, *arguments, bytes_left=64, **more):
        """Runs it where a file cannot grow beyond a few bytes, as on a disk that fills up: exit status 1, one line, every
        file as it was and none left behind."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, bytes_left))
        # Python ignores SIGXFSZ, and so does the child then: its writes fail instead.
        return self.run_bad(*arguments, status=1, preexec_fn=limit, restore_signals=False, **more)

    def run_full(self, *arguments, **more):
        """Runs it with a full disk behind stdout: exit status 1 and one line that says so. Returns the line."""
        with open("/dev/full", "w") as full:
            done = subprocess.run([LACONIC, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, encoding="utf-8", timeout=60, **more)
        self.assertEqual(done.returncode, 1, arguments)
        self.assertRegex(done.stderr, r"\Alaconic: standard output: [^\n]+\n\Z", arguments)
        return done.stderr

    def run_ranks(self, ranks, *arguments, timeout=120, keep=False):
        """Runs it as ranks of an MPI job; stderr without what mpiexec adds unless `keep`."""
        done = subprocess.run([MPIEXEC, "-n", str(ranks), LACONIC, *map(str, arguments)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=timeout)
        if not keep:
            done.stderr = "".join(line for line in done.stderr.splitlines(True) if line.startswith("laconic:"))
        return done

    def files(self):
        """Name and content of every file in the folder."""
        found = {}
        for where, _, names in os.walk("."):
            for name in names:
                path = os.path.join(where, name)
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        found[path] = file.read()
                else:
                    found[path] = None
        return found


def children(run):
    """The processes that a process has started, oldest first: the ranks of an mpiexec."""
    with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


# ---- small files, by the formats' definitions alone ----------------------------------------------------------------

def write_vecs(path, rows, code):
    """fvecs, bvecs or ivecs: code f, B or i."""
    with open(path, "wb") as file:
        for row in rows:
            file.write(struct.pack(f"<i{len(row)}{code}", len(row), *row))


def write_npy(path, rows, code="f", fortran=False):
    """Version 1.0; code B, i, f or d."""
    descr = {"B": "|u1", "i": "<i4", "f": "<f4", "d": "<f8"}[code]
    head = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    order = [value for column in zip(*rows) for value in column] if fortran else [v for row in rows for v in row]
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        file.write(struct.pack(f"<{len(order)}{code}", *order))


def read_npy(path):
    """Rows of a two-dimensional array in C order."""
    with open(path, "rb") as file:
        content = file.read()
    assert content[:8] == b"\x93NUMPY\x01\x00"
    length = struct.unpack("<H", content[8:10])[0]
    head = ast.literal_eval(content[10:10 + length].decode())
    assert head["fortran_order"] is False
    count, columns = head["shape"]
    code = {"|u1": "B", "<i4": "i", "<f4": "f"}[head["descr"]]
    values = struct.unpack(f"<{count * columns}{code}", content[10 + length:])
    return [list(values[i * columns:(i + 1) * columns]) for i in range(count)]


def read_ivecs(path):
    with open(path, "rb") as file:
        content = file.read()
    columns = struct.unpack("<i", content[:4])[0]
    rows = [struct.unpack(f"<{columns + 1}i", content[at:at + 4 * columns + 4])
            for at in range(0, len(content), 4 * columns + 4)]
    assert all(row[0] == columns for row in rows)
    return [list(row[1:]) for row in rows]


def read_safetensors(path):
    """(metadata, {name: (type, shape, bytes)})"""
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    head = json.loads(content[8:8 + length])
    metadata = head.pop("__metadata__", {})
    data = content[8 + length:]
    return metadata, {name: (about["dtype"], about["shape"], data[slice(*about["data_offsets"])])
                      for name, about in head.items()}


def write_safetensors(path, metadata, tensors):
    """tensors: {name: (shape, values)}, all F32."""
    head, data = {"__metadata__": metadata}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def clustered_rows(count, columns, seed, clusters=8, byte=True):
    """Vectors around a few centres: what codes can be learnt from."""
    centres = random.Random(1)
    means = [[centres.uniform(40, 215) for _ in range(columns)] for _ in range(clusters)]
    draw = random.Random(seed)
    rows = [[draw.gauss(mean, 15) for mean in means[draw.randrange(clusters)]] for _ in range(count)]
    return [[min(255, max(0, round(value))) for value in row] for row in rows] if byte else rows
