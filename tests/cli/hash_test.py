"""laconic hash encode, search and export on a small model, against the definitions worked out here."""

import json
import os
import signal
import struct
import subprocess
import unittest

import faiss
import numpy

from models import BITS, COLUMNS, Hash, Model, distances
from support import LACONIC, read_ivecs, read_npy, write_npy, write_safetensors, write_vecs


class Encode(Hash):
    def test_codes(self):
        expected = [self.model.packed(x) for x in self.base]
        self.assertGreater(len(set(map(tuple, expected))), 5)
        line, = self.run_json("hash", "encode", "m.safetensors", "base.bvecs", "-o", "codes.npy")
        self.assertEqual(set(line), {"event", "output", "rows", "bits", "seconds"})
        self.assertEqual((line["event"], line["output"], line["rows"], line["bits"]), ("done", "codes.npy", 120, BITS))
        self.assertEqual(read_npy("codes.npy"), expected)
        self.assertEqual(numpy.load("codes.npy").dtype, numpy.uint8)
        self.assertIn("120 codes of 10 bits", self.run_ok("hash", "encode", "m.safetensors", "base.bvecs", "-ocodes.npy"))
        self.assertEqual(self.run_ok("hash", "encode", "m.safetensors", "base.bvecs", "-q", "-o", "codes.npy"), "")
        self.run_ok("hash", "encode", "-o", "codes.bvecs", "--threads=2", "--", "m.safetensors", "base.bvecs")
        with open("codes.bvecs", "rb") as file:
            self.assertEqual(file.read(), b"".join(struct.pack("<i2B", 2, *code) for code in expected))

    def test_bad_input(self):
        encode = ("hash", "encode", "m.safetensors", "base.bvecs")
        self.run_bad(*encode, names=["-o"])
        self.run_bad(*encode[:3], "-o", "codes.npy", names=["operand", "usage"])
        for name in ("codes.txt", "codes.fvecs", "codes.ivecs", "codes", "codes.npy.gz", "./codes.d/../codes"):
            os.makedirs("codes.d", exist_ok=True)
            self.run_bad(*encode, "-o", name, names=[f"{name}: found extension", ".npy or .bvecs"])
        self.run_bad(*encode, "-o", "", names=["empty name"])
        self.run_bad(*encode, "-o", "codes.d", names=["codes.d", "folder"])
        self.run_bad(*encode, "-o", "none/codes.npy", names=["none"])
        self.run_bad(*encode, "-o", "codes.npy", "--threads", "2000", names=["--threads", "2000", "1024"])
        self.run_bad("hash", "encode", "base.bvecs", "base.bvecs", "-o", "codes.npy", names=["base.bvecs"])
        self.run_bad("hash", "encode", "m.safetensors", "none.bvecs", "-o", "codes.npy", names=["none.bvecs"])
        write_npy("wide.npy", [[1.0] * 7] * 3)
        self.run_bad("hash", "encode", "m.safetensors", "wide.npy", "-o", "codes.npy", names=["wide.npy", "7", "6"])
        with open("codes.npy", "w") as file:
            file.write("what was there before")
        rows = [[1.0] * 6 for _ in range(5)]
        rows[3][2] = float("nan")
        write_npy("nan.npy", rows)
        self.run_bad("hash", "encode", "m.safetensors", "nan.npy", "-o", "codes.npy", names=["nan.npy", "row 3"])
        with open("cut.safetensors", "wb") as file, open("m.safetensors", "rb") as whole:
            file.write(whole.read()[:-4])
        self.run_bad("hash", "encode", "cut.safetensors", "base.bvecs", "-o", "codes.npy", names=["cut.safetensors"])

    def test_full_disk(self):
        os.symlink("/dev/full", "full.npy")
        encode = ("hash", "encode", "m.safetensors", "base.bvecs", "-o")
        self.run_bad(*encode, "full.npy", status=1, names=["full.npy"])
        self.run_short(*encode, "codes.npy", names=["codes.npy"])
        self.run_ok(*encode, "codes.npy", "-q")
        self.run_short(*encode, "codes.npy", names=["codes.npy"])  # and what was there stays
        self.run_short("hash", "search", "m.safetensors", "--base", "base.bvecs", "--query", "query.npy", "-k", "5", "-o",
                       "found.ivecs", names=["found.ivecs"])
        self.run_short("hash", "export", "m.safetensors", "--faiss", "m.faiss", names=["m.faiss"])


class Search(Hash):
    def search(self, *more):
        return self.run_json("hash", "search", "m.safetensors", "--query", "query.npy", "-k", 20, *more)

    def test_neighbors(self):
        line, = self.search("--base", "base.bvecs", "-o", "found.ivecs", "--distances", "far.npy")
        self.assertEqual(set(line), {"event", "output", "base", "queries", "k", "seconds"})
        self.assertEqual((line["base"], line["queries"], line["k"]), (120, 15, 20))
        found, far = read_ivecs("found.ivecs"), read_npy("far.npy")
        for x, ids, near in zip(self.query, found, far):
            d = distances(self.model, self.base, x)
            order = sorted(range(120), key=lambda i: (d[i], i))[:20]
            self.assertEqual(ids, order)
            self.assertEqual(near, [d[i] for i in order])
        self.run_ok("hash", "encode", "m.safetensors", "base.bvecs", "-q", "-o", "codes.npy")
        self.search("--base", "codes.npy", "-o", "again.npy")
        self.assertEqual(read_npy("again.npy"), found)
        self.search("--base", "codes.npy", "--base-kind", "codes", "-o", "again.ivecs")
        self.assertEqual(read_ivecs("again.ivecs"), found)
        numpy.save("fortran.npy", numpy.asfortranarray(numpy.load("codes.npy")))
        self.search("--base", "fortran.npy", "-o", "again.ivecs")
        self.assertEqual(read_ivecs("again.ivecs"), found)

    def test_vectors_or_codes(self):
        small = Model(4, bits=40, columns=5)  # 5 columns, 5 bytes of code
        small.write("small.safetensors")
        rows = [row[:5] for row in self.base]
        write_vecs("b.bvecs", rows, "B")
        write_vecs("q.bvecs", rows[:3], "B")
        search = ("hash", "search", "small.safetensors", "--query", "q.bvecs", "-k", "1", "-o", "f.ivecs")
        self.run_bad(*search, "--base", "b.bvecs", names=["b.bvecs", "--base-kind"])
        self.run_ok(*search, "-q", "--base", "b.bvecs", "--base-kind", "vectors")
        for i, ids in enumerate(read_ivecs("f.ivecs")):
            self.assertEqual(small.code(rows[ids[0]]), small.code(rows[i]))
        self.run_ok(*search, "-q", "--base", "b.bvecs", "--base-kind=codes")
        write_npy("floats.npy", [[1.0] * 5] * 3, "f")
        self.run_bad(*search, "--base", "floats.npy", "--base-kind", "codes", names=["floats.npy", "f32", "5 bytes"])
        self.run_bad(*search, "--base", "base.bvecs", names=["base.bvecs", "6 columns", "5 columns"])

    def test_bad_input(self):
        search = ("hash", "search", "m.safetensors", "--query", "query.npy", "-o", "found.ivecs")
        self.run_bad("hash", "search", "m.safetensors", "-o", "found.ivecs", "--base", "base.bvecs", names=["--query"])
        self.run_bad(*search, names=["--base"])
        self.run_bad(*search, "--base", "base.bvecs", "-k", "121", names=["-k", "121", "120"])
        self.run_bad(*search, "--base", "base.bvecs", "-k", "0", names=["--k", "0"])
        self.run_bad(*search, "--base", "base.bvecs", "--distances", "found.ivecs", names=["--distances"])
        self.run_bad(*search, "--base", "base.bvecs", "--base-kind", "code", names=["--base-kind", "codes"])
        write_npy("query.npy", [[1.0] * 5], "f")
        self.run_bad(*search, "--base", "base.bvecs", names=["query.npy", "5", "6"])
        write_npy("query.npy", self.query, "f")
        codes = [self.model.packed(x) for x in self.base]
        codes[7][1] |= 0x80  # beyond bit 9
        write_npy("codes.npy", codes, "B")
        self.run_bad(*search, "--base", "codes.npy", "-k", 5, names=["codes.npy", "row 7"])


class Pipes(Hash):
    """A pipe that nobody is at the other end of."""

    def test_inputs(self):
        """They are refused, not waited for."""
        os.mkfifo("pipe")
        Model(5, bits=16).write("w.safetensors")
        self.run_ok("hash", "encode", "m.safetensors", "base.bvecs", "-o", "c.npy", "-q")
        search = ("hash", "search", "m.safetensors", "-o", "f.npy", "-k", 3)
        measure = ("hash", "eval", "m.safetensors")
        for command in (("info", "pipe"), ("info", "--format", "npy", "pipe"),
                        ("hash", "encode", "pipe", "base.bvecs", "-o", "o.npy"),
                        ("hash", "encode", "m.safetensors", "pipe", "-o", "o.npy"),
                        (*search, "--base", "pipe", "--query", "query.npy"),
                        (*search, "--base", "c.npy", "--query", "pipe"),
                        (*measure, "--base", "pipe", "--query", "query.npy"),
                        (*measure, "--base", "base.bvecs", "--query", "query.npy", "--truth", "pipe"),
                        ("hash", "export", "w.safetensors", "--codes", "pipe", "--faiss-binary", "o.faiss"),
                        ("hash", "train", "pipe", "-o", "o.safetensors")):
            self.run_bad(*command, names=["pipe"], timeout=20)

    def test_output(self):
        """It is waited for, until the program is told to stop."""
        os.mkfifo("pipe.npy")
        before = self.files()
        run = subprocess.Popen([LACONIC, "hash", "encode", "m.safetensors", "base.bvecs", "-o", "pipe.npy"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        self.addCleanup(run.kill)
        with self.assertRaises(subprocess.TimeoutExpired):
            run.wait(timeout=1)
        run.send_signal(signal.SIGTERM)
        output, errors = run.communicate(timeout=20)
        self.assertEqual((run.returncode, output), (130, ""))
        self.assertRegex(errors, r"\Alaconic: pipe\.npy: interrupted[^\n]*\n\Z")
        self.assertEqual(self.files(), before)

    def test_reader(self):
        self.run_ok("hash", "encode", "m.safetensors", "base.bvecs", "-o", "codes.npy", "-q")
        os.mkfifo("pipe.npy")
        with open("read", "wb") as file:
            reader = subprocess.Popen(["cat", "pipe.npy"], stdout=file)
        self.run_ok("hash", "encode", "m.safetensors", "base.bvecs", "-o", "pipe.npy", "-q")
        self.assertEqual(reader.wait(timeout=20), 0)
        with open("read", "rb") as got, open("codes.npy", "rb") as expected:
            self.assertEqual(got.read(), expected.read())


    def test_own_descriptors(self):
        """What they lead to is written on, at its place, and not replaced; a link that leads nowhere yet stays one."""
        train = ("hash", "train", "base.bvecs", "--bits", "4", "--iterations", "1", "-q", "-o")
        self.run_ok(*train, "t.safetensors")
        with open("t.safetensors", "rb") as file:
            model = file.read()
        for name, way in (("/dev/stdout", {"stdout": True}), ("/dev/fd/1", {"stdout": True}), ("/dev/stderr", {"stderr": True})):
            with open("kept", "wb") as kept:
                kept.write(b"precious")
                kept.flush()
                streams = {key: kept for key in way}
                done = subprocess.run([LACONIC, *train, name], stdin=subprocess.DEVNULL, **streams)
                self.assertEqual(done.returncode, 0, name)
                os.lseek(kept.fileno(), 0, os.SEEK_END)
                kept.write(b"after")
            with open("kept", "rb") as kept:
                self.assertEqual(kept.read(), b"precious" + model + b"after", name)
        os.symlink("later.safetensors", "link.safetensors")
        self.run_ok(*train, "link.safetensors")
        self.assertTrue(os.path.islink("link.safetensors"))
        with open("later.safetensors", "rb") as file:
            self.assertEqual(file.read(), model)

    def test_much_metadata(self):
        """40,000 pairs are read in a moment: it took seconds when each was looked up among all before it."""
        with open("m.safetensors", "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            header, rest = json.loads(file.read(length)), file.read()
        header["__metadata__"].update({f"k{i}": "" for i in range(40000)})
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open("large.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + rest)
        self.run_ok("hash", "encode", "large.safetensors", "base.bvecs", "-o", "codes.npy", "-q", timeout=2)


class Apart(Hash):
    """What is written is never what is read, whatever names lead to it, and never written twice."""

    def ways(self, path, end):
        """Names of a file, with an ending that a command takes."""
        os.makedirs("folder", exist_ok=True)
        os.symlink(os.path.abspath(path), "symbolic" + end)
        os.link(path, "hard" + end)
        os.symlink(".", "here")
        os.symlink("..", "folder/up")
        return [way for way in (path, "./" + path, os.path.abspath(path), "folder/../" + path, "here/" + path,
                                "folder/up/" + path, "symbolic" + end, "hard" + end) if way.endswith(end)]

    def refuse(self, path, end, *command, option="-o", role):
        """Every name of `path` as the output; `role` is how the command calls it."""
        for way in self.ways(path, end):
            line = self.run_bad(*command, option, way)
            self.assertIn(f"{option}: found '{way}', which is also {role}", line)
        for name in ("symbolic" + end, "hard" + end, "here", "folder/up"):
            os.remove(name)

    def test_outputs_that_are_inputs(self):
        codes = ("hash", "encode", "m.safetensors", "query.npy")
        self.run_ok(*codes, "-o", "codes.npy", "-q")
        self.refuse("query.npy", ".npy", *codes, role="BASE")
        os.link("m.safetensors", "m.npy")
        self.refuse("m.safetensors", ".npy", *codes, role="MODEL")
        search = ("hash", "search", "m.safetensors", "--base", "codes.npy", "--query", "query.npy", "-k", 3)
        self.refuse("codes.npy", ".npy", *search, role="--base")
        self.refuse("query.npy", ".npy", *search, "-o", "f.npy", option="--distances", role="--query")
        measure = ("hash", "eval", "m.safetensors", "--base", "base.bvecs", "--query", "query.npy")
        self.refuse("query.npy", ".npy", *measure, option="--save-truth", role="--query")
        self.refuse("base.bvecs", ".npy", *measure, option="--save-truth", role="--base")
        export = ("hash", "export", "m.safetensors")
        self.refuse("m.safetensors", "", *export, option="--faiss", role="MODEL")
        self.refuse("codes.npy", "", *export, "--codes", "codes.npy", option="--faiss-binary", role="--codes")
        self.refuse("base.bvecs", "", "hash", "train", "base.bvecs", "--bits", 4, role="BASE")
        os.link("base.bvecs", "part-0.bvecs")
        os.link("query.npy", "part-1.bvecs")
        self.refuse("query.npy", "", "hash", "train", "part-%r.bvecs", "--bits", 4, role="BASE")
        os.link("query.npy", "d.h5")
        self.run_bad("hash", "train", "d.h5:train", "-o", "./d.h5", names=["-o", "./d.h5", "BASE"])

    def test_one_output_twice(self):
        search = ("hash", "search", "m.safetensors", "--base", "base.bvecs", "--query", "query.npy", "-k", 3)
        os.symlink(".", "here")
        for there in (False, True):
            for way in ("f.npy", "./f.npy", "here/f.npy", os.path.abspath("f.npy")):
                self.run_bad(*search, "-o", "f.npy", "--distances", way, names=["--distances", way, "also -o"])
            with open("f.npy", "w", encoding="ascii") as file:
                file.write("something")

    def test_other_files_are_others(self):
        """Neither is a device one file, nor are two of a name in two folders."""
        os.mkdir("folder")
        self.run_ok("hash", "encode", "m.safetensors", "query.npy", "-o", "folder/query.npy", "-q")
        self.run_ok("hash", "search", "m.safetensors", "--base", "base.bvecs", "--query", "query.npy", "-k", 3, "-q",
                    "-o", "f.npy", "--distances", "folder/f.npy")
        os.symlink("/dev/null", "null.npy")
        self.run_ok("hash", "search", "m.safetensors", "--base", "base.bvecs", "--query", "query.npy", "-k", 3, "-q",
                    "-o", "null.npy", "--distances", "null.npy")


class Export(Hash):
    def test_faiss_reads_what_is_written(self):
        model = Model(5, bits=16)
        model.write("m16.safetensors")
        self.run_ok("hash", "encode", "m16.safetensors", "base.bvecs", "-q", "-o", "codes.npy")
        line, = self.run_json("hash", "export", "m16.safetensors", "--faiss", "out.faiss", "--codes", "codes.npy",
                              "--faiss-binary", "index.faiss")
        self.assertEqual(line, {"event": "done", "faiss": "out.faiss", "faiss_binary": "index.faiss", "bits": 16,
                                "rows": 120})
        faiss.omp_set_num_threads(1)
        index = faiss.read_index_binary("index.faiss")
        expected = numpy.array([model.packed(x) for x in self.base], "uint8")
        self.assertEqual((index.d, index.ntotal), (16, 120))
        found, ids = index.search(expected[:5], 3)
        self.assertTrue((found[:, 0] == 0).all())
        encoder = faiss.read_index("out.faiss")
        self.assertEqual((encoder.d, encoder.ntotal, encoder.is_trained), (COLUMNS, 0, True))
        encoder.add(numpy.array(self.base, "float32"))
        lsh = faiss.downcast_index(encoder.index)
        self.assertTrue((faiss.vector_to_array(lsh.codes).reshape(120, 2) == expected).all())
        self.assertIn("120 codes", self.run_ok("hash", "export", "m16.safetensors", "--codes", "codes.npy",
                                               "--faiss-binary", "index.faiss"))

    def test_bad_input(self):
        export = ("hash", "export", "m.safetensors")
        self.run_bad(*export, names=["--faiss"])
        self.run_bad(*export, "--codes", "c.npy", "--faiss", "a", names=["--codes", "--faiss-binary"])
        self.run_bad(*export, "--faiss-binary", "a", names=["--codes", "--faiss-binary"])
        write_npy("c.npy", [[1, 0]], "B")
        self.run_bad(*export, "--faiss", "a", "--codes", "c.npy", "--faiss-binary", "b", names=["10 bits", "multiple of 8"])
        Model(5, bits=16).write("m16.safetensors")
        self.run_bad("hash", "export", "m16.safetensors", "--codes", "base.bvecs", "--faiss-binary", "b",
                     names=["base.bvecs", "2 bytes"])
        self.run_bad(*export, "--faiss", "none/a", names=["none"])
        flat = [1.0] * 6
        write_safetensors("rbf.safetensors", {"laconic.kind": "hash", "laconic.version": "1", "laconic.method": "ba",
                                              "laconic.encoder": "rbf", "laconic.width": "1.0"},
                          {"encoder.centres": ([2, 3], flat), "encoder.weight": ([8, 2], [1.0] * 16),
                           "encoder.bias": ([8], [0.0] * 8), "decoder.weight": ([3, 8], [0.0] * 24),
                           "decoder.bias": ([3], [0.0] * 3)})
        self.run_bad("hash", "export", "rbf.safetensors", "--faiss", "a", names=["rbf.safetensors", "RBF"])
        write_npy("c.npy", [[1]] * 4, "B")
        self.run_ok("hash", "export", "rbf.safetensors", "-q", "--codes", "c.npy", "--faiss-binary", "b")
        self.assertEqual(faiss.read_index_binary("b").ntotal, 4)


if __name__ == "__main__":
    unittest.main()
