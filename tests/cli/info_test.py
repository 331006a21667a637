"""laconic info: every kind of file, the JSON keys, and what it says of damaged files."""

import gzip
import math
import os
import re
import struct
import unittest

import faiss
import numpy

from support import ProgramTest, write_npy, write_safetensors, write_vecs


class Data(ProgramTest):
    def check(self, path, *more, **expected):
        """The one JSON line has exactly the documented keys and these values; the text for people has them, too."""
        lines = self.run_json("info", path, *more)
        self.assertEqual(len(lines), 1)
        line = lines[0]
        self.assertEqual(set(line), {"file", "format", "rows", "columns", "type", "shape", "low", "high", "not_finite",
                                     "fingerprint"})
        self.assertEqual(line["file"], path)
        self.assertRegex(line["fingerprint"], r"\A[0-9a-f]{16}\Z")
        self.assertEqual({key: line[key] for key in expected}, expected)
        text = self.run_ok("info", path, *more)
        for name in ("format", "rows", "columns", "type"):
            self.assertRegex(text, rf"(?m)^{name} +{line[name]}$")
        return line

    def test_vecs(self):
        write_vecs("a.fvecs", [[0.5, -1.25], [3, 4], [5, 6]], "f")
        self.check("a.fvecs", format="fvecs", rows=3, columns=2, type="f32", shape=[3, 2], low=-1.25, high=6, not_finite=None)
        write_vecs("a.bvecs", [[0, 255, 7]], "B")
        self.check("a.bvecs", format="bvecs", rows=1, columns=3, type="u8", low=0, high=255)
        write_vecs("a.ivecs", [[-5, 70000], [1, 2]], "i")
        self.check("a.ivecs", format="ivecs", rows=2, columns=2, type="i32", low=-5, high=70000)

    def test_npy_of_both_orders_has_one_fingerprint(self):
        rows = [[1.5, 2, 3], [4, 5, -6]]
        write_npy("c.npy", rows, "f")
        write_npy("f.npy", rows, "f", fortran=True)
        write_vecs("c.fvecs", rows, "f")
        prints = {self.check(path, rows=2, columns=3, type="f32", low=-6, high=5)["fingerprint"]
                  for path in ("c.npy", "f.npy", "c.fvecs")}
        self.assertEqual(len(prints), 1)
        rows[1][2] = -5
        write_npy("d.npy", rows, "f")
        self.assertNotIn(self.check("d.npy")["fingerprint"], prints)

    def test_idx_gzipped(self):
        with gzip.open("t-ubyte.gz", "wb") as file:
            file.write(struct.pack(">4B3i", 0, 0, 8, 3, 4, 2, 3) + bytes(range(24)))
        self.check("t-ubyte.gz", format="idx", rows=4, columns=6, type="u8", shape=[4, 2, 3], low=0, high=23)

    def test_values_that_are_not_finite(self):
        write_npy("n.npy", [[1, 2, 3], [4, math.nan, 6], [7, 8, math.inf]], "f")
        self.check("n.npy", low=1, high=8, not_finite={"row": 1, "column": 1})
        self.assertIn("no: row 1, column 1", self.run_ok("info", "n.npy"))

    def test_format_given(self):
        write_vecs("data", [[1, 2], [3, 4]], "f")
        self.run_bad("info", "data", names=["data", "format"])
        self.check("data", "--format", "fvecs", format="fvecs", rows=2, columns=2)
        self.check("data", "--format=ivecs", format="ivecs", type="i32")
        line = self.run_bad("info", "data", "--format", "fvec", names=["fvec", "bvecs"])
        self.assertIn("npy", line)

    def test_formats_of_the_help_are_all_there_are(self):
        write_npy("n.npy", [[1, 2]], "f")
        known = re.search(r"expected one of ([a-z0-9, ]+)$", self.run_bad("info", "n.npy", "--format", "x").strip())
        told = re.search(r"recognising it: ([a-z0-9, ]+) or (\w+)", " ".join(self.run_ok("info", "--help").split()))
        self.assertEqual(sorted(known.group(1).split(", ")), sorted(told.group(1).split(", ") + [told.group(2)]))

    def test_no_range_reads_no_values(self):
        write_npy("n.npy", [[1, 2]], "f")
        line, = self.run_json("info", "n.npy", "--no-range")
        self.assertEqual(set(line), {"file", "format", "rows", "columns", "type", "shape"})
        self.assertNotIn("range", self.run_ok("info", "n.npy", "--no-range"))

    def test_name_that_is_no_utf8(self):
        write_npy("plain.npy", [[1, 2]], "f")
        name = os.fsdecode(b"caf\xe9.npy")
        os.rename("plain.npy", name)
        line, = self.run_json("info", name)
        self.assertEqual(line["file"], "caf?.npy")


class Models(ProgramTest):
    def test_hash_model(self):
        write_safetensors("m.safetensors", {"laconic.kind": "hash", "options": '{"bits": 2}', "note": "from here"},
                          {"encoder.weight": ([2, 3], [0.0] * 6), "encoder.bias": ([2], [0.0] * 2),
                           "decoder.weight": ([3, 2], [0.0] * 6), "decoder.bias": ([3], [0.0] * 3)})
        line, = self.run_json("info", "m.safetensors")
        self.assertEqual({key: line[key] for key in ("format", "rows", "columns", "type", "bits")},
                         {"format": "safetensors", "rows": None, "columns": 3, "type": "F32", "bits": 2})
        self.assertEqual(line["metadata"], {"laconic.kind": "hash", "options": {"bits": 2}, "note": "from here"})
        self.assertIn({"name": "decoder.weight", "type": "F32", "shape": [3, 2]}, line["tensors"])
        text = self.run_ok("info", "m.safetensors")
        self.assertIn("a hash model", text)
        self.assertIn("encoder.weight, F32, 2 x 3", text)

    def test_texts_from_files_cannot_write_to_the_terminal(self):
        hostile = "\x1b[31mred\x07\r\nlaconic: all is well\x7f\t\b"
        write_safetensors("a.safetensors", {"note" + hostile: hostile}, {"name" + hostile: ([1], [1.0])})
        os.rename("a.safetensors", "a\n\x1b[2J.safetensors")
        plain = self.run_ok("info", "a\n\x1b[2J.safetensors")
        self.assertRegex(plain, r"\A[^\x00-\x09\x0b-\x1f\x7f]*\Z")
        self.assertEqual([line.split(" ")[0][:4] for line in plain.splitlines()],
                         ["file", "form", "tens", "note", ""])  # a value of several lines is indented
        self.assertIn("name?[31mred???laconic: all is well???, F32", plain)
        about = self.run_json("info", "a\n\x1b[2J.safetensors")[0]
        self.assertEqual(about["metadata"], {"note" + hostile: hostile})  # JSON escapes them

    def test_foreign_safetensors(self):
        write_safetensors("other.safetensors", {}, {"x": ([4], [1.0, 2, 3, 4])})
        line, = self.run_json("info", "other.safetensors")
        self.assertEqual((line["columns"], line["bits"]), (None, None))
        self.assertEqual(line["tensors"], [{"name": "x", "type": "F32", "shape": [4]}])

    def test_faiss_as_faiss_writes_it(self):
        faiss.omp_set_num_threads(1)
        data = numpy.random.RandomState(1).rand(10, 6).astype("float32")
        plain = faiss.IndexFlatL2(6)
        plain.add(data)
        faiss.write_index(plain, "flat.faiss")
        transform = faiss.LinearTransform(6, 16, True)
        faiss.copy_array_to_vector(numpy.ones(96, "float32"), transform.A)
        faiss.copy_array_to_vector(numpy.ones(16, "float32"), transform.b)
        transform.is_trained = True
        chain = faiss.IndexPreTransform(transform, faiss.IndexLSH(16, 16, False, False))
        chain.is_trained = True
        chain.add(data)
        faiss.write_index(chain, "chain.faiss")
        codes = faiss.IndexBinaryFlat(16)
        codes.add(numpy.zeros((5, 2), "uint8"))
        faiss.write_index_binary(codes, "binary.faiss")
        keys = ("format", "index", "rows", "columns", "type", "bits", "trained")
        for path, expected in (("flat.faiss", ("faiss", "IxF2", 10, 6, "f32", None, True)),
                               ("chain.faiss", ("faiss", "IxPT", 10, 6, "f32", 16, True)),
                               ("binary.faiss", ("faiss", "IBxF", 5, 16, "bit", 16, True))):
            line, = self.run_json("info", path)
            self.assertEqual(tuple(line[key] for key in keys), expected)
        self.assertIn("6 to 16 columns, then IndexLSH", self.run_ok("info", "chain.faiss"))
        with open("chain.faiss", "rb") as file:
            content = file.read()
        for size in (5, 20, 37, 60, 400, 500):
            with open("cut.faiss", "wb") as file:
                file.write(content[:size])
            done = self.run_program("info", "cut.faiss")
            self.assertEqual(done.returncode, 2, size)
            self.assertRegex(done.stderr, r"\Alaconic: cut\.faiss: [^\n]*offset[^\n]*\n\Z")


class Bad(ProgramTest):
    def write(self, path, content):
        with open(path, "wb") as file:
            file.write(content)

    def test_files(self):
        self.run_bad("info", "nowhere.npy", names=["nowhere.npy"])
        self.run_bad("info", ".", names=["."])
        self.write("empty.fvecs", b"")
        self.run_bad("info", "empty.fvecs", names=["empty.fvecs"])
        write_npy("good.npy", [[1, 2], [3, 4]], "f")
        with open("good.npy", "rb") as file:
            content = file.read()
        for size in (3, 9, 40, len(content) - 1):
            self.write("cut.npy", content[:size])
            self.run_bad("info", "cut.npy", names=["cut.npy"])
        self.write("long.npy", content + b"x")
        self.run_bad("info", "long.npy", names=["long.npy"])
        self.write("huge.bvecs", struct.pack("<i", 2**31 - 1) + bytes(16))
        self.run_bad("info", "huge.bvecs", names=["huge.bvecs"])
        self.write("what.xyz", b"hello")
        self.run_bad("info", "what.xyz", names=["what.xyz", "format"])

    def test_arguments(self):
        self.run_bad("info", names=["info", "usage"])
        self.run_bad("info", "a", "b", names=["'b'"])
        self.run_bad("info", "a", "--format", names=["--format", "value"])
        self.run_bad("info", "--fromat=npy", "a", names=["--fromat", "--format"])

    def test_full_disk(self):
        write_npy("a.npy", [[1, 2]], "f")
        for more in ([], ["--json"]):
            self.run_full("info", "a.npy", *more)


if __name__ == "__main__":
    unittest.main()
