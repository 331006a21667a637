"""laconic hash train that is interrupted, whose data are cut, or one of whose ranks falls silent: what is said and what is
kept."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from models import TRAIN, Train
from support import LACONIC, MPIEXEC, children, read_safetensors, write_npy


class Interrupts(Train):
    LONG = ("--iterations", "1000", "--epochs", "20", "--mu", "1e-9", "--mu-factor", "1.0001", "--workers", "2",
            "--undo-limit", "1000")

    def start(self, *more, ranks=0):
        """Starts a run that would take long and waits until it is in the midst of it."""
        command = [LACONIC, *TRAIN[:5], *self.LONG, "--json", "-o", "m.safetensors", *more]
        if ranks:
            command = [MPIEXEC, "-n", str(ranks), *command]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.stderr.close)
        for line in run.stdout:
            if json.loads(line).get("iteration", 0) >= 3:
                return run
        return self.fail(run.stderr.read())

    def test_best_model_is_kept(self):
        for number, more in ((signal.SIGINT, ()), (signal.SIGTERM, ()), (signal.SIGHUP, ()),
                             (signal.SIGINT, ("--serial",))):
            run = self.start(*more)
            run.send_signal(number)
            output, errors = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 130)
            self.assertRegex(errors, r"\Alaconic: interrupted; [^\n]* m.safetensors\n\Z")
            self.assertNotIn('"done"', output)
            self.run_ok("hash", "encode", "m.safetensors", "base.bvecs", "-q", "-o", "codes.npy")
            self.assertEqual(sorted(os.listdir(".")), ["base.bvecs", "codes.npy", "m.safetensors"])
            meta = self.run_json("info", "m.safetensors")[0]["metadata"]  # nobody takes it for a finished one
            self.assertTrue(meta["interrupted"])
            self.assertGreaterEqual(int(meta["iterations"]), 2)
            self.assertNotIn("e_ba", meta)
            os.remove("m.safetensors")

    def test_data_that_are_cut(self):
        """A mapped file that becomes shorter has pages with nothing in them."""
        data = self.files()["./base.bvecs"]
        for more, ranks in (((), 0), (("--serial",), 0), (("--workers", "2"), 2 if MPIEXEC else 0)):
            with open("m.safetensors", "wb") as file:
                file.write(b"an earlier model")
            run = self.start(*more, ranks=ranks)
            os.truncate("base.bvecs", 0)
            _, errors = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 1, errors)
            line = re.search(r"(?m)^laconic: (\S+): offset (\d+): found the end of the file, expected [^\n]*cut meanwhile$", errors)
            self.assertTrue(line, errors)
            self.assertEqual(line[1], os.path.realpath("base.bvecs"))
            self.assertLess(int(line[2]), len(data))
            if not ranks:  # where a rank dies, the launcher asks the others to stop, and they keep what they have
                self.assertEqual(errors.count("\n"), 1)
                self.assertEqual(self.files()["./m.safetensors"], b"an earlier model")
            self.assertEqual(sorted(os.listdir(".")), ["base.bvecs", "m.safetensors"])
            with open("base.bvecs", "wb") as file:
                file.write(data)

    def test_interrupted_before_there_is_a_model(self):
        write_npy("base.npy", [[float(v) for v in row] for row in self.rows * 50])
        run = subprocess.Popen([LACONIC, "hash", "train", "base.npy", "--bits", "8", "-o", "m.safetensors", "--json",
                                "--workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        self.assertEqual(json.loads(run.stdout.readline())["event"], "start")
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130)
        self.assertRegex(errors, r"\Alaconic: interrupted[^\n]*\n\Z")
        last = json.loads(output.splitlines()[-1])
        self.assertEqual(last["event"], "interrupted")
        self.assertEqual(os.path.exists("m.safetensors"), last["saved"])

    def test_what_is_said_is_what_is_there(self):
        """Whenever the interrupt comes, also between the last iteration and the end."""
        command = [LACONIC, *TRAIN, "-o", "m.safetensors", "--json"]
        begin = time.monotonic()
        self.run_ok(*TRAIN, "-o", "m.safetensors", "-q")
        whole = time.monotonic() - begin
        for i in range(24):
            os.remove("m.safetensors") if os.path.exists("m.safetensors") else None
            run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
            time.sleep(whole * (0.5 + 0.03 * i))
            run.send_signal((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[i % 3])
            output, errors = run.communicate(timeout=60)
            if run.returncode == 130:
                saved = json.loads(output.splitlines()[-1])["saved"]
                self.assertRegex(errors, r"\Alaconic: interrupted" + (";" if saved else " before") + r"[^\n]*\n\Z")
                self.assertEqual(os.path.exists("m.safetensors"), saved)
            else:  # before the program listens, after it has ended, or as it leaves
                self.assertIn(run.returncode, (0, -signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP))
                self.assertEqual(errors, "")

    def test_nohup(self):
        """A terminal that goes away under nohup ends nothing."""
        run = subprocess.Popen([LACONIC, *TRAIN, "-o", "m.safetensors", "-q"], stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        while run.poll() is None:
            run.send_signal(signal.SIGHUP)
            time.sleep(0.001)
        self.assertEqual((run.returncode, run.communicate()[1]), (0, b""))

    def test_second_signal_kills(self):
        run = self.start()
        os.kill(run.pid, signal.SIGSTOP)  # both arrive before the work can stop
        run.send_signal(signal.SIGINT)
        os.kill(run.pid, signal.SIGCONT)
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)
        self.assertIn(run.returncode, (130, -signal.SIGTERM))

    @unittest.skipUnless(MPIEXEC, "built without MPI")
    def test_signal_to_a_rank_that_waits_to_leave(self):
        """Its work is done and its memory given back while another rank still writes."""
        os.mkfifo("p.svg")  # and nobody reads it
        run = subprocess.Popen([MPIEXEC, "-n", "2", LACONIC, *TRAIN[:5], "--iterations", "2", "-o", "m.safetensors",
                                "--plot", "p.svg"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.kill)
        while not os.path.exists("m.safetensors"):
            self.assertIsNone(run.poll())
            time.sleep(0.01)
        ranks = children(run)
        time.sleep(1)
        os.kill(ranks[1], signal.SIGTERM)
        _, errors = run.communicate(timeout=60)
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn("Sanitizer", errors)
        self.assertEqual(read_safetensors("m.safetensors")[0]["laconic.method"], "ba")

    @unittest.skipUnless(MPIEXEC, "built without MPI")
    def test_a_rank_that_falls_silent_is_named(self):
        """Whichever it is, also the one that speaks for all; a machine that freezes does not even close its connections."""
        runs = []
        for silent in (0, 2):
            run = self.start("--timeout", "5", "--workers", "3", ranks=3)
            self.addCleanup(run.kill)
            os.kill(children(run)[silent], signal.SIGSTOP)
            runs.append((run, silent))
        for run, silent in runs:
            _, errors = run.communicate(timeout=60)
            self.assertNotEqual(run.returncode, 0)
            said = re.findall("(?m)^laconic: worker .*$", errors)
            self.assertTrue(said, errors)
            for line in said:
                self.assertRegex(line, rf" waited \S+ s for .*worker {silent}\b")

    @unittest.skipUnless(MPIEXEC, "built without MPI")
    def test_ranks_are_interrupted_together(self):
        """Whichever rank is told to stop."""
        for rank in range(2):
            run = self.start(ranks=2)
            ranks = children(run)
            self.assertEqual(len(ranks), 2)
            os.kill(ranks[rank], signal.SIGTERM)
            output, errors = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 130)
            self.assertEqual(re.findall("(?m)^laconic: .*$", errors),
                             ["laconic: interrupted; the best model so far is in m.safetensors"])
            self.assertEqual(json.loads(output.splitlines()[-1]), {"event": "interrupted", "saved": True})
            self.run_ok("hash", "encode", "m.safetensors", "base.bvecs", "-q", "-o", "codes.npy")
            os.remove("m.safetensors")


if __name__ == "__main__":
    unittest.main()
