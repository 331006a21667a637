"""laconic hash train: what it prints, what it saves, and that every way of running it gives one model."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unittest
import xml.etree.ElementTree

import numpy

from models import TRAIN, TRAIN_COLUMNS, TRAIN_ROWS, Train
from support import LACONIC, MPIEXEC, read_safetensors, write_npy, write_vecs

DONE_KEYS = ["event", "method", "bits", "workers", "iterations", "e_ba", "seconds", "messages", "bytes", "control_bytes"]


class Report(Train):
    def test_json_lines(self):
        lines = self.run_json(*TRAIN, "-o", "m.safetensors", "--workers", "3", "--epochs", "2")
        self.assertEqual(lines[0]["event"], "start")
        self.assertEqual({line["event"] for line in lines[1:-1]}, {"iteration"})
        done = lines[-1]
        self.assertEqual(list(done), DONE_KEYS)
        self.assertEqual(list(done["seconds"]), ["init", "w", "z", "total"])
        self.assertEqual((done["event"], done["method"], done["bits"], done["workers"]), ("done", "ba", 8, 3))
        self.assertEqual(done["iterations"], len(lines) - 2)
        self.assertLessEqual(done["iterations"], 4)
        self.assertTrue(0 < done["e_ba"] < 1)
        self.assertLessEqual(done["seconds"]["w"] + done["seconds"]["z"] + done["seconds"]["init"],
                             done["seconds"]["total"] + 1e-3)
        # ParMAC: M ((e + 1) P - 2) messages in a W step
        submodels = lines[0]["submodels"]
        self.assertEqual(lines[0]["messages"], submodels * (3 * 3 - 2))
        self.assertEqual(done["messages"], done["iterations"] * lines[0]["messages"])
        self.assertEqual(done["bytes"], done["iterations"] * lines[0]["bytes"])
        self.assertGreater(done["control_bytes"], 0)
        for number, line in enumerate(lines[1:-1], 1):
            self.assertEqual(list(line), ["event", "iteration", "mu", "e_q", "e_ba", "precision", "accepted",
                                          "disagreements", "points", "worker_bytes", "seconds"])
            self.assertEqual(line["iteration"], number)

    def test_local_epochs_send_less(self):
        lines = self.run_json(*TRAIN, "-o", "m.safetensors", "--workers", "3", "--epochs", "2", "--local-epochs")
        self.assertEqual(lines[-1]["messages"], lines[-1]["iterations"] * lines[0]["submodels"] * (2 * 3 - 2))
        lines = self.run_json(*TRAIN, "-o", "m.safetensors", "--workers", "1")
        self.assertEqual((lines[-1]["messages"], lines[-1]["bytes"]), (0, 0))

    def test_error_is_that_of_the_saved_model(self):
        for method in ("ba", "itq", "pca", "lsh"):
            done = self.run_json(*TRAIN, "-o", "m.safetensors", "--workers", "2", "--method", method)[-1]
            self.assertEqual(list(done), DONE_KEYS)
            self.assertEqual(done["method"], method)
            line, = self.run_json("hash", "eval", "m.safetensors", "--base", "base.bvecs", "--query", "base.bvecs", "-k", "5")
            self.assertAlmostEqual(line["e_ba"]["base"], done["e_ba"], delta=1e-4)

    def test_text_for_people(self):
        text = self.run_ok(*TRAIN, "-o", "m.safetensors", "--workers", "2")
        self.assertRegex(text, r"\Am.safetensors: ba, 8 bits, 2 workers, [^\n]*\n\Z")
        done = self.run_program(*TRAIN, "-o", "m.safetensors", "--workers", "2", "-v")
        self.assertEqual(done.returncode, 0)
        self.assertIn("laconic: iteration 1/4 mu ", done.stderr)
        self.assertNotIn("\r", done.stderr)  # no progress line where there is no terminal
        done = self.run_program(*TRAIN, "-q", "-o", "m.safetensors", "--workers", "2", "--log-view")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\Aevent +count ")
        self.assertRegex(done.stderr, r"(?m)^w step +\d+ ")
        if MPIEXEC:
            done = self.run_ranks(2, *TRAIN, "-o", "m.safetensors", "--log-view", "--json", keep=True)
            self.assertEqual(done.returncode, 0)
            sent = re.search(r"(?m)^ring send +(\d+) .* (\d+) +(\d+) +-$", done.stderr)
            line = json.loads(done.stdout.splitlines()[-1])
            self.assertEqual([int(number) for number in sent.groups()],
                             [line["messages"], line["messages"], line["bytes"]])

    def on_terminal(self, *more):
        """What a terminal of 60 columns on stderr shows, as it came."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 60, 0, 0))
        run = subprocess.Popen([LACONIC, *TRAIN, "-o", "m.safetensors", "--workers", "2", *more],
                               stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        os.close(master)
        self.assertEqual(run.wait(timeout=60), 0)
        return shown.decode()

    def test_progress_on_a_terminal(self):
        shown = self.on_terminal()
        lines = shown.split("\r")
        self.assertEqual(lines[-1], "\x1b[K")  # cleared at the end
        for line in lines:
            self.assertNotIn("\n", line)
            self.assertLess(len(line.replace("\x1b[K", "")), 60)
        self.assertRegex(shown, r"\r1/4 mu \S+ E_Q 0\.\d+ E_BA 0\.\d+ precision \d+\.\d %")
        self.assertEqual(self.on_terminal("-q"), "")

    def test_dry_run(self):
        before = self.files()
        line, = self.run_json(*TRAIN, "--workers", "3", "--dry-run")
        self.assertEqual(list(line), ["event", "base", "options", "workers", "serial", "shares", "rows", "columns", "type",
                                      "submodels", "submodel_bytes", "messages", "bytes", "memory"])
        self.assertEqual((line["event"], line["rows"], line["columns"], line["type"]), ("plan", TRAIN_ROWS, TRAIN_COLUMNS, "u8"))
        self.assertEqual(line["shares"], [134, 133, 133])
        self.assertEqual(line["options"]["bits"], 8)
        self.assertEqual((line["options"]["validation"], line["options"]["batch"]), (20, 6))  # 1 in 20 of 400; 16 / 3
        text = self.run_ok(*TRAIN, "--workers", "3", "--dry-run", "-o", "/nowhere/else")
        self.assertIn("--iterations 4", text)
        self.assertRegex(text, r"(?m)^shares +134 133 133$")
        self.assertEqual(self.files(), before)

    def test_plot(self):
        self.train("--plot", "curves.svg", "--workers", "2")
        texts = "".join(xml.etree.ElementTree.parse("curves.svg").getroot().itertext())
        for word in ("E_Q", "E_BA", "iteration"):
            self.assertIn(word, texts)
        self.train("--plot", "none.png", "--workers", "2", "--method", "lsh")  # no iterations: an empty picture
        with open("none.png", "rb") as file:
            self.assertEqual(file.read(4), b"\x89PNG")


class OneModel(Train):
    def test_serial_and_threads(self):
        for workers in (1, 3):
            ring = self.train("--workers", workers)
            self.assertEqual(set(ring), {"encoder.weight", "encoder.bias", "decoder.weight", "decoder.bias"})
            self.assertEqual(self.train("--workers", workers, "--serial"), ring)
            self.assertEqual(self.train("--workers", workers, "--threads", "2"), ring)
            self.assertEqual(self.train("--workers", workers), ring)
        self.assertNotEqual(self.train("--workers", "3", "--seed", "5"), ring)

    def test_resolved_options_make_the_same_model(self):
        ring = self.train("--workers", "3")
        options = json.loads(read_safetensors("m.safetensors")[0]["options"])
        self.assertNotIn(-1, options.values())
        again = [f"--{key}={value}" for key, value in options.items() if not isinstance(value, bool)]
        self.assertEqual(self.train("--workers", "3", *again), ring)

    @unittest.skipUnless(MPIEXEC, "built without MPI")
    def test_ranks(self):
        ring = self.train("--workers", "2")
        done = self.run_ranks(2, *TRAIN, "-o", "mpi.safetensors", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len([line for line in lines if line["event"] == "done"]), 1)
        self.assertEqual(lines[-1]["workers"], 2)
        self.assertEqual(read_safetensors("mpi.safetensors")[1], ring)
        self.assertEqual(read_safetensors("mpi.safetensors")[0], read_safetensors("m.safetensors")[0])

    def test_a_file_for_each_worker(self):
        ring = self.train("--workers", "2")
        for i in range(2):
            write_vecs(f"part-{i}.bvecs", self.rows[200 * i:200 * i + 200], "B")
        parts = ("hash", "train", "part-%r.bvecs", *TRAIN[3:], "-q", "-o", "p.safetensors")
        self.run_ok(*parts)
        self.assertEqual(read_safetensors("p.safetensors")[1], ring)
        meta = read_safetensors("p.safetensors")[0]
        self.assertEqual((meta["data"], json.loads(meta["shares"])), ("part-%r.bvecs", [200, 200]))
        self.run_ok(*parts, "--serial", "--workers", "2")
        self.assertEqual(read_safetensors("p.safetensors")[1], ring)
        if MPIEXEC:
            done = self.run_ranks(2, *parts)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            self.assertEqual(read_safetensors("p.safetensors")[1], ring)

    def test_shares(self):
        self.train("--workers", "2", "--shares", "3,1")
        meta = read_safetensors("m.safetensors")[0]
        self.assertEqual(json.loads(meta["shares"]), [300, 100])
        done = self.run_program(*TRAIN, "-o", "m.safetensors", "--workers", "2", "--shares", "measured")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        meta, measured = read_safetensors("m.safetensors")
        shares = json.loads(meta["shares"])
        self.assertEqual((len(shares), sum(shares)), (2, TRAIN_ROWS))
        self.assertTrue(all(20 <= share for share in shares), shares)
        self.assertEqual(self.train("--workers", "2", "--shares", ",".join(map(str, shares))), measured)

    def test_what_the_model_says_of_itself(self):
        self.train("--workers", "2")
        meta = read_safetensors("m.safetensors")[0]
        options = json.loads(meta["options"])
        self.assertEqual((options["bits"], options["iterations"], options["method"]), (8, 4, "ba"))
        self.assertEqual(meta["data"], "base.bvecs")
        prints = json.loads(meta["fingerprints"])
        for i, rows in enumerate((self.rows[:200], self.rows[200:])):
            write_npy("half.npy", rows, "B")
            self.assertEqual(self.run_json("info", "half.npy")[0]["fingerprint"], prints[i])
        line, = self.run_json("info", "m.safetensors")
        self.assertEqual((line["bits"], line["columns"], line["metadata"]["shares"]), (8, TRAIN_COLUMNS, [200, 200]))


class Centres(Train):
    def test_they_are_different_points(self):
        """As many as fill several of the blocks in which a sample is read, of bytes (read in place) and of floats (copied)."""
        count = 1300
        rows = numpy.array([[i % 256, i // 256, *(i * k % 251 for k in range(3, 9))] for i in range(1500)], "u1")
        numpy.save("bytes.npy", rows)
        numpy.save("floats.npy", rows.astype("f4"))
        for file in ("bytes", "floats"):
            for workers in (1, 2):
                self.run_ok("hash", "train", f"{file}.npy", "-o", "m.safetensors", "--bits", 4, "--encoder", "rbf",
                            "--centres", count, "--iterations", 1, "--workers", workers, "-q")
                kind, shape, content = read_safetensors("m.safetensors")[1]["encoder.centres"]
                self.assertEqual((kind, shape), ("F32", [count, 8]))
                centres = numpy.frombuffer(content, "<f4").reshape(shape)
                nearest = numpy.rint(centres)
                self.assertLess(abs(centres - nearest).max(), 1e-4)
                found = {tuple(row) for row in nearest.tolist()}
                self.assertEqual(len(found), count)
                self.assertTrue(found < {tuple(row) for row in rows.tolist()})


class Subsample(Train):
    def train(self, *more):
        return self.run_json("hash", "train", "big.npy", "--bits", "6", "--workers", "2", "-o", "m.safetensors", *more)

    def test_data_in_a_period(self):
        """Eight groups in turn, a block of rows of each, as eight loaders would write them: early iterations see all."""
        rng = numpy.random.default_rng(4)
        centres = 10 * rng.standard_normal((8, 12))
        turn = numpy.arange(512 * 128) // 128 % 8
        numpy.save("big.npy", (centres[turn] + rng.standard_normal((len(turn), 12))).astype("f4"))
        full = self.train("--subsample", "1")[-1]["e_ba"]
        for seed in "123":
            done = self.run_program("hash", "train", "big.npy", "--bits", "6", "--workers", "2", "-o", "m.safetensors",
                                    "--subsample", "8", "--seed", seed, "--json")
            self.assertEqual(done.returncode, 0)
            self.assertIn("warning: --subsample 8: iterations before the last 5 see about 8192 of 65536 points", done.stderr)
            self.assertLess(json.loads(done.stdout.splitlines()[-1])["e_ba"], 2 * full)  # .13 and more where a group is missed, of .05

    def test_many_workers(self):
        """More than sixteen a core, of which there is one here."""
        numpy.save("big.npy", numpy.random.default_rng(5).standard_normal((400, 4)).astype("f4"))
        command = ["hash", "train", "big.npy", "--bits", "2", "--iterations", "1", "-o", "m.safetensors", "--workers"]
        core = {"preexec_fn": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})}
        done = self.run_program(*command, "17", **core)
        self.assertEqual(done.returncode, 0)
        self.assertIn("warning: 17 workers on 1 core;", done.stderr)
        self.run_ok(*command, "17", "--serial", **core)
        self.run_ok(*command, "16", **core)

    def test_what_is_said_of_it(self):
        rng = numpy.random.default_rng(4)
        numpy.save("big.npy", rng.standard_normal((31000, 4)).astype("f4"))
        lines = self.train("--bits", "4", "--iterations", "7", "--validation", "0")
        few = [line["points"] < 31000 for line in lines[1:-1]]
        self.assertEqual(few, [True, True] + [False] * (len(few) - 2))
        done = self.run_program("hash", "train", "big.npy", "--bits", "4", "--workers", "1", "-o", "m.safetensors",
                                "--iterations", "6", "--validation", "0", "-v")
        self.assertRegex(done.stderr, r"(?m)^laconic: iteration 1/6 [^\n]*, over 15\d\d\d of 31000 points$")
        self.assertRegex(done.stderr, r"(?m)^laconic: iteration 2/6 [^\n,]*$")
        self.assertRegex(done.stdout, "1 worker, ")


if __name__ == "__main__":
    unittest.main()
