"""FAISS reads the files that are written without it: the same bytes as its own, the same codes, distances and ids."""

import os
import subprocess
import sys
import unittest

import faiss
import numpy

sys.path.insert(0, os.path.join(os.environ["LACONIC_SOURCE"], "tests", "store"))
import read_safetensors  # noqa: E402

PROGRAM = sys.argv.pop(1)
BASE, NEIGHBOURS = 500, 30
SHAPES = [(64, 784), (16, 128), (8, 8), (12, 20), (33, 40), (256, 300), (1, 5), (40, 10)]


def content(path):
    with open(path, "rb") as file:
        return file.read()


class Faiss(unittest.TestCase):
    def each(self):
        """Makes the files of each shape in turn."""
        for bits, columns in SHAPES:
            with self.subTest(bits=bits, columns=columns):
                subprocess.run([PROGRAM, str(bits), str(columns)], check=True, timeout=60)
                model, _ = read_safetensors.read("model.safetensors")
                yield bits, columns, model["encoder.weight"], model["encoder.bias"]

    def neighbours_agree(self, distances, ids, k):
        """Equal distances; equal sets of ids nearer than the last, as FAISS may break ties in its own way."""
        own_distances, own_ids = numpy.load("distances.npy"), numpy.load("ids.npy")
        numpy.testing.assert_array_equal(distances, own_distances)
        for row in range(len(ids)):
            last = own_distances[row, k - 1]
            self.assertEqual(set(ids[row][distances[row] < last]), set(own_ids[row][own_distances[row] < last]))

    def test_encoder(self):
        for bits, columns, weight, bias in self.each():
            transform = faiss.LinearTransform(columns, bits, True)
            faiss.copy_array_to_vector(weight.ravel(), transform.A)
            faiss.copy_array_to_vector(bias, transform.b)
            transform.is_trained = True
            made = faiss.IndexPreTransform(transform, faiss.IndexLSH(bits, bits, False, False))
            made.is_trained = True
            self.assertEqual(content("encoder.faiss"), faiss.serialize_index(made).tobytes())

            index = faiss.read_index("encoder.faiss")
            self.assertTrue(index.is_trained)
            self.assertEqual((index.d, index.ntotal), (columns, 0))
            x, codes = numpy.load("x.npy"), numpy.load("codes.npy")
            y = x.astype("f8") @ weight.T.astype("f8") + bias
            scale = numpy.abs(x).astype("f8") @ numpy.abs(weight.T) + numpy.abs(bias)
            decided = numpy.abs(y) > 1e-5 * scale
            own = numpy.unpackbits(codes, axis=1, bitorder="little")[:, :bits]
            theirs = numpy.unpackbits(index.sa_encode(x), axis=1, bitorder="little")[:, :bits]
            self.assertGreater(decided.mean(), .999)
            numpy.testing.assert_array_equal(own[decided], theirs[decided])
            numpy.testing.assert_array_equal(own[decided], (y >= 0)[decided])
            if decided.all():
                index.add(x[:BASE])
                distances, ids = index.search(x[BASE:], NEIGHBOURS)
                self.neighbours_agree(distances.astype("i4"), ids, NEIGHBOURS)

    def test_binary_index(self):
        for bits, columns, _, _ in self.each():
            if bits % 8:
                continue
            codes = numpy.load("codes.npy")
            made = faiss.IndexBinaryFlat(bits)
            made.add(codes[:BASE])
            self.assertEqual(content("binary.faiss"), faiss.serialize_index_binary(made).tobytes())
            index = faiss.read_index_binary("binary.faiss")
            self.assertTrue(index.is_trained)
            self.assertEqual((index.d, index.ntotal), (bits, BASE))
            distances, ids = index.search(codes[BASE:], NEIGHBOURS)
            self.neighbours_agree(distances, ids, NEIGHBOURS)


if __name__ == "__main__":
    unittest.main()
