"""laconic plan train: lines beside formulas that are worked out here, its rehearsal beside its formula, bad input."""

import unittest
import xml.etree.ElementTree

from support import ProgramTest

KEYS = ["workers", "speedup", "efficiency", "seconds"]
SECONDS = ["w", "z", "serial", "communication", "waiting", "total"]
ALL = ["sgd", "elastic", "parle", "sgd/server", "sgd/async-server", "sgd/dpsgd", "sgd/adpsgd", "sgd/async-ring",
       "sgd/periodic"]


class PlanTrain(ProgramTest):
    def plan(self, *arguments):
        *lines, done = self.run_json("plan", "train", *arguments)
        self.assertEqual(done["event"], "done")
        for line in lines:
            self.assertEqual(list(line)[:len(KEYS)], KEYS)
            self.assertEqual(list(line["seconds"]), SECONDS)
            seconds = dict(line["seconds"])
            total = seconds.pop("total")
            self.assertAlmostEqual(sum(seconds.values()) / total, 1, 9)
        formulas = [line for line in lines if line["source"] == "formula"]
        best = max(formulas, key=lambda line: line["speedup"])
        self.assertEqual((done["best_workers"], done["best_speedup"]), (best["workers"], best["speedup"]))
        return lines

    def test_ring_of_sgd(self):
        lines = self.plan("--parameters", "1M", "--compute", "10ms", "--network", "1Gbit,50us", "--workers", "1:8:x2",
                          "--images", "51200", "--batch", "128", "--epochs", "3")
        self.assertEqual([line["workers"] for line in lines], [1, 2, 4, 8])
        for line in lines:
            n = line["workers"]
            gradients = 3 * 400 / n
            step = 0.01 + 2 * (n - 1) * (4e6 / n / 125e6 + 50e-6)
            self.assertAlmostEqual(line["seconds"]["total"] / (gradients * step), 1, 9)
            self.assertAlmostEqual(line["seconds"]["w"] / (gradients * 0.01), 1, 9)
            self.assertAlmostEqual(line["seconds_per_1000_gradients"] / (1000 * step), 1, 9)
            self.assertAlmostEqual(line["speedup"] / (n * 0.01 / step), 1, 9)
            self.assertAlmostEqual(line["efficiency"] / (0.01 / step), 1, 9)
            self.assertAlmostEqual(line["messages"], gradients * 2 * n * (n - 1), 6)
            self.assertAlmostEqual(line["bytes"], gradients * 2 * (n - 1) * 4e6, 3)
            self.assertAlmostEqual(line["link_bytes"], gradients * 2 * (n - 1) / n * 4e6, 3)
            self.assertEqual((line["source"], line["basis"], line["method"], line["exchange"]),
                             ("formula", "given", "sgd", "allreduce"))
            self.assertEqual(line["t_mix"], None if n == 1 else 1)

    def test_parle_speaks_once_in_25(self):
        sgd, parle = self.plan("--parameters", "1M", "--compute", "10ms", "--workers", "8", "--compare", "sgd,parle",
                               "--gradients", "5000", "--network", "100Mbit,1ms")
        exchange = 14 * (4e6 / 8 / 12.5e6 + 1e-3)
        self.assertAlmostEqual(sgd["seconds"]["total"] / (5000 * (0.01 + exchange)), 1, 9)
        self.assertAlmostEqual(parle["seconds"]["total"] / (5000 * (0.01 + exchange / 25)), 1, 9)
        self.assertAlmostEqual(sgd["messages"] / parle["messages"], 25, 9)
        self.assertEqual((sgd["label"], parle["label"]), ("sgd", "parle"))

    def test_compared_graphs_and_periods_are_those_of_the_options(self):
        common = ["--parameters", "100k", "--compute", "5ms", "--workers", "8"]
        side_by_side = self.plan(*common, "--compare", "sgd@3,sgd/dpsgd,sgd/dpsgd/exponential@4,parle/adpsgd/complete",
                                 "--topology", "star")
        ways = (["--period", "3"], ["--exchange", "dpsgd", "--topology", "star"],
                ["--exchange", "dpsgd", "--topology", "exponential", "--period", "4"],
                ["--method", "parle", "--exchange", "adpsgd", "--topology", "complete"])
        for line, way in zip(side_by_side, ways, strict=True):
            alone, = self.plan(*common, *way)
            line.pop("label")
            self.assertEqual(line, alone)
        text = self.run_ok("plan", "train", *common, "--compute", "50ms", "--compare",
                           "sgd,sgd/dpsgd/ring,sgd/dpsgd/one-peer,sgd/periodic@25")
        self.assertIn("at 8 workers the quickest gradients are those of sgd/dpsgd/", text)

    def test_compare_all_beside_the_trainer(self):
        lines = self.plan("--parameters", "100k", "--compute", "20ms", "--workers", "4", "--compare", "all",
                          "--gradients", "1000", "--rehearse", "--overlap")
        self.assertEqual({line["label"] for line in lines}, set(ALL))
        for formula, sim in zip(lines[::2], lines[1::2]):
            self.assertEqual((formula["source"], sim["source"]), ("formula", "sim"))
            self.assertEqual(formula["label"], sim["label"])
            alone = formula["exchange"] in ("async-server", "adpsgd", "async-ring")
            self.assertAlmostEqual(formula["seconds"]["total"] / sim["seconds"]["total"], 1,
                                   delta=0.05 if alone else 0.01, msg=formula["label"])
            if not alone:
                for key in ("messages", "bytes", "link_bytes"):
                    self.assertAlmostEqual(formula[key] / sim[key], 1, 9, (formula["label"], key))

    def test_speeds(self):
        """One half as fast: those that wait for rounds take twice as long, the others lose its half only."""
        common = ("--parameters", "1k", "--compute", "20ms", "--workers", "4", "--gradients", "100", "--network",
                  "100Gbit,0s")
        for method, factor in (("parle", 2), ("sgd/async-ring", 4 / 3.5)):
            even, = self.plan(*common, "--compare", method)
            slow, = self.plan(*common, "--compare", method, "--speeds", "1,0.5,1,1")
            self.assertAlmostEqual(slow["seconds"]["total"] / even["seconds"]["total"], factor, 3)

    def test_networks_have_their_parameters(self):
        for model, parameters, more in (("mlp:784-500-10", 784 * 500 + 500 + 500 * 10 + 10, ()),
                                        ("lenet", None, ()), ("resnet20", None, ()),
                                        ("layers.txt", 3 * 4 * 4 * 7 + 7, ("--shape", "3x4x4", "--classes", "7"))):
            with open("layers.txt", "w") as file:
                file.write("dense 7\n")
            line, = self.plan("--model", model, *more, "--workers", "2", "--compute", "1s", "--gradients", "1")
            sent = line["bytes"] / 2 / 4
            if parameters:
                self.assertEqual(sent, parameters)
            else:
                self.assertGreater(sent, 1e5)
        line, = self.plan("--model", "lenet", "--workers", "2", "--gradients", "1")
        self.assertEqual(line["basis"], "assumed")

    def test_table_and_picture(self):
        text = self.run_ok("plan", "train", "--parameters", "1M", "--compute", "1ms", "--workers", "1:64:x4",
                           "--compare", "sgd,parle", "--plot", "s.svg", "--gradients", "1000")
        self.assertIn("sgd: 1 worker is the best of these (speedup 1); at 4 communication takes", text)
        self.assertIn("parle: the most, 64 workers, are the best of these", text)
        self.assertIn("a gradient takes 0.001 s (given); a vector of 1000000 parameters has 4.0 MB", text)
        self.assertNotIn("?", text)
        texts = "".join(xml.etree.ElementTree.parse("s.svg").getroot().itertext())
        for word in ("Speedup", "workers", "sgd, formula", "parle, formula", "ideal", "seconds"):
            self.assertIn(word, texts)

    def test_best_is_where_more_does_not_pay(self):
        """A server's link: n vectors a round, so that the speedup stops at compute / vector."""
        common = ("plan", "train", "--parameters", "1M", "--compute", "320ms", "--network", "1Gbit,0s", "--method",
                  "elastic", "--exchange", "server", "--workers", "1:32:x2", "--gradients", "100", "--speeds",
                  "1,1,1,1,1,1,1,1,0.1")
        *lines, done = self.run_json(*common)
        self.assertEqual(done["best_workers"], 8)
        text = self.run_ok(*common)
        self.assertIn("8 workers are the best of these", text)
        self.assertIn("at 16 waiting takes", text)

    def test_bad_input(self):
        good = ("plan", "train", "--parameters", "1M", "--compute", "1ms")
        for more, names in (
                (("--workers", "0"), ("--workers", "'0'")),
                (("--network", "1Gbit"), ("--network", "1Gbit,50us")),
                (("--network", "-1Gbit,1us"), ("--network",)),
                (("--network", "0Gbit,1us"), ("--network",)),
                (("--speeds", "1,0"), ("--speeds", "1,1,0.5")),
                (("--speeds", "1,,2"), ("--speeds",)),
                (("--compute", "-1ms"), ("--compute", "20ms")),
                (("--compare", "sgd,adam"), ("--compare", "adam")),
                (("--compare", "sgd,sgd"), ("--compare", "each once")),
                (("--compare", "sgd/tree"), ("--compare", "sgd/tree")),
                (("--compare", "sgd/dpsgd/tree"), ("--compare", "sgd/dpsgd/tree")),
                (("--compare", "sgd/allreduce/ring"), ("--compare", "sgd/allreduce/ring")),
                (("--compare", "sgd@0"), ("--compare", "sgd@0", "@PERIOD")),
                (("--compare", "sgd/dpsgd/ring/4"), ("--compare", "sgd/dpsgd/ring/4")),
                (("--model", "lenet"), ("--model and --parameters",)),
                (("--workers", "7", "--exchange", "dpsgd", "--topology", "hypercube"), ("hypercube",)),
                (("--method", "entropy", "--workers", "2"), ("entropy", "2 workers")),
                (("--overlap", "--exchange", "dpsgd", "--workers", "2"), ("overlap",)),
                (("--images", "100"), ("--images", "batch")),
                (("--calibration", "x.json"), ("--compute", "--calibration")),
                (("--rehearse", "--workers", "8192", "--gradients", "9"), ("--rehearse", "4096")),
                (("--plot", "x.txt"), ("--plot",))):
            self.run_bad(*good, *more, names=names)
        self.run_bad("plan", "train", names=("--model", "--parameters"))
        self.run_bad("plan", "train", "--parameters", "5", names=("--compute",))
        self.run_bad("plan", "train", "--model", "lenett", names=("lenet",))
        self.run_bad("plan", "train", "--model", "./none", "--shape", "1x2x2", names=("./none",))
        self.run_bad("plan", "train", "--model", "lenet", "--shape", "28x28", names=("--shape", "3x32x32"))
        with open("layers.txt", "w") as file:
            file.write("dense 7\n")
        self.run_bad("plan", "train", "--model", "layers.txt", names=("--shape",))


if __name__ == "__main__":
    unittest.main()
