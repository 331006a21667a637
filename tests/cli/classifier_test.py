"""laconic eval, predict and export on classifiers: against numpy, and an interpreter of ONNX files of our own. The first
argument is the program that writes classifiers through the library."""

import gzip
import os
import struct
import subprocess
import sys
import unittest

import numpy

import networks
from onnx_model import Model
from support import ProgramTest

WRITER = sys.argv.pop(1)


def pixels_for(shape, kind, count, seed=1):
    """Bytes, or numbers near 0 for a network that gets them as they are."""
    if kind == "none":
        return numpy.random.default_rng(seed).standard_normal((count, *shape)).astype("f4")
    return networks.random_pixels(count, shape, seed)


def trained(arrays):
    """How many numbers are parameters."""
    return sum(array.size for name, array in arrays.items()
               if not name.startswith("prepare.") and not name.endswith((".mean", ".variance")))


class Classifier(ProgramTest):
    def write(self, name="dense", kind="scale", path="m.safetensors", seed=0, **more):
        metadata, arrays = networks.random_model(*networks.SMALL[name], kind, seed, **more)
        networks.write_model(path, metadata, arrays)
        return metadata, arrays

    def write_labelled(self, shape, classes, count=23, kind="scale"):
        """pictures.npy and labels.npy; returns pixels and labels."""
        pixels = pixels_for(shape, kind, count)
        labels = numpy.random.default_rng(2).integers(0, classes, count).astype("i4")
        labels[:classes] = range(classes)
        numpy.save("pictures.npy", pixels)
        numpy.save("labels.npy", labels)
        return pixels, labels

    def each(self):
        """Every small network with every preparation: its name, metadata, arrays, pixels as in x.npy."""
        for name, (_, shape, _) in networks.SMALL.items():
            for kind in networks.KINDS:
                pixels = pixels_for(shape, kind, 13)
                numpy.save("x.npy", pixels)
                yield (f"{name} {kind}", *self.write(name, kind), pixels)


class Predict(Classifier):
    def test_probabilities_are_those_of_numpy(self):
        for number, (name, metadata, arrays, pixels) in enumerate(self.each()):
            expected = networks.probabilities(metadata, arrays, pixels)
            for batch in (5, (1, 128)[number % 2]):  # every network sees the three
                with self.subTest(model=name, batch=batch):
                    self.run_ok("predict", "m.safetensors", "x.npy", "-o", "p.npy", "-q", "--batch", batch)
                    found = numpy.load("p.npy")
                    self.assertEqual((found.dtype, found.shape), (numpy.float32, expected.shape))
                    numpy.testing.assert_allclose(found, expected, atol=2e-6)

    def test_models_of_the_library(self):
        """Built-in networks and fitted preparations, written by the library, read by numpy."""
        for network, width, kind, shape in (("lenet", 0.3, "scale", (1, 28, 28)), ("mlp:96-12-3", 1, "zca", (1, 8, 12)),
                                            ("allcnn", 0.1, "zca", (3, 12, 12)), ("wrn-16-1", 0.5, "none", (2, 12, 12)),
                                            ("resnet20", 0.25, "channels", (3, 16, 16))):
            with self.subTest(network=network):
                pixels, _ = self.write_labelled(shape, 3, kind=kind)
                subprocess.run([WRITER, network, str(width), kind, "pictures.npy+labels.npy", "m.safetensors"],
                               check=True, timeout=60)
                metadata, arrays = networks.read_model("m.safetensors")
                self.assertEqual(metadata["data"], "made up")
                shapes = networks.parts(metadata["laconic.layers"], shape, 3)
                self.assertEqual({name: array.shape for name, array in arrays.items()
                                  if not name.startswith("prepare.")}, shapes)
                if kind == "channels":  # of which the definition is short
                    numpy.testing.assert_allclose(arrays["prepare.mean"], pixels.mean(axis=(0, 2, 3)), rtol=1e-5)
                    numpy.testing.assert_allclose(arrays["prepare.scale"], 1 / pixels.std(axis=(0, 2, 3)), rtol=1e-5)
                expected = networks.probabilities(metadata, arrays, pixels)
                self.run_ok("predict", "m.safetensors", "pictures.npy", "-o", "p.npy", "-q")
                numpy.testing.assert_allclose(numpy.load("p.npy"), expected, atol=1e-5)
                self.run_ok("export", "m.safetensors", "--onnx", "m.onnx", "-q")
                model = Model("m.onnx")
                model.check()
                numpy.testing.assert_allclose(model.run(pixels), expected, atol=1e-5)

    def test_labels_and_output(self):
        _, arrays = self.write("residual")
        numpy.save("x.npy", networks.random_pixels(30, (2, 8, 7)))
        line, = self.run_json("predict", "m.safetensors", "x.npy", "-o", "p.npy", "--labels", "l.npy")
        self.assertEqual(set(line), {"event", "output", "labels", "images", "classes", "seconds"})
        self.assertEqual((line["event"], line["output"], line["labels"], line["images"], line["classes"]),
                         ("done", "p.npy", "l.npy", 30, 5))
        labels = numpy.load("l.npy")
        self.assertEqual(labels.dtype, numpy.int32)
        self.assertEqual(labels.ravel().tolist(), numpy.load("p.npy").argmax(axis=1).tolist())
        self.assertIn("5 classes for 30 pictures", self.run_ok("predict", "m.safetensors", "x.npy", "-op.npy"))
        self.run_ok("predict", "m.safetensors", "x.npy", "-o", "p.fvecs", "--labels", "l.ivecs", "-q",
                    "--backend", "reference", "--convolution", "auto")
        rows = numpy.fromfile("p.fvecs", "<f4").reshape(30, 6)[:, 1:]
        numpy.testing.assert_allclose(rows, numpy.load("p.npy"), atol=1e-6)
        self.assertEqual(numpy.fromfile("l.ivecs", "<i4").reshape(30, 2)[:, 1].tolist(), labels.ravel().tolist())

    def test_equal_ones_go_to_the_first(self):
        metadata, arrays = self.write()
        networks.write_model("m.safetensors", metadata, {
            name: array if name.startswith("prepare.") else 0 * array for name, array in arrays.items()})
        numpy.save("x.npy", networks.random_pixels(4, (1, 4, 5)))
        self.run_ok("predict", "m.safetensors", "x.npy", "-o", "p.npy", "--labels", "l.npy", "-q")
        numpy.testing.assert_allclose(numpy.load("p.npy"), 1 / 3, rtol=1e-6)
        self.assertEqual(numpy.load("l.npy").ravel().tolist(), [0, 0, 0, 0])

    def test_any_layout_and_format(self):
        metadata, arrays = self.write("allcnn", "channels")
        pixels = networks.random_pixels(6, (3, 9, 9))
        expected = networks.probabilities(metadata, arrays, pixels)
        for name, array in (("a.npy", pixels), ("b.npy", pixels.transpose(0, 2, 3, 1)), ("c.npy", pixels.reshape(6, -1)),
                            ("d.npy", pixels.astype("f8")), ("e.npy", pixels.astype("i2"))):
            numpy.save(name, array)
            self.run_ok("predict", "m.safetensors", name, "-o", "p.npy", "-q")
            numpy.testing.assert_allclose(numpy.load("p.npy"), expected, atol=2e-6)
        with gzip.open("f.gz", "wb") as file:
            file.write(struct.pack(">4B2i", 0, 0, 8, 2, 6, 243) + pixels.tobytes())
        self.run_ok("predict", "m.safetensors", "f.gz", "-o", "p.npy", "-q")
        numpy.testing.assert_allclose(numpy.load("p.npy"), expected, atol=2e-6)

    def test_bad_input(self):
        self.write()
        numpy.save("x.npy", networks.random_pixels(4, (1, 4, 5)))
        numpy.save("wide.npy", networks.random_pixels(4, (3, 4, 5)))
        predict = ("predict", "m.safetensors", "x.npy", "-o", "p.npy")
        self.run_bad("predict", "m.safetensors", "-o", "p.npy", names=["operand", "usage"])
        self.run_bad("predict", "m.safetensors", "x.npy", names=["-o"])
        self.run_bad(*predict[:4], "p.txt", names=["p.txt", ".npy"])
        self.run_bad(*predict[:4], "none/p.npy", names=["none"])
        self.run_bad(*predict, "--labels", "p.npy", names=["--labels", "p.npy"])
        self.run_bad(*predict, "--labels", "l.fvecs", names=["l.fvecs"])
        self.run_bad(*predict, "--batch", "0", names=["--batch", "0", "1"])
        self.run_bad(*predict, "--backend", "cuda", names=["--backend", "cuda", "reference"])
        self.run_bad(*predict, "--backend", "reference", "--precision", "bf16", names=["bf16"])
        self.run_bad("predict", "m.safetensors", "wide.npy", "-o", "p.npy",
                     names=["wide.npy", "1 x 4 x 5", "m.safetensors"])
        self.run_bad("predict", "m.safetensors", "none.npy", "-o", "p.npy", names=["none.npy"])
        self.run_bad("predict", "none.safetensors", "x.npy", "-o", "p.npy", names=["none.safetensors"])
        self.run_bad("predict", "x.npy", "x.npy", "-o", "p.npy", names=["x.npy"])
        pixels = pixels_for((1, 4, 5), "none", 6)
        pixels[3, 0, 2, 1] = numpy.nan
        numpy.save("nan.npy", pixels)
        self.run_bad("predict", "m.safetensors", "nan.npy", "-o", "p.npy", names=["nan.npy", "row 3"])

    def test_full_disk(self):
        self.write()
        numpy.save("x.npy", networks.random_pixels(40, (1, 4, 5)))
        os.symlink("/dev/full", "full.npy")
        predict = ("predict", "m.safetensors", "x.npy", "-q", "-o")
        self.run_bad(*predict, "full.npy", status=1, names=["full.npy"])
        self.run_short(*predict, "p.npy", names=["p.npy"])
        self.run_ok(*predict, "p.npy")
        self.run_short(*predict, "p.npy", names=["p.npy"])  # and what was there stays
        self.run_bad(*predict, "p.npy", "--labels", "full.npy", status=1, names=["full.npy"])


class Eval(Classifier):
    def expected(self, metadata, arrays, pixels, labels):
        """Error and loss."""
        found = networks.probabilities(metadata, arrays, pixels)
        own = found[numpy.arange(len(labels)), labels]
        return (found > own[:, None]).any(axis=1).mean(), -numpy.log(own).mean()

    def test_error_and_loss(self):
        shape, classes = networks.SMALL["residual"][1:]
        pixels, labels = self.write_labelled(shape, classes)
        one = self.write("residual", path="one.safetensors", seed=1)
        two = self.write("residual", "zca", path="two.safetensors", seed=2)
        for batch in ("1", "7", "1000"):
            lines = self.run_json("eval", "one.safetensors", "two.safetensors", "--data", "pictures.npy+labels.npy",
                                  "--batch", batch)
            self.assertEqual([line["model"] for line in lines], ["one.safetensors", "two.safetensors"])
            for line, model in zip(lines, (one, two)):
                self.assertEqual(set(line), {"model", "data", "part", "images", "classes", "error", "loss"})
                self.assertEqual((line["data"], line["images"], line["classes"]), ("pictures.npy+labels.npy", 23, 5))
                error, loss = self.expected(*model, pixels, labels)
                self.assertGreater(error, 0.2)
                self.assertAlmostEqual(line["error"], error, delta=1e-9)
                self.assertAlmostEqual(line["loss"], loss, delta=1e-5 * loss)
        text = self.run_ok("eval", "one.safetensors", "--data", "pictures.npy+labels.npy")
        error, loss = self.expected(*one, pixels, labels)
        self.assertRegex(text, rf"(?m)^one.safetensors +5 +{error:.4f} +{loss:.4g}$")
        self.assertIn("23 pictures of pictures.npy+labels.npy", text)

    def test_parts_of_a_named_set(self):
        metadata, arrays = self.write("lenet")
        sets = {}
        for seed, (part, prefix, count) in enumerate((("train", "train", 12), ("test", "t10k", 9))):
            pixels = networks.random_pixels(count, (20, 20), seed)
            labels = numpy.random.default_rng(seed).integers(0, 10, count, dtype=numpy.uint8)
            with open(f"{prefix}-images-idx3-ubyte", "wb") as file:
                file.write(struct.pack(">4B3i", 0, 0, 8, 3, count, 20, 20) + pixels.tobytes())
            with open(f"{prefix}-labels-idx1-ubyte", "wb") as file:
                file.write(struct.pack(">4Bi", 0, 0, 8, 1, count) + labels.tobytes())
            sets[part] = pixels[:, None], labels
        for part, more in (("test", ()), ("test", ("--part", "test")), ("train", ("--part=train",))):
            line, = self.run_json("eval", "m.safetensors", "--data", "mnist:.", *more)
            error, loss = self.expected(metadata, arrays, *sets[part])
            self.assertEqual((line["part"], line["images"]), (part, len(sets[part][1])))
            self.assertAlmostEqual(line["error"], error, delta=1e-9)
            self.assertAlmostEqual(line["loss"], loss, delta=1e-5 * loss)

    def test_a_loss_beyond_all_bounds_is_a_number(self):
        """Scores so far apart that a probability is 0."""
        metadata, arrays = self.write()
        arrays["03.dense.bias"] = numpy.array([0, 1000, 0], "f4")
        arrays["03.dense.weight"] = 0 * arrays["03.dense.weight"]
        networks.write_model("m.safetensors", metadata, arrays)
        self.write_labelled((1, 4, 5), 3, 8)
        labels = numpy.load("labels.npy")
        line, = self.run_json("eval", "m.safetensors", "--data", "pictures.npy+labels.npy")
        self.assertAlmostEqual(line["error"], (labels != 1).mean(), delta=1e-9)
        self.assertAlmostEqual(line["loss"], 1000 * (labels != 1).mean(), delta=1e-3)

    def test_bad_input(self):
        self.write()
        self.write("allcnn", path="other.safetensors")
        self.write_labelled((1, 4, 5), 3)
        data = ("--data", "pictures.npy+labels.npy")
        self.run_bad("eval", "m.safetensors", names=["--data"])
        self.run_bad("eval", *data, names=["operand", "usage"])
        self.run_bad("eval", "m.safetensors", "--data", "imagenet:.", names=["imagenet:."])
        self.run_bad("eval", "m.safetensors", "--data", "mnist:.", names=["t10k-images-idx3-ubyte"])
        self.run_bad("eval", "m.safetensors", *data, "--part", "all", names=["--part", "all", "train"])
        self.run_bad("eval", "m.safetensors", "none.safetensors", *data, names=["none.safetensors"])
        # the second model is looked at before the first is measured
        self.run_bad("eval", "m.safetensors", "other.safetensors", *data,
                     names=["pictures.npy+labels.npy", "1 x 4 x 5", "3 x 9 x 9", "other.safetensors"])
        self.write_labelled((1, 4, 5), 4)
        self.run_bad("eval", "m.safetensors", *data, names=["pictures.npy+labels.npy", "4 classes", "3", "m.safetensors"])

    def test_full_disk(self):
        self.write()
        self.write_labelled((1, 4, 5), 3)
        self.run_full("eval", "m.safetensors", "--data", "pictures.npy+labels.npy")
        self.run_full("eval", "m.safetensors", "--data", "pictures.npy+labels.npy", "--json")


class Export(Classifier):
    def check_arrays(self, model, arrays):
        """The file's arrays are the model's, bit for bit; those of the preparation in the shape that broadcasts."""
        for name, array in arrays.items():
            found = model.arrays[name]
            self.assertEqual(found.tobytes(), array.tobytes(), name)
            if not name.startswith("prepare."):
                self.assertEqual(found.shape, array.shape, name)
        more = set(model.arrays) - set(arrays)
        self.assertTrue(all(name.endswith(".shape") or name == "prepare.floor" for name in more), more)

    def test_graph_answers_what_the_model_does(self):
        for name, metadata, arrays, pixels in self.each():
            with self.subTest(model=name):
                self.check_export(metadata, arrays, pixels)

    def check_export(self, metadata, arrays, pixels):
        line, = self.run_json("export", "m.safetensors", "--onnx", "m.onnx")
        self.assertEqual(set(line), {"event", "onnx", "input", "classes", "parameters"})
        model = Model("m.onnx")
        model.check()
        self.check_arrays(model, arrays)
        self.assertEqual(model.inputs, {"pixels": ["N", *pixels.shape[1:]]})
        self.assertEqual(model.outputs, {"probabilities": ["N", int(metadata["laconic.classes"])]})
        self.assertEqual((line["input"], line["classes"], line["parameters"]),
                         (list(pixels.shape[1:]), int(metadata["laconic.classes"]), trained(arrays)))
        expected = networks.probabilities(metadata, arrays, pixels)  # which `predict` answers, too
        numpy.testing.assert_allclose(model.run(pixels), expected, atol=1e-5)
        numpy.testing.assert_allclose(model.run(pixels[:1]), expected[:1], atol=1e-5)

    def test_dropout_is_left_out_and_pools_are_what_they_should(self):
        self.write("allcnn")
        self.run_ok("export", "m.safetensors", "--onnx", "m.onnx")
        kinds = [node["op_type"] for node in Model("m.onnx").nodes]
        self.assertEqual(kinds, ["Sub", "Mul", "Conv", "BatchNormalization", "Relu", "Conv", "Relu", "Conv",
                                 "BatchNormalization", "Relu", "GlobalAveragePool", "Flatten", "Softmax"])
        self.write("residual")
        self.run_ok("export", "m.safetensors", "--onnx", "m.onnx")
        pool, = (node for node in Model("m.onnx").nodes if node["op_type"] == "AveragePool")
        self.assertIn({"name": "count_include_pad", "i": 1, "type": 2, "ints": []}, pool["attribute"])

    def test_the_same_model_gives_the_same_bytes(self):
        self.write("layouts")
        self.run_ok("export", "m.safetensors", "--onnx", "a.onnx", "-q")
        self.run_ok("export", "m.safetensors", "--onnx", "b.onnx", "-q")
        files = self.files()
        self.assertEqual(files["./a.onnx"], files["./b.onnx"])

    def test_bad_input(self):
        self.write()
        self.run_bad("export", "m.safetensors", names=["--onnx"])
        self.run_bad("export", "--onnx", "m.onnx", names=["operand", "usage"])
        self.run_bad("export", "m.safetensors", "--onnx", "none/m.onnx", names=["none"])
        self.run_bad("export", "none.safetensors", "--onnx", "m.onnx", names=["none.safetensors"])
        os.symlink("/dev/full", "full.onnx")
        self.run_bad("export", "m.safetensors", "--onnx", "full.onnx", status=1, names=["full.onnx"])
        self.run_short("export", "m.safetensors", "--onnx", "m.onnx", names=["m.onnx"])


class Damage(Classifier):
    """What every command says of a model that is none: exit status 2 and a line that names the file."""

    def each_command(self, names):
        for command in (("predict", "bad.safetensors", "x.npy", "-o", "p.npy"), ("export", "bad.safetensors", "--onnx", "m.onnx"),
                        ("eval", "bad.safetensors", "--data", "pictures.npy+labels.npy")):
            self.run_bad(*command, names=["bad.safetensors", *names])

    def test_damage(self):
        metadata, arrays = self.write("lenet")
        numpy.save("x.npy", networks.random_pixels(2, (1, 20, 20)))
        self.write_labelled((1, 20, 20), 10)
        without = lambda values, key: {name: value for name, value in values.items() if name != key}
        nan = arrays["01.conv.weight"].copy()
        nan[1, 0, 2, 3] = numpy.nan
        for changed, names in (
                ((without(metadata, "laconic.kind"), arrays), ["laconic.kind"]),
                ((dict(metadata, **{"laconic.version": "2"}), arrays), ["laconic.version", "'2'"]),
                ((dict(metadata, **{"laconic.layers": "conv 4 kernal=5"}), arrays), ["line 1", "kernal"]),
                ((dict(metadata, prepare="zca"), arrays), ["prepare"]),
                ((metadata, without(arrays, "06.conv.bias")), ["06.conv.bias"]),
                ((metadata, dict(arrays, **{"06.conv.bias": arrays["06.conv.bias"][1:]})), ["06.conv.bias", "[5]", "[6]"]),
                ((metadata, dict(arrays, **{"01.conv.weight": nan})), ["01.conv.weight", "element 38"]),
                ((metadata, dict(arrays, **{"02.batchnorm.variance": -arrays["02.batchnorm.variance"]})),
                 ["02.batchnorm.variance", "at least 0"])):
            networks.write_model("bad.safetensors", *changed)
            self.each_command(names)


class Info(Classifier):
    def test_a_classifier_is_recognised(self):
        metadata, arrays = self.write("lenet", "zca", options='{"epochs": 5}', data="mnist:there")
        line, = self.run_json("info", "m.safetensors")
        self.assertEqual({key: line[key] for key in ("format", "kind", "input", "classes", "parameters", "bits", "columns")},
                         {"format": "safetensors", "kind": "classifier", "input": [1, 20, 20], "classes": 10,
                          "parameters": trained(arrays), "bits": None, "columns": None})
        self.assertEqual(line["metadata"]["options"], {"epochs": 5})
        self.assertEqual(line["metadata"]["laconic.layers"], metadata["laconic.layers"])
        text = self.run_ok("info", "m.safetensors")
        self.assertIn("safetensors, a classifier", text)
        self.assertRegex(text, rf"(?m)^parameters +{trained(arrays)}$")
        self.assertRegex(text, r"(?m)^ +maxpool 3$")  # the layers, a line each

    def test_other_files_are_not_taken_for_one(self):
        metadata, arrays = self.write()
        del metadata["laconic.input"]
        networks.write_model("m.safetensors", metadata, arrays)
        line, = self.run_json("info", "m.safetensors")
        self.assertEqual((line["kind"], line["classes"]), (None, None))
        self.assertNotIn("a classifier", self.run_ok("info", "m.safetensors"))


if __name__ == "__main__":
    unittest.main()
