"""Exported classifiers run by ONNX Runtime, a program that is not ours: the probabilities of `laconic predict` to 1e-4.

onnxruntime-node comes from npm, into a folder that is removed afterwards; none of its scripts is run. The first argument
is the program that writes classifiers through the library."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy

sys.path.insert(0, os.path.join(os.environ["LACONIC_SOURCE"], "tests", "cli"))
import networks  # noqa: E402

WRITER = sys.argv.pop(1)
LACONIC = os.environ["LACONIC"]
PACKAGE = "onnxruntime-node@1.30.0"
SCRIPT = """
const ort = require("onnxruntime-node"), fs = require("fs");
const floats = (bytes) => new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
(async () => {
  const [model, pixels, shape, out] = process.argv.slice(2);
  const session = await ort.InferenceSession.create(model);
  const input = new ort.Tensor("float32", floats(fs.readFileSync(pixels)), JSON.parse(shape));
  const { probabilities } = await session.run({ pixels: input });
  fs.writeFileSync(out, JSON.stringify({ dims: probabilities.dims, data: Array.from(probabilities.data) }));
})();
"""


class OnnxRuntime(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", cls.folder, PACKAGE]
        done = subprocess.run(install, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(install)}: {done.stderr}")
        with open(os.path.join(cls.folder, "run.js"), "w", encoding="utf-8") as file:
            file.write(SCRIPT)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_onnx(self, pixels):
        pixels.astype("<f4").tofile(self.path("x.f4"))
        subprocess.run(["node", self.path("run.js"), self.path("m.onnx"), self.path("x.f4"), json.dumps(pixels.shape),
                        self.path("out.json")], check=True, timeout=120)
        with open(self.path("out.json"), encoding="utf-8") as file:
            found = json.load(file)
        return numpy.array(found["data"]).reshape(found["dims"])

    def check_model(self, pixels):
        """m.safetensors in the folder, on these pictures, together and one alone."""
        model, onnx, images, out = (self.path(name) for name in ("m.safetensors", "m.onnx", "x.npy", "p.npy"))
        numpy.save(images, pixels)
        subprocess.run([LACONIC, "predict", model, images, "-o", out, "-q"], check=True)
        subprocess.run([LACONIC, "export", model, "--onnx", onnx, "-q"], check=True)
        expected = numpy.load(out)
        numpy.testing.assert_allclose(self.run_onnx(pixels), expected, atol=1e-4)
        numpy.testing.assert_allclose(self.run_onnx(pixels[:1]), expected[:1], atol=1e-4)

    def test_small_networks(self):
        for name, (text, shape, classes) in networks.SMALL.items():
            for kind in networks.KINDS:
                with self.subTest(network=name, prepare=kind):
                    networks.write_model(self.path("m.safetensors"), *networks.random_model(text, shape, classes, kind))
                    pixels = networks.random_pixels(7, shape)
                    self.check_model(pixels / numpy.float32(256) if kind == "none" else pixels)

    def test_builtin_networks(self):
        for network, kind, shape in (("lenet", "scale", (1, 28, 28)), ("allcnn", "zca", (3, 32, 32)),
                                     ("resnet20", "channels", (3, 32, 32)), ("wrn-16-2", "zca", (3, 16, 16)),
                                     ("mlp:784-500-10", "scale", (1, 28, 28))):
            with self.subTest(network=network):
                pixels = networks.random_pixels(20, shape)
                numpy.save(self.path("pictures.npy"), pixels)
                numpy.save(self.path("labels.npy"), numpy.arange(20, dtype="i4") % 10)
                data = self.path("pictures.npy") + "+" + self.path("labels.npy")
                subprocess.run([WRITER, network, "1", kind, data, self.path("m.safetensors")], check=True)
                self.check_model(pixels)


if __name__ == "__main__":
    unittest.main()
