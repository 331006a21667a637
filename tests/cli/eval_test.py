"""laconic hash eval on a small model, against the definitions worked out here."""

import json
import os
import resource
import unittest
import xml.etree.ElementTree

from models import Hash, Model, distances
from support import read_ivecs, write_npy, write_vecs


def variance(rows):
    means = [sum(column) / len(rows) for column in zip(*rows)]
    return sum((v - m) ** 2 for row in rows for v, m in zip(row, means)) / len(rows)


def true_neighbors(base, x, k):
    return sorted(range(len(base)), key=lambda i: (sum((a - b) ** 2 for a, b in zip(base[i], x)), i))[:k]


def precision_at(near, truth, k):
    """Of the first k by distance, ties in every order alike, the part among the k true ones."""
    edge = sorted(near)[k - 1]
    below = [i for i, d in enumerate(near) if d < edge]
    tied = [i for i, d in enumerate(near) if d == edge]
    true = set(truth[:k])
    share = (k - len(below)) / len(tied)
    return (len(true & set(below)) + share * len(true & set(tied))) / k


def recall_at(near, nearest, size):
    below = sum(d < near[nearest] for d in near)
    tied = sum(d == near[nearest] for d in near)
    return min(1, max(0, (size - below) / tied))


class Eval(Hash):
    KS, RS = (1, 5, 50, 1000), (1, 10, 119, 120, 200)

    def evaluate(self, *more, models=("m.safetensors",)):
        return self.run_json("hash", "eval", *models, "--base", "base.bvecs", "--query", "query.npy", "-k",
                             ",".join(map(str, self.KS)), "--recall", ",".join(map(str, self.RS)), *more)

    def check(self, line, model):
        self.assertEqual(list(line), ["model", "bits", "base", "queries", "precision", "recall", "e_ba"])
        self.assertEqual((line["bits"], line["base"], line["queries"]), (model.bits, 120, 15))
        self.assertEqual(list(line["precision"]), [str(k) for k in self.KS])
        self.assertEqual(list(line["recall"]), [str(size) for size in self.RS])
        near = [distances(model, self.base, x) for x in self.query]
        truth = [true_neighbors(self.base, x, 120) for x in self.query]
        for k in self.KS:
            value = line["precision"][str(k)]
            if k > 120:
                self.assertIsNone(value)
            else:
                self.assertAlmostEqual(value, sum(precision_at(d, t, k) for d, t in zip(near, truth)) / 15, 9)
        for size in self.RS:
            value = line["recall"][str(size)]
            if size > 120:
                self.assertIsNone(value)
            else:
                self.assertAlmostEqual(value, sum(recall_at(d, t[0], size) for d, t in zip(near, truth)) / 15, 9)
        spread = variance(self.base)
        self.assertEqual(list(line["e_ba"]), ["base", "query"])
        self.assertAlmostEqual(line["e_ba"]["base"] / (model.error(self.base) / spread), 1, 5)
        self.assertAlmostEqual(line["e_ba"]["query"] / (model.error(self.query) / spread), 1, 5)

    def test_measures(self):
        other = Model(9, bits=16)
        other.write("other.safetensors")
        lines = self.evaluate(models=("m.safetensors", "other.safetensors"))
        self.assertEqual([line["model"] for line in lines], ["m.safetensors", "other.safetensors"])
        self.check(lines[0], self.model)
        self.check(lines[1], other)

    def test_given_truth_is_used(self):
        lines = self.evaluate("--save-truth", "truth.ivecs")
        self.assertEqual(read_ivecs("truth.ivecs"), [true_neighbors(self.base, x, 50) for x in self.query])
        self.assertEqual(self.evaluate("--truth", "truth.ivecs"), lines)
        truth = [true_neighbors(self.base, x, 120)[::-1] for x in self.query]
        write_npy("false.npy", truth, "i")
        self.assertNotEqual(self.evaluate("--truth", "false.npy")[0]["recall"], lines[0]["recall"])
        write_vecs("short.ivecs", [true_neighbors(self.base, x, 5) for x in self.query], "i")
        done = self.run_program("hash", "eval", "m.safetensors", "--base", "base.bvecs", "--query", "query.npy", "-k",
                                "5,50", "--truth", "short.ivecs", "--json")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\Alaconic: warning: short.ivecs: [^\n]+ 50\n\Z")
        line = json.loads(done.stdout)
        self.assertAlmostEqual(line["precision"]["5"], lines[0]["precision"]["5"], 12)
        self.assertIsNone(line["precision"]["50"])

    def test_table_for_people(self):
        text = self.run_ok("hash", "eval", "m.safetensors", "--base", "base.bvecs", "--query", "query.npy", "-k", "5,500",
                           "--recall", "1")
        heads, values = text.splitlines()[1].split(), text.splitlines()[2].split()
        self.assertEqual(heads, ["model", "bits", "p@5", "p@500", "r@1", "E", "base", "E", "query"])
        line = self.evaluate()[0]
        self.assertEqual(values[:2] + [values[3]], ["m.safetensors", "10", "-"])
        self.assertAlmostEqual(float(values[2]), 100 * line["precision"]["5"], delta=0.006)
        self.assertAlmostEqual(float(values[5]), line["e_ba"]["base"], delta=6e-5)

    def test_rows_can_be_limited(self):
        line, = self.evaluate("--base-rows", 100, "--query-rows", "7")
        self.assertEqual((line["base"], line["queries"]), (100, 7))
        self.assertIsNone(line["recall"]["119"])

    def test_plot(self):
        os.rename("m.safetensors", "m_{x}^2 \"caf\u00e9\".safetensors")
        Model(9).write("b.safetensors")
        self.evaluate("--plot", "e.svg", models=("m_{x}^2 \"caf\u00e9\".safetensors", "b.safetensors"))
        with open("e.svg", "rb") as file:
            picture = file.read()
        self.assertTrue(picture.isascii())
        texts = "".join(xml.etree.ElementTree.fromstring(picture).itertext())
        for word in ("Precision", "Recall", "m_{x}^2 ?caf???.safetensors", "b.safetensors"):
            self.assertIn(word, texts)
        self.evaluate("--plot", "e.PNG", models=("b.safetensors",))
        with open("e.PNG", "rb") as file:
            content = file.read()
        self.assertEqual(content[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(content[-8:-4], b"IEND")

    def test_full_disk(self):
        evaluate = ("hash", "eval", "m.safetensors", "--base", "base.bvecs", "--query", "query.npy", "-k", "5")
        self.run_short(*evaluate, "--save-truth", "t.ivecs", names=["t.ivecs"])
        done = self.run_program(*evaluate, "--plot", "e.svg", "--json", restore_signals=False, preexec_fn=lambda:
                                resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Alaconic: e\.svg: [^\n]+\n\Z")
        self.assertNotIn("./e.svg", self.files())

    def test_bad_input(self):
        evaluate = ("hash", "eval", "m.safetensors", "--query", "query.npy")
        self.run_bad(*evaluate, names=["--base"])
        evaluate += ("--base", "base.bvecs")
        self.run_bad(*evaluate, "--plot", "e.gif", names=["--plot", "e.gif", ".svg"])
        self.run_bad(*evaluate, "--plot", "none/e.svg", names=["none"])
        self.run_bad(*evaluate, "--plot", "e.svg", names=["gnuplot-nox"], env={**os.environ, "PATH": "/nowhere"})
        self.run_bad(*evaluate, "-k", "5,", names=["--k", "5,"])
        self.run_bad(*evaluate, "-k", "0", names=["--k", "'0'"])
        self.run_bad(*evaluate, "--recall", "a", names=["--recall", "'a'"])
        self.run_bad(*evaluate, "--recall", ",".join(["1"] * 33), names=["--recall", "32"])
        self.run_bad(*evaluate, "--truth", "t.ivecs", names=["t.ivecs"])
        self.run_bad(*evaluate, "--truth", "t.ivecs", "--save-truth", "t.ivecs", names=["--truth", "--save-truth"])
        self.run_bad(*evaluate, "--save-truth", "t.fvecs", names=["t.fvecs"])
        self.run_bad("hash", "eval", "m.safetensors", "none.safetensors", *evaluate[3:], names=["none.safetensors"])
        write_vecs("t.ivecs", [[0]] * 14, "i")
        self.run_bad(*evaluate, "--truth", "t.ivecs", names=["t.ivecs", "14", "15"])
        write_vecs("t.ivecs", [[0]] * 14 + [[120]], "i")
        for more in ((), ("-q",), ("--json",)):
            self.run_bad(*evaluate, "-k", "1", "--truth", "t.ivecs", *more,
                         names=["t.ivecs: row 14, column 0: found 120", "base.bvecs", "0 to 119"])
        write_vecs("t.ivecs", [[3, 5], [2, -1]] + [[0, 1]] * 13, "i")
        self.run_bad(*evaluate, "-k", "1", "--truth", "t.ivecs", names=["t.ivecs: row 1, column 1: found -1"])
        write_vecs("t.ivecs", [[0, 50]] + [[1, 2]] * 14, "i")
        self.run_bad(*evaluate, "-k", "1", "--truth", "t.ivecs", "--base-rows", 50, names=["t.ivecs: row 0, column 1"])
        write_npy("t.npy", [[0.5]] * 15, "f")
        self.run_bad(*evaluate, "--truth", "t.npy", names=["t.npy"])
        write_npy("query.npy", [[1.0] * 5], "f")
        self.run_bad(*evaluate, names=["query.npy", "5", "6"])


if __name__ == "__main__":
    unittest.main()
