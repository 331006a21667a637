"""The program on published files: SIFT small with its own ground truth, MNIST, CIFAR-10. Files come from LACONIC_DATA."""

import gzip
import json
import lzma
import os
import struct
import subprocess
import sys
import unittest

import numpy as np

DATA = os.environ.get("LACONIC_DATA", "")


def laconic(*arguments):
    done = subprocess.run([os.environ["LACONIC"], *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def json_lines(*arguments):
    return [json.loads(line) for line in laconic(*arguments, "--json").splitlines()]


def vecs(path, kind):
    raw = np.fromfile(path, dtype=kind)
    columns = int(raw[:1].view("<i4")[0])
    return raw.reshape(-1, columns + 1)[:, 1:]


def parameters(path):
    """A safetensors file by the published format: {name: array}."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header, body = json.loads(file.read(length)), file.read()
    header.pop("__metadata__", None)
    return {name: np.frombuffer(body[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
            for name, entry in header.items()}


def expected_bits(model, x):
    """Bits of the linear encoder in double precision, and where rounding may decide."""
    tensors = parameters(model)
    weight, bias = tensors["encoder.weight"].astype(float), tensors["encoder.bias"].astype(float)
    y = x.astype(float) @ weight.T + bias
    scale = np.abs(x.astype(float)) @ np.abs(weight).T + np.abs(bias)
    return y >= 0, np.abs(y) > 1e-5 * scale


class Sift(unittest.TestCase):
    base, query, truth = (os.path.join(DATA, "sift", f"siftsmall_{name}") for name in
                          ("base.fvecs", "query.fvecs", "groundtruth.ivecs"))

    def test_exact_neighbours_are_the_published_ones(self):
        laconic("hash", "train", self.base, "-o", "sift.safetensors", "--bits", 32, "--workers", 2, "-q")
        own = json_lines("hash", "eval", "sift.safetensors", "--base", self.base, "--query", self.query)[-1]
        published = json_lines("hash", "eval", "sift.safetensors", "--base", self.base, "--query", self.query, "--truth",
                               self.truth)[-1]
        self.assertEqual((own["base"], own["queries"]), (10000, 100))
        for key in ("50", "100"):
            self.assertAlmostEqual(own["precision"][key], published["precision"][key], delta=1e-3)
        for key in own["recall"]:
            self.assertAlmostEqual(own["recall"][key], published["recall"][key], delta=1e-3)

    def test_precision_is_what_numpy_counts(self):
        laconic("hash", "train", self.base, "-o", "itq.safetensors", "--bits", 16, "--method", "itq", "-q")
        line = json_lines("hash", "eval", "itq.safetensors", "--base", self.base, "--query", self.query, "--truth",
                          self.truth)[-1]
        codes = []
        for path in (self.base, self.query):
            laconic("hash", "encode", "itq.safetensors", path, "-o", "codes.npy", "-q")
            codes.append(np.unpackbits(np.load("codes.npy"), axis=1, bitorder="little").astype(int))
            bits, sure = expected_bits("itq.safetensors", vecs(path, "<f4"))
            self.assertTrue(np.all((codes[-1] == bits) | ~sure))
        distance = (codes[1][:, None, :] != codes[0][None]).sum(axis=2)
        truth = vecs(self.truth, "<i4")
        k, total = 50, 0.0
        for row, true in zip(distance, truth[:, :k]):
            edge = np.sort(row)[k - 1]
            share = (k - (row < edge).sum()) / (row == edge).sum()  # ties averaged over their orders
            total += ((row[true] < edge).sum() + share * (row[true] == edge).sum()) / k
        self.assertAlmostEqual(line["precision"]["50"], total / len(truth), delta=1e-9)


class Images(unittest.TestCase):
    def test_mnist_is_read(self):
        for name, shape in (("train-images-idx3", [60000, 28, 28]), ("t10k-images-idx3", [10000, 28, 28]),
                            ("train-labels-idx1", [60000]), ("t10k-labels-idx1", [10000])):
            path = os.path.join(DATA, "mnist", name + "-ubyte.gz")
            line = json_lines("info", path)[-1]
            self.assertEqual((line["format"], line["type"], line["rows"], line["shape"]),
                             ("idx", "u8", shape[0], shape), path)

    def test_mnist_codes_are_what_numpy_computes(self):
        path = os.path.join(DATA, "mnist", "t10k-images-idx3-ubyte.gz")
        with gzip.open(path) as file:
            pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
        laconic("hash", "train", path, "-o", "mnist.safetensors", "--bits", 24, "--workers", 3, "-q")
        laconic("hash", "encode", "mnist.safetensors", path, "-o", "mnist.npy", "-q")
        found = np.unpackbits(np.load("mnist.npy"), axis=1, bitorder="little")
        bits, sure = expected_bits("mnist.safetensors", pixels)
        self.assertGreater(sure.mean(), 0.99)
        self.assertTrue(np.all((found == bits) | ~sure))

    def test_cifar_records_are_read(self):
        name = os.path.join(DATA, "cifar-10", "data_batch_1.bin")
        if os.path.exists(name):
            with open(name, "rb") as file:
                raw = file.read()
        else:
            with lzma.open(name + ".xz") as file:
                raw = file.read()
            name = "data_batch_1.bin"
            with open(name, "wb") as file:
                file.write(raw)
        line = json_lines("info", name)[-1]
        self.assertEqual((line["format"], line["rows"], line["columns"], line["type"]), ("cifar10", 10000, 3072, "u8"))
        pixels = np.frombuffer(raw, np.uint8).reshape(-1, 3073)[:, 1:]
        np.save("pixels.npy", pixels)
        laconic("hash", "train", name, "-o", "cifar.safetensors", "--bits", 16, "--method", "pca", "-q")
        laconic("hash", "encode", "cifar.safetensors", name, "-o", "a.npy", "-q")
        laconic("hash", "encode", "cifar.safetensors", "pixels.npy", "-o", "b.npy", "-q")
        np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))


if __name__ == "__main__":
    if not os.path.isdir(DATA):
        print(f"LACONIC_DATA: found '{DATA}', expected the folder with the published data sets", file=sys.stderr)
        sys.exit(2)
    unittest.main()
