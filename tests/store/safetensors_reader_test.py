"""Safetensors files between the library and an independent reader and writer, both ways."""

import subprocess
import sys
import unittest

import numpy

import read_safetensors

PROGRAM = sys.argv.pop(1)


def run(*arguments):
    subprocess.run([PROGRAM, *arguments], check=True, timeout=60)


class Safetensors(unittest.TestCase):
    def same(self, found, expected):
        self.assertEqual(set(found), set(expected))
        for name, array in expected.items():
            self.assertEqual(found[name].dtype, array.dtype, name)
            self.assertEqual(found[name].shape, array.shape, name)
            self.assertEqual(found[name].tobytes(), array.tobytes(), name)

    def test_the_reader_gets_what_the_library_wrote(self):
        run("write", "known.safetensors")
        arrays, metadata = read_safetensors.read("known.safetensors")
        count = numpy.arange(15)
        self.same(arrays, {
            "bytes": (17 * count % 256).astype("u1").reshape(3, 5),
            "shorts": (20000 - 10000 * numpy.arange(5)).astype("<i2"),
            "singles": (count / 8 - 1).astype("<f4").reshape(3, 5),
            "halves": numpy.array([1, -2, 1 / 3], "<f2").reshape(1, 3, 1),
            'é"\\\n': 1 / (numpy.arange(3) + 3.0),
            "longs": numpy.arange(3) + numpy.iinfo("i8").min,
            "scalar": numpy.array(-1, "<f4"),
            "empty": numpy.zeros((0, 4), "<f4"),
        })
        self.assertEqual(metadata, {"plain": "text", "€": 'two\nlines "quoted"', "": ""})

    def test_the_library_gets_what_the_writer_wrote(self):
        random = numpy.random.default_rng(1)
        for trial in range(12):
            arrays = {}
            for i in range(random.integers(0, 6)):
                kind = random.choice(list(read_safetensors.TYPES.values()))
                shape = tuple(random.integers(0, 5, random.integers(0, 5)))
                array = random.integers(0, 2 if kind == "?" else 256, (*shape, numpy.dtype(kind).itemsize), "u1")
                arrays[f"t{i}π"] = array.view(kind).reshape(shape)
            metadata = {f"k{i}": "v" * int(random.integers(0, 50)) for i in range(trial % 4)}
            read_safetensors.write("in.safetensors", arrays, metadata if trial % 3 else None, trial % 8)
            run("copy", "in.safetensors", "out.safetensors")
            found, texts = read_safetensors.read("out.safetensors")
            self.same(found, arrays)
            self.assertEqual(texts, metadata if trial % 3 else {})
            run("copy", "out.safetensors", "again.safetensors")
            with open("out.safetensors", "rb") as one, open("again.safetensors", "rb") as two:
                self.assertEqual(one.read(), two.read())


if __name__ == "__main__":
    unittest.main()
