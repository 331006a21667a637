"""laconic hash train: every option of its help, and what it says of bad input."""

import json
import os
import re
import unittest

from models import TRAIN, TRAIN_COLUMNS, Train
from support import MPIEXEC, write_npy, write_vecs


class Options(Train):
    VALUES = {"output": "o.safetensors", "workers": "2", "shares": "1,1", "base-rows": "300", "format": "bvecs",
              "plot": "p.svg", "timeout": "60", "method": "itq", "encoder": "rbf", "init": "pca", "width": "20",
              "bits": "9", "subsample": "2", "validation": "7", "sample": "50", "batch": "3",
              "mu-factor": "1.7"}

    def test_factor_that_is_none(self):
        for value in ("1", "0.5"):
            self.run_bad(*TRAIN, "-o", "o.safetensors", "--mu-factor", value,
                         names=["--mu-factor: found " + value + ", expected more than 1, or 0"])

    def test_every_option_of_the_help(self):
        text = self.run_ok("hash", "train", "--help")
        options = re.findall(r"^  (?:-(\w), |    )--([a-z-]+)(?: ([A-Z]+))?(?:  |$)(.*(?:\n {26}.*)*)", text, re.M)
        self.assertGreater(len(options), 25)
        for letter, key, placeholder, about in options:
            if key in ("help", "dry-run", "calibration"):  # the last: under a simulator only, see cli/smpi
                continue
            default = re.search(r"default ([^)\s]+)\)", " ".join(about.split()))
            value = self.VALUES.get(key) or (default and default.group(1))
            argument = [f"--{key}"]
            if placeholder:
                self.assertIsNotNone(value, key)
                argument = [f"--{key}={value}"]
            done = self.run_program(*TRAIN[:5], "--workers", "2", "--dry-run", "--json", *argument)
            self.assertEqual(done.returncode, 0, done.stderr)
            plan = json.loads(done.stdout)
            if placeholder and key in plan["options"]:
                kept = plan["options"][key]
                self.assertTrue(kept == value or float(kept) == float(value), (key, kept))
            if not placeholder and key in plan["options"]:
                self.assertIs(plan["options"][key], True)
            if letter and placeholder:
                done = self.run_program(*TRAIN[:5], "--workers", "2", "--dry-run", f"-{letter}{value}")
                self.assertEqual(done.returncode, 0, done.stderr)


class BadInput(Train):
    def setUp(self):
        super().setUp()
        with open("m.safetensors", "w") as file:
            file.write("what was there before")

    def bad(self, *more, names=(), base="base.bvecs", **rest):
        return self.run_bad("hash", "train", base, "-o", "m.safetensors", "--workers", "2", "--bits", "8", *more,
                            names=names, **rest)

    def test_options(self):
        for more, names in (
                (("--bits", "0"), ("--bits", "0", "1024")), (("--bits", "eight"), ("--bits", "eight")),
                (("--bits=8.5",), ("--bits", "8.5")), (("--bist", "8"), ("--bist", "--bits")),
                (("--method", "iqt"), ("--method", "iqt", "itq")), (("--encoder", "linaer"), ("linaer", "linear")),
                (("--workers", "0"), ("--workers", "0")), (("--workers", "-1"), ("--workers", "-1")),
                (("--workers", "401"), ("--workers", "401", "400", "base.bvecs")),
                (("--workers", "11", "--base-rows", "10"), ("--workers", "11", "10")),
                (("--workers", "4096"), ("--workers", "4096", "400")), (("--workers", "4097"), ("--workers", "4096")),
                (("--workers", "401", "--serial"), ("--workers", "401", "400")), (("--epochs", "0"), ("--epochs",)),
                (("--mu", "nan"), ("--mu", "nan")), (("--mu", "0"), ("--mu",)),
                (("--shares", "1"), ("--shares", "'1'", "2")), (("--shares", "1,2,3"), ("--shares", "1,2,3")),
                (("--shares", "1,0"), ("--shares", "1,0")), (("--shares", "1,x"), ("--shares", "1,x")),
                (("--shares", "1,inf"), ("--shares",)), (("--shares", "mesured"), ("--shares", "mesured")),
                (("--shares", "measured", "--serial"), ("--shares", "measured", "--serial")),
                (("--local-epochs=2",), ("--local-epochs", "2")), (("--no-bits",), ("--no-bits",)),
                (("--plot", "p.pdf"), ("--plot", "p.pdf")), (("--seed",), ("--seed", "value")),
                (("--format", "bvces"), ("bvces", "bvecs")), (("--timeout", "0"), ("--timeout",)),
                (("--calibration", "c.json"), ("--calibration", "SMPI")), (("extra",), ("extra",))):
            self.bad(*more, names=names)
        self.run_bad("hash", "train", "base.bvecs", names=["-o"])
        self.run_bad("hash", "train", "-o", "m.safetensors", names=["operand"])
        self.bad("--plot", "p.svg", names=["gnuplot-nox"], env={**os.environ, "PATH": "/nowhere"})

    def test_data(self):
        self.bad(base="none.bvecs", names=["none.bvecs"])
        with open("base.bvecs", "rb") as file:
            content = file.read()
        with open("cut.bvecs", "wb") as file:
            file.write(content[:-1])
        self.bad(base="cut.bvecs", names=["cut.bvecs"])
        open("empty.npy", "w").close()
        self.bad(base="empty.npy", names=["empty.npy"])
        with open("magic.npy", "wb") as file:
            file.write(b"\x93NUMPZ" + content)
        self.bad(base="magic.npy", names=["magic.npy"])
        write_vecs("equal.bvecs", [[7] * TRAIN_COLUMNS] * 50, "B")
        self.bad(base="equal.bvecs", names=["equal"])
        for value in (float("nan"), float("inf")):
            rows = [[float(v) for v in row] for row in self.rows]
            rows[321][4] = value
            write_npy("bad.npy", rows)
            self.bad(base="bad.npy", names=["bad.npy", "row 321", "column 4"])
            self.bad("--method", "lsh", base="bad.npy", names=["bad.npy", "row 321", "column 4"])
        write_vecs("one.bvecs", self.rows[:1], "B")
        self.bad(base="one.bvecs", names=["2", "1"])

    def test_numbers_at_the_ends_of_float32(self):
        """What float32 can hold is learnt from, whatever its size; what it cannot is refused, or warned of."""
        rows = [[v - 128.0 for v in row] for row in self.rows]
        error = []
        for scale in (1, 1e-35, 1e30, 2e36):
            write_npy("scaled.npy", [[scale * v for v in row] for row in rows])
            report = self.run_json("hash", "train", "scaled.npy", "--bits", "8", "--workers", "2", "-o", "s.safetensors")
            error.append(report[-1]["e_ba"])
        self.assertLess(max(error) - min(error), 0.02)
        write_npy("bad.npy", [[1e-44 * v for v in row] for row in rows])
        for method in ("ba", "itq", "pca", "lsh"):
            self.bad("--method", method, base="bad.npy", names=["bad.npy: values range from", "narrow to scale"])
        write_npy("bad.npy", [[1e37 * v for v in row] for row in rows], code="d")
        self.bad(base="bad.npy", names=["bad.npy: row ", "in float32, expected a finite number, at most 3.4e38"])
        for offset, warned in ((0, False), (1e3, False), (1e5, False), (1e8, True), (-1e9, True)):
            write_npy("far.npy", [[offset + v for v in row] for row in rows])
            done = self.run_program("hash", "train", "far.npy", "--bits", "8", "--workers", "2", "-o", "f.safetensors")
            self.assertEqual(done.returncode, 0)
            lines = [line for line in done.stderr.splitlines() if "standard deviation" in line]
            self.assertEqual(len(lines), warned, offset)
            if warned:
                self.assertRegex(lines[0], r"\Alaconic: warning: far\.npy: values up to 1e\+0\d with [^\n]* subtract")

    def test_more_bits_than_columns(self):
        for more in ((), ("--method", "itq"), ("--method", "pca"), ("--init", "pca")):
            self.bad("--bits", str(TRAIN_COLUMNS + 1), *more, names=["bits", "13", "12"])
        self.run_ok(*TRAIN, "-q", "--bits", TRAIN_COLUMNS + 1, "--method", "lsh", "-o", "wide.safetensors")

    def test_widths_that_show_nothing(self):
        """All features 1, or 0 but at the centres."""
        for width in 1e6, 1e-3:
            self.bad("--encoder", "rbf", "--centres", 50, "--width", width, names=["--width", "nearly"])

    def test_files_of_the_workers(self):
        write_vecs("part-0.bvecs", self.rows[:200], "B")
        self.bad(base="part-%r.bvecs", names=["part-1.bvecs"])
        write_vecs("part-1.bvecs", [row[:11] for row in self.rows[200:]], "B")
        self.bad(base="part-%r.bvecs", names=["11", "12", "part-"])
        write_vecs("part-1.bvecs", self.rows[200:], "B")
        self.bad("--shares", "1,1", base="part-%r.bvecs", names=["--shares", "part-%r.bvecs"])
        write_vecs("part-2.bvecs", self.rows[200:], "B")
        done = self.run_program("hash", "train", "part-%r.bvecs", *TRAIN[3:], "-o", "m.safetensors", "--workers", "2")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\Alaconic: warning: part-%r.bvecs: found 3 files[^\n]*\n\Z")

    @unittest.skipUnless(MPIEXEC, "built without MPI")
    def test_ranks(self):
        before = self.files()
        for more, name in ((("base.bvecs", "--workers", "3"), "3"), (("base.bvecs", "--serial"), "--serial"),
                           (("part-%r.bvecs",), "part-1.bvecs"), (("none.bvecs",), "none.bvecs"),
                           (("base.bvecs", "--bits", "13"), "13")):
            write_vecs("part-0.bvecs", self.rows, "B")
            before["./part-0.bvecs"] = self.files()["./part-0.bvecs"]
            done = self.run_ranks(2, "hash", "train", "-o", "m.safetensors", *more)
            self.assertEqual((done.returncode, done.stdout), (2, ""), more)
            self.assertRegex(done.stderr, r"\Alaconic: [^\n]+\n\Z", more)
            self.assertIn(name, done.stderr)
            self.assertEqual(self.files(), before)

    def test_outputs(self):
        for path in ("none/m.safetensors", ".", "base.bvecs/m.safetensors", ""):
            self.run_bad(*TRAIN, "-o", path, names=["output" if not path else path])
        self.bad("--plot", "none/p.svg", names=["none/p.svg"])
        os.symlink("/dev/full", "full.safetensors")
        self.run_bad(*TRAIN, "--workers", "2", "-o", "full.safetensors", names=["full.safetensors"], status=1)
        self.run_short(*TRAIN, "--workers", "2", "-o", "m.safetensors", names=["m.safetensors"])
        self.run_full(*TRAIN, "--workers", "2", "-o", "good.safetensors")
        self.run_ok("info", "good.safetensors")  # the model itself was not lost


if __name__ == "__main__":
    unittest.main()
