"""laconic train with other exchanges than the mean of all: what they send, that a simulated network makes every run
repeatable, that runs without rounds can be cut and taken up, and what is said of options that do not fit."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from network_test import BATCH, PARAMETERS, TRAIN, Network
from support import LACONIC, MPIEXEC, children

ROUNDS = [["allreduce", "--slack", 0.5], ["server"], ["periodic", "--period", 4], ["dpsgd"],
          ["dpsgd", "--topology", "one-peer", "--period", 2], ["dpsgd", "--graph", "star.edges", "--slack", 0.75]]
ALONE = [["async-ring"], ["adpsgd", "--topology", "complete"], ["async-server"]]
SIMULATE = ["--simulate", "1Gbit,100us", "--compute", "2ms"]
QUIET = "-q"  # where workers run freely a loaded machine may let replicas move apart, which is warned of
WORKERS = 4
STEPS = (TRAIN - 60) // WORKERS // BATCH


class Exchange(Network):
    def setUp(self):
        super().setUp()
        with open("star.edges", "w") as file:
            file.write("0 1\n0 2\n0 3\n")
        self.options = ["--workers", WORKERS, "--learning-rate", 0.02, "--optimizer", "momentum"]

    def exchange(self, name, way, *more):
        return self.train(name, *self.options, "--exchange", *way, *more)

    def test_each_learns_and_sends_what_mix_predicts(self):
        for way in ROUNDS + ALONE:
            sizes, = self.exchange("m", way, "--epochs", 12, "--overwrite", "--dry-run")
            lines = self.exchange("m", way, "--epochs", 12, "--overwrite", QUIET)
            self.assertLess(lines[-1]["test_error"], 0.5, way)  # of three classes
            said = self.run_json("mix", "--workers", WORKERS, "--protocol", *way, "--model-bytes", 4 * PARAMETERS)[0]
            steps = 12 * STEPS
            if way[0] == "adpsgd":  # those who ask each other need no answers, those who are refused ask again
                self.assertGreater(lines[-1]["messages"], 0)
                self.assertEqual(lines[-1]["bytes"], lines[-1]["messages"] * 4 * PARAMETERS)
            else:
                self.assertAlmostEqual(lines[-1]["messages"], steps * said["messages_per_round"], delta=0.001, msg=way)
                self.assertAlmostEqual(lines[-1]["bytes"], steps * said["bytes_per_round"], delta=0.001, msg=way)
                self.assertEqual((sizes["messages"], sizes["bytes"]), (lines[-1]["messages"], lines[-1]["bytes"]), way)
            self.assertEqual(sizes["exchange"]["t_mix"]["predicted"], lines[0]["exchange"]["t_mix"]["predicted"], way)
            for line in lines[:-1]:
                about = line["exchange"]
                self.assertEqual((about["protocol"], about["topology"]), (way[0], said["topology"]))
                self.assertEqual(about["t_mix"]["kind"], said["t_mix"]["kind"])
                self.assertAlmostEqual(about["t_mix"]["predicted"], said["t_mix"]["rounds"],
                                       delta=0.2 * said["t_mix"]["rounds"], msg=way)
            if way in ROUNDS:
                self.assertEqual(about["t_mix"]["observed"], about["t_mix"]["predicted"])
                self.assertEqual(sum(about["staleness"]), 0)
            else:
                self.assertGreater(sum(about["staleness"]), 0)

    def test_a_slack_below_float32_is_said_and_not_predicted(self):
        """Sampling a mixing time of 10^10 updates would take hours."""
        for protocol in ("adpsgd", "async-ring"):
            done = self.run_program("train", *self.data, "-o", "m.safetensors", *self.options, "--exchange", protocol,
                                    "--slack", 1e-9, "--epochs", 1, "--overwrite", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("are lost: a slack of 1e-09", done.stderr)
            about = json.loads(done.stdout.splitlines()[0])["exchange"]
            self.assertEqual(about["t_mix"]["kind"], "realised")
            self.assertIsNone(about["t_mix"]["predicted"])
            self.assertGreater(about["lost"], 0.1)

    def test_simulated_runs_repeat_themselves(self):
        for way in ROUNDS[3:4] + ALONE:
            for name in ("one", "two"):
                self.exchange(name, way, *SIMULATE, "--epochs", 2, "--overwrite")
            for file in ("best.safetensors", "last.safetensors", "checkpoint.safetensors", "metrics.jsonl"):
                with open(f"one.run/{file}", "rb") as one, open(f"two.run/{file}", "rb") as two:
                    self.assertEqual(one.read(), two.read(), (way, file))
            with open("one.run/metrics.jsonl") as file:
                last = [json.loads(line) for line in file][-1]
            self.assertGreater(last["seconds"], 2 * STEPS * 0.002 * 0.8)  # of the virtual clock

    def test_simulated_rounds_give_the_bits_of_threads(self):
        for way in ROUNDS[1::2]:
            self.exchange("threads", way, "--epochs", 2, "--overwrite")
            self.exchange("simulated", way, *SIMULATE, "--epochs", 2, "--overwrite")
            self.assertEqual(self.tensors("threads.run/checkpoint.safetensors"),
                             self.tensors("simulated.run/checkpoint.safetensors"), way)

    @unittest.skipUnless(MPIEXEC, "a tree without MPI has nothing of it to test")
    def test_ranks(self):
        for way in ALONE:
            done = self.run_ranks(WORKERS, "train", *self.data, "-o", "mpi.safetensors", *self.options[2:], "--exchange",
                                  *way, "--epochs", 3, "--overwrite", "--json", QUIET)
            self.assertEqual((done.returncode, done.stderr), (0, ""), way)
            self.assertEqual(json.loads(done.stdout.splitlines()[-1])["event"], "done")
        self.exchange("local", ROUNDS[3], "--epochs", 3)
        done = self.run_ranks(WORKERS, "train", *self.data, "-o", "mpi.safetensors", *self.options[2:], "--exchange",
                              *ROUNDS[3], "--epochs", 3, "--overwrite", "--json")
        self.assertEqual(self.tensors("local.run/checkpoint.safetensors"), self.tensors("mpi.run/checkpoint.safetensors"))

    def test_cut_and_taken_up(self):
        for way, number in zip(ALONE, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
            process = self.start("train", *self.data, "-o", "cut.safetensors", *self.options, "--exchange", *way,
                                 "--epochs", 40, "--overwrite", "--json", QUIET)
            self.assertTrue(process.stdout.readline())
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, err)
            self.assertEqual(json.loads(out.splitlines()[-1])["event"], "stopped")
            lines = self.run_json("train", "--resume", "cut.run", "--epochs", 42, QUIET)
            self.assertEqual((lines[-1]["event"], lines[-2]["epoch"]), ("done", 42))
            lines = self.exchange("limited", way, "--epochs", 1000, "--time-limit", "0.3s", "--overwrite", QUIET)
            self.assertEqual(lines[-1]["event"], "stopped")

    def test_parle_and_elastic_over_a_graph(self):
        """Simulated, since without rounds a loaded machine may let replicas move apart, which is warned of."""
        over = (["dpsgd", "--topology", "star", "--slack", 0.5], ["server"], *ALONE)
        for method, way in [*(("parle", way) for way in over), ("elastic", ["dpsgd"]), ("elastic", ALONE[1])]:
            options = ["--method", method, "--inner-steps", 5, "--epochs", 4, "--overwrite", *SIMULATE]
            lines = self.exchange("m", way, *options)
            sizes, = self.exchange("m", way, *options, "--dry-run")
            self.assertEqual([sizes[key] for key in ("messages", "bytes")],
                             [lines[-1][key] for key in ("messages", "bytes")], (method, way))
            self.assertLess(lines[-1]["test_error"], 0.3, (method, way))

    def test_what_float32_cannot_hold_is_said(self):
        done = self.run_program("train", *self.data, "-o", "m.safetensors", *self.options, "--exchange", "allreduce",
                                "--slack", 1e-9, "--epochs", 2)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"laconic: .*epoch 1: \d+ % of the moves towards the mean .* slack of 1e-09 is too small")
        lines = self.exchange("m", ["allreduce", "--slack", 0.9], "--epochs", 1, "--overwrite")
        self.assertLess(lines[0]["exchange"]["lost"], 0.01)

    @unittest.skipUnless(MPIEXEC, "a tree without MPI has nothing of it to test")
    def test_a_peer_that_falls_silent_is_named(self):
        """The deadline is far beyond what a busy disk takes for a checkpoint, during which a worker answers nobody."""
        runs = []
        for name, way in enumerate(ALONE):
            run = subprocess.Popen([MPIEXEC, "-n", "3", LACONIC, "train", *map(str, self.data), "-o",
                                    f"{name}.safetensors", "--exchange", *way, "--epochs", "100000", "--timeout", "5",
                                    "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, encoding="utf-8")
            self.addCleanup(run.stdout.close)
            self.addCleanup(run.stderr.close)
            self.addCleanup(run.kill)
            self.assertTrue(run.stdout.readline())
            silent = 0 if way[0] == "async-server" else 2
            os.kill(children(run)[silent], signal.SIGSTOP)
            runs.append((run, silent))
        for run, silent in runs:
            _, errors = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 1, errors)
            said = re.findall("(?m)^laconic: worker .*$", errors)
            self.assertTrue(said, errors)
            named = [line for line in said if re.search(rf" waited \S+ s for .*worker {silent}\b", line)]
            self.assertTrue(named, said)

    def test_a_dry_run_says_the_exchange(self):
        def said(*arguments):
            return self.run_ok("train", *self.data, "-o", "m.safetensors", *self.options, *arguments, "--dry-run")
        with open("parts.edges", "w") as file:
            file.write("0 1\n2 3\n")
        star = said("--exchange", "dpsgd", "--topology", "star")
        self.assertIn("exchange dpsgd on the topology star: mixing time 4 rounds (exact)\n", star)
        self.assertRegex(star, rf"(?m)^{5 * STEPS} outer steps, .* {5 * STEPS * 6} messages, ")
        self.assertIn("never mixes: the topology falls into 2 parts",
                      said("--exchange", "async-ring", "--graph", "parts.edges"))
        # what would be sampled for hours keeps no training waiting
        self.assertIn("takes long; laconic mix does", said("--exchange", "adpsgd", "--slack", 1e-9))
        self.assertIn("takes long; laconic mix does", said("--exchange", "async-ring", "--period", 10 ** 5, "-q"))

    def test_what_is_likely_to_be_a_mistake_is_said(self):
        for more, words in ((["--graph", "star.edges"], ["--graph", "allreduce", "dpsgd"]),
                            (["--exchange", "periodic"], ["--period", "25", f"{2 * STEPS} outer steps"])):
            done = self.run_program("train", *self.data, "-o", "m.safetensors", *self.options, *more, "--epochs", 2,
                                    "--dry-run")
            self.assertEqual(done.returncode, 0)
            self.assertRegex(done.stderr, r"\Alaconic: warning: [^\n]+\n\Z")
            for word in words:
                self.assertIn(word, done.stderr)

    def test_a_second_signal_does_not_promise_a_checkpoint(self):
        process = self.start("train", *self.data, "-o", "m.safetensors", *self.options, "--exchange", "adpsgd", "--epochs",
                             10 ** 4)
        while not os.path.exists("m.run/options.json"):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        kept = os.path.exists("m.run/checkpoint.safetensors")  # where the first was obeyed before the second came
        self.assertIn("goes on" if kept else "m.run has no checkpoint to go on from", errors)

    def test_bad_options(self):
        def bad(*arguments, names):
            self.run_bad("train", *self.data, "-o", "m.safetensors", "--workers", WORKERS, *arguments, names=names)
        bad("--exchange", "dpsg", names=["dpsgd"])
        bad("--exchange", "dpsgd", "--overlap", names=["overlap"])
        bad("--exchange", "async-ring", "--method", "parle", "--overlap", names=["overlap"])
        bad("--exchange", "async-ring", "--delay", 1, names=["delay"])
        bad("--exchange", "dpsgd", "--period", 0, names=["period", "0"])
        bad("--exchange", "dpsgd", "--slack", 0, names=["slack", "0"])
        bad("--exchange", "dpsgd", "--topology", "hypercube", "--workers", 6, names=["4", "8"])
        bad("--exchange", "dpsgd", "--graph", "star.edges", "--workers", 3, names=["star.edges"])
        bad("--exchange", "dpsgd", "--graph", "none.edges", names=["none.edges"])
        os.link("star.edges", "star.safetensors")
        bad("--exchange", "dpsgd", "--graph", "star.edges", "-o", "star.safetensors", names=["-o", "--graph"])
        bad("--compute", "1ms", names=["simulate"])
        bad("--simulate", "fast", names=["1Gbit,50us"])
        bad("--simulate", "1Gbit,1ms", "--compute", "-1s", names=["compute"])
        bad("--simulate", "1Gbit,1ms", "--jitter", 11, names=["jitter"])


if __name__ == "__main__":
    unittest.main()
