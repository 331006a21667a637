"""laconic plan hash: lines beside formulas that are worked out here, the engine's rehearsal beside its formula, bad input."""

import json
import math
import os
import shutil
import unittest
import xml.etree.ElementTree

from support import LACONIC, MPIEXEC, ProgramTest

SECONDS = ["w", "z", "serial", "communication", "waiting", "total"]
KEYS = ["workers", "speedup", "efficiency", "seconds", "messages", "bytes", "link_bytes", "memory_per_worker", "source",
        "seconds_per_iteration", "plain_speedup", "basis"]
CLUSTER = os.path.join(os.environ["LACONIC_SOURCE"], "tests", "house", "cluster.xml")
COSTS = {"begin": 2e-8, "visit": 3e-8, "submodels": [5e-8, 0], "handling": 4e-7, "z": 2e-6,
         "early_begin": 2e-8, "early_z": 2e-6, "start_point": 2e-7,
         "start_fixed": 0.01, "iteration_point": 1e-9, "iteration_fixed": 3e-3, "finish_point": 3e-8, "finish_fixed": 1e-3}


def plain(points, submodels, epochs, w, z, hop, workers, laps):
    """Seconds of an iteration on so many workers, in lock step, and the speedup: W, communication and Z as they follow."""
    fullest = math.ceil(submodels / workers)
    alone = submodels * points * (z + epochs * w)
    parts = (fullest * epochs * points * w, fullest * laps * workers * hop, submodels * points / workers * z)
    return parts, alone / sum(parts)


def extended(points, bits, epochs, workers, hop_seconds, byte_seconds, columns):
    """W and Z step of an iteration on equal workers with the costs above, M a multiple of their number."""
    m, each, share = 2 * bits, 2 * bits // workers, points / workers
    wire = byte_seconds * bytes_of(bits, columns) / m
    visit = share * (COSTS["visit"] + each / 2 * COSTS["submodels"][0]) + each * COSTS["handling"]
    last = (workers - 1) * (hop_seconds + wire) + (each - 1) * wire
    chain = share * COSTS["begin"] + epochs * workers * visit + (epochs * workers - 1) * (hop_seconds + each * wire) + last
    sums = 6 * math.ceil(math.log2(workers)) * (hop_seconds + 16 * byte_seconds)
    return chain + sums, share * COSTS["z"]


def bytes_of(bits, columns):
    """Of all submodels with their envelopes: encoders of floats behind a counter, the decoder's sums of doubles."""
    encoder = 8 + 4 * (columns + columns % 2) + 8
    return bits * encoder + 8 * (bits + 1 + columns) * (bits + 1) + 2 * bits * 16


class PlanHash(ProgramTest):
    def plan(self, *arguments, **more):
        """The lines, checked for what holds of all, without plain and done."""
        *lines, done = self.run_json("plan", "hash", *arguments, **more)
        lines = [line for line in lines if line.get("event") != "plain"]
        for line in lines:
            self.assertEqual(list(line), KEYS)
            self.assertEqual(list(line["seconds"]), SECONDS)
            seconds = dict(line["seconds"])
            total = seconds.pop("total")
            self.assertAlmostEqual(sum(seconds.values()) / total, 1, 9)
            mean = line["bytes"] / line["workers"]  # of the formula for all, of the engine by the orders that it drew
            self.assertGreaterEqual(line["link_bytes"], mean * (1 - 1e-9))
            self.assertLessEqual(line["link_bytes"], mean * (1.1 if line["source"] == "sim" else 1 + 1e-9))
        formulas = [line for line in lines if line["source"] == "formula"]
        best = max(formulas, key=lambda line: line["speedup"])
        self.assertEqual(done, {"event": "done", "best_workers": best["workers"], "best_speedup": best["speedup"]})
        return lines

    def write_calibration(self, **machine):
        with open("c.json", "w") as file:
            json.dump({"laconic": "0.1.0", "machine": {"processor": "Abacus", "cores": 3, "kernels": "none", **machine},
                       "hash": [{"columns": 32, "type": "u8", "bits": 8, "encoder": "linear", "points": 30000, **COSTS}],
                       "gradients": [], "links": []}, file)

    def test_values_of_the_plain_formula(self):
        """Those that are known for two settings of the size of SIFT-1M and SIFT-1B."""
        paper = ("--costs", "1,40,1e4", "--workers", "16,32,64,96,128", "--dims", "128")
        lines = self.plan(*paper, "--points", "1e6", "--bits", "16", "--epochs", "1")
        self.assertEqual([round(line["speedup"], 1) for line in lines], [15.9, 31.5, 58.9, 80.7, 96.8])
        lines = self.plan(*paper, "--points", "1e8", "--bits", "64", "--epochs", "2")
        self.assertEqual(round(lines[-1]["speedup"], 1), 127.9)

    def test_the_plain_formula_as_it_stands(self):
        w, z, hop, bits, points = 3, 50, 2000, 12, 50000
        for epochs, local in ((1, False), (3, False), (3, True)):
            laps = 2 if local else epochs + 1
            arguments = ("--costs", f"{w},{z},{hop}", "--points", points, "--bits", bits, "--epochs", epochs,
                         "--workers", "1:40:1", "--iterations", 7, *(["--local-epochs"] if local else []))
            lines = self.plan(*arguments)
            self.assertEqual([line["workers"] for line in lines], list(range(1, 41)))
            for line in lines:
                parts, speedup = plain(points, 2 * bits, epochs, w, z, hop, line["workers"], laps)
                self.assertAlmostEqual(line["speedup"] / speedup, 1, 9)
                self.assertAlmostEqual(line["plain_speedup"] / speedup, 1, 9)
                self.assertAlmostEqual(line["efficiency"] * line["workers"] / speedup, 1, 9)
                for key, seconds in zip(("w", "communication", "z"), parts):
                    self.assertAlmostEqual(line["seconds"][key] / (7 * seconds), 1, 9, key)
                self.assertEqual((line["seconds"]["serial"], line["seconds"]["waiting"]), (0, 0))
                self.assertEqual((line["source"], line["basis"]), ("formula", "given"))
            self.check_best(arguments, points, 2 * bits, epochs, w, z, hop, laps)

    def check_best(self, arguments, points, submodels, epochs, w, z, hop, laps):
        """P* and S* are where the formula, searched over all numbers from M on, is highest."""
        best, = (line for line in self.run_json("plan", "hash", *arguments) if line.get("event") == "plain")
        here = plain(points, submodels, epochs, w, z, hop, best["workers"], laps)[1]
        self.assertAlmostEqual(here / best["speedup"], 1, 9)
        for workers in range(submodels, int(4 * best["workers"])):
            self.assertLessEqual(plain(points, submodels, epochs, w, z, hop, workers, laps)[1], best["speedup"] * (1 + 1e-9))
        self.assertGreaterEqual(best["workers"], submodels)

    def test_best_is_m_where_z_is_cheap(self):
        *_, best, _ = self.run_json("plan", "hash", "--costs", "1,1,1e6", "--points", 1000, "--bits", 8, "--workers", "2")
        self.assertEqual((best["event"], best["workers"]), ("plain", 16))
        self.assertAlmostEqual(best["speedup"] / plain(1000, 16, 1, 1, 1, 1e6, 16, 2)[1], 1, 9)

    def test_the_extended_formula(self):
        self.write_calibration()
        for epochs in (1, 2):
            lines = self.plan("--calibration", "c.json", "-q", "--points", 80000, "--dims", 32, "--bits", 8, "--epochs",
                              epochs, "--iterations", 5, "--workers", "2,4,8", "--network", "10MB,2ms")
            for line in lines:
                workers = line["workers"]
                w, z = extended(80000, 8, epochs, workers, 2e-3, 1e-7, 32)
                start = 0.01 + 1e-3 + 5 * 3e-3 + 80000 / workers * (2e-7 + 3e-8 + 5 * 1e-9)
                self.assertAlmostEqual(line["seconds"]["z"] / (5 * z), 1, 9)
                self.assertAlmostEqual(line["seconds"]["serial"] / start, 1, 9)
                self.assertAlmostEqual(line["seconds"]["total"] / (5 * (w + z) + start), 1, 9)
                self.assertAlmostEqual(line["seconds_per_iteration"] / (w + z), 1, 9)
                self.assertEqual(line["basis"], "measured")

    def test_rehearsal_beside_the_formula(self):
        """16 submodels: 5 % up to as many workers, 10 % above."""
        for more in ((), ("--epochs", 3), ("--epochs", 2, "--local-epochs"), ("--network", "100Mbit,1ms")):
            lines = self.plan("--points", "1e6", "--dims", 32, "--bits", 8, "--workers", "1,2,4,8,16,24,32", "--rehearse",
                              *more)
            for formula, sim in zip(lines[::2], lines[1::2]):
                self.assertEqual((formula["source"], sim["source"]), ("formula", "sim"))
                self.assertEqual(formula["workers"], sim["workers"])
                self.assertAlmostEqual(formula["seconds_per_iteration"] / sim["seconds_per_iteration"], 1,
                                       delta=0.05 if formula["workers"] <= 16 else 0.1, msg=(more, formula["workers"]))
                self.assertEqual(formula["messages"], sim["messages"])
                # a rehearsal's submodels of a kind all have the same whole number of bytes
                self.assertAlmostEqual(sim["bytes"], formula["bytes"], delta=sim["messages"])

    def test_messages_and_bytes(self):
        common = ("--points", "1e5", "--dims", 33, "--bits", 12, "--epochs", 3, "--iterations", 5, "--workers", "1,2,3,7,50")
        for more, count in (((), lambda p: 4 * p - 2), (("--local-epochs",), lambda p: 2 * p - 2)):
            for line in self.plan(*common, *more):
                each = 0 if line["workers"] == 1 else count(line["workers"])
                self.assertEqual(line["messages"], 5 * 24 * each)
                self.assertAlmostEqual(line["bytes"], 5 * each * bytes_of(12, 33), delta=1e-3)

    def test_half_the_machines_at_half_speed(self):
        """Points by speed bring back what can be: 8 machines with the speed of 6."""
        common = ("--points", "1e7", "--dims", 32, "--bits", 8, "--workers", 8, "--network", "10Gbit,25us", "--rehearse")
        half = (*common, "--speeds", "1,0.5")
        for even, by_speed, equal in zip(self.plan(*common), self.plan(*half), self.plan(*half, "--shares", "equal")):
            ideal = even["seconds"]["total"] * 8 / 6
            self.assertAlmostEqual(by_speed["seconds"]["total"] / ideal, 1, delta=0.05)
            self.assertGreater(equal["seconds"]["total"], 1.3 * ideal)
            self.assertAlmostEqual(by_speed["efficiency"] * 6 / by_speed["speedup"], 1, 9)
            self.assertAlmostEqual(even["efficiency"] * 8 / even["speedup"], 1, 9)

    def test_memory_of_a_worker(self):
        lines = self.plan("--points", "1e8", "--dims", 128, "--bits", 64, "--epochs", 2, "--workers", "1,128,256")
        for line in lines[1:]:
            share = 1e8 / line["workers"]
            self.assertGreater(line["memory_per_worker"], share * (128 + 8))  # the points and their codes
            self.assertLess(line["memory_per_worker"], 1e9 * 128 / line["workers"])
        self.assertGreater(lines[0]["memory_per_worker"], 100 * lines[1]["memory_per_worker"])

    def test_few_points(self):
        """Of the sizes that nobody asked for those that there are points for; of others it is said."""
        for points, most in ((1, 1), (10, 8), (1000, 128)):
            lines = self.run_json("plan", "hash", "--points", str(points), "--dims", "4", "--bits", "2")
            self.assertEqual([line["workers"] for line in lines if "workers" in line], [2**i for i in range(most.bit_length())])
        self.run_bad("plan", "hash", "--points", "10", "--dims", "4", "--bits", "2", "--workers", "1:16:x2",
                     names=["--workers: found 16, expected at most the 10 points"])

    def test_table_and_picture(self):
        text = self.run_ok("plan", "hash", "--points", "1e6", "--bits", 16, "--workers", "1:256:x2", "--rehearse", "--plot",
                           "s.svg", "--epochs", 2)
        self.assertIn("1000000 points of 128 u8, 32 submodels, 2 epochs, 13 iterations, 8 of them over 1 point in 8; costs of the processor assumed, "
                      "network of 1 Gbit/s and 50 us assumed", text)
        self.assertRegex(text, r"\d+ workers are the best of these \(speedup [0-9.]+\); at \d+ [a-z ]+ takes")
        self.assertNotIn("plain formula", text)  # which promises too much where costs are known
        self.assertRegex(text, r"with --local-epochs at \d+ workers: [0-9.]+ s in place of [0-9.]+ s")
        texts = "".join(xml.etree.ElementTree.parse("s.svg").getroot().itertext())
        for word in ("Speedup", "Time", "workers", "formula", "sim", "plain", "ideal", "seconds"):
            self.assertIn(word, texts)

    def test_long_times_stay_in_their_columns(self):
        text = self.run_ok("plan", "hash", "--costs", "1,40,1e4", "--points", "1e12", "--bits", 16, "--workers", "1,16")
        self.assertRegex(text.splitlines()[2], r"100\.0%( +[0-9.e+]+){4} +0 bytes +[0-9.]+ TB  formula\Z")  # in no unit
        text = self.run_ok("plan", "hash", "--points", "1e13", "--bits", 16, "--workers", "1,16")
        self.assertRegex(text.splitlines()[2], r"100\.0%( +[0-9.e+]+ h){4} +0 s +0 bytes +[0-9.]+ PB  formula\Z")

    def test_what_is_not_counted_is_said(self):
        text = self.run_ok("plan", "hash", "--workers", "1,2", "--relaxed-starts", 11, "--threads", 8, "--init", "random")
        self.assertIn("not counted, as costs are those of the defaults: --init, --relaxed-starts, --threads\n", text)
        self.assertNotIn("not counted", self.run_ok("plan", "hash", "--workers", "1,2"))

    def test_calibration_of_another_machine(self):
        self.write_calibration()
        common = ("plan", "hash", "--calibration", "c.json", "--points", 10000, "--dims", 32, "--bits", 8, "--workers", 2)
        done = self.run_program(*common)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\Alaconic: warning: c\.json: made on 'Abacus' with 3 cores, this is [^\n]+\n\Z")
        self.assertIn("costs of the processor measured in c.json", done.stdout)
        self.assertEqual(self.run_ok(*common, "-q").splitlines()[-1], done.stdout.splitlines()[-1])
        self.assertEqual(self.plan(*common[2:], "-q", "--bits", 4)[0]["basis"], "scaled")

    def test_bad_input(self):
        good = ("plan", "hash", "--points", "1000", "--dims", "32", "--bits", "8", "--workers", "1,2")
        with open("broken.json", "w") as file:
            file.write("{\n")
        for network in ("1Gbit", "-1Gbit,1us", "0Gbit,1us", "1,1us", "1Gbit,-1us", "1Gbit,1parsec", ",1us", "1Gbit,", ""):
            self.run_bad(*good, "--network", network, names=("--network", f"'{network}'", "1Gbit,50us", "12.5MB,0s"))
        for costs in ("1,40", "1,40,0", "0,40,1", "1,40,1e4,5", "1,-40,3", "1,40,0x10", "1,40,1e999", "1,,3", "nan,1,1", ""):
            self.run_bad(*good, "--costs", costs, names=("--costs", f"'{costs}'", "1,40,1e4"))
        for key, value in (("network", "1Gbit,1us"), ("speeds", "1"), ("cluster", "c.xml"), ("calibration", "broken.json")):
            self.run_bad(*good, "--costs", "1,40,1e4", f"--{key}", value, names=("--costs", f"--{key}"))
        self.run_bad("plan", "hash", "--points", "1e9", "--dims", "100k", "--bits", 1024, "--workers", "1,4096",
                     "--rehearse", names=("--rehearse", "4096 workers", "TB", "expected at most"), timeout=5)
        for more, names in (
                (("--workers", "0"), ("--workers", "'0'")),
                (("--workers", "4,2"), ("--workers", "rising")),
                (("--workers", "1001"), ("--workers", "1001", "1000 points")),
                (("--workers", "5000", "--points", "1e6"), ("--workers", "5000", "4096")),
                (("--points", "0"), ("--points", "'0'")),
                (("--points", "12.5"), ("--points", "12.5", "whole")),
                (("--dims", "0"), ("--dims", "'0'")),
                (("--bits", "64"), ("--bits", "64", "32 columns")),
                (("--speeds", "1,0"), ("--speeds", "1,0", "1,1,0.5")),
                (("--speeds", "1,,2"), ("--speeds",)),
                (("--shares", "lots"), ("--shares", "speeds", "equal")),
                (("--type", "u9"), ("--type", "u9", "f32")),
                (("--method", "magic"), ("--method", "magic", "ba")),
                (("--method", "itq"), ("--method", "submodels", "ba")),
                (("--calibration", "none.json"), ("none.json",)),
                (("--calibration", "broken.json"), ("broken.json", "line 2", "JSON")),
                (("--cluster", "c.xml", "--network", "1Gbit,1us"), ("--cluster", "--network")),
                (("--cluster", "c.xml", "--speeds", "1"), ("--cluster", "--speeds")),
                (("--plot", "x.txt"), ("--plot", ".svg")),
                (("--plot", "none/x.svg"), ("none",)),
                (("--calibration", "x.svg", "--plot", "x.svg"), ("--plot", "--calibration")),
                (("--real-limit", "-1"), ("--real-limit",)),
                (("more",), ("more",))):
            self.run_bad(*good, *more, names=names)

    def test_without_simgrid(self):
        """A program that has nothing beside it says what to install."""
        shutil.copy(LACONIC, "alone")
        for more in (("--simulate",), ("--cluster", CLUSTER)):
            for job in (("hash",), ("train", "--parameters", "1k", "--compute", "1ms", "--gradients", "10")):
                self.run_bad("plan", *job, "--workers", "2", *more, names=(more[0], "libsimgrid-dev"),
                             program=os.path.abspath("alone"))

    def test_under_mpiexec(self):
        if MPIEXEC:
            done = self.run_ranks(2, "plan", "hash", "--workers", "2")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, r"\Alaconic: plan hash: found 2 ranks, expected one: [^\n]+\n\Z")

    def test_full_disk(self):
        self.run_full("plan", "hash", "--workers", "2")


if __name__ == "__main__":
    unittest.main()
