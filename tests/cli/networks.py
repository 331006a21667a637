"""Networks and their preparations once more, in numpy and double precision, from docs/layers.md and docs/model-format.md:
models that the tests write without the library, and what they must answer."""

import json
import struct

import numpy

EPSILON = 1e-5  # of batch norm
FLOOR = 10.0    # of a picture's variance


class Layer:
    """One line of a description that makes an activation: its number, words and keys, what it reads, its shape."""

    def __init__(self, number, kind, argument, keys, source, other, shape):
        self.number, self.kind, self.argument, self.keys = number, kind, argument, keys
        self.source, self.other, self.shape = source, other, shape

    def name(self, part):
        return f"{self.number:02}.{self.kind}.{part}"


def window_shape(shape, channels, keys, kernel):
    stride, pad = keys["stride"], keys.get("pad", 0)
    return (channels, *((size + 2 * pad - kernel) // stride + 1 for size in shape[1:]))


def parse(text, shape, classes):
    """All layers, the pictures as layer 0."""
    layers = [Layer(0, "input", None, {}, None, None, tuple(shape))]
    marks, current = {}, 0
    for line in text.split("\n"):
        words = line.split("#")[0].split()
        if not words:
            continue
        kind, argument = words[0], words[1] if len(words) > 1 and "=" not in words[1] else None
        keys = dict(word.split("=") for word in words[1:] if "=" in word)
        bias = keys.pop("bias", "yes") == "yes"
        keys = {key: int(value) for key, value in keys.items()}
        keys["bias"] = bias
        here = layers[current].shape
        if kind == "input":
            continue
        if kind == "mark":
            marks[argument] = current
            continue
        if kind == "from":
            current = marks[argument]
            continue
        other = marks[argument] if kind == "add" else None
        out = here
        if kind in ("conv", "dense"):
            channels = classes if argument == "classes" else int(argument)
            keys.setdefault("stride", 1)
            out = window_shape(here, channels, keys, keys["kernel"]) if kind == "conv" else (channels, 1, 1)
        elif kind in ("maxpool", "avgpool"):
            keys["kernel"] = here[1] if argument == "all" else int(argument)
            keys.setdefault("stride", keys["kernel"])
            out = window_shape(here, here[0], keys, keys["kernel"])
        layers.append(Layer(len(layers), kind, argument, keys, current, other, out))
        current = len(layers) - 1
    return layers


def parts(text, shape, classes):
    """{name: shape} of the arrays of a network: parameters, then statistics."""
    layers = parse(text, shape, classes)
    found = {}
    for layer in layers:
        size = int(numpy.prod(layers[layer.source].shape)) if layer.source is not None else 0
        if layer.kind == "conv":
            found[layer.name("weight")] = (layer.shape[0], layers[layer.source].shape[0], layer.keys["kernel"],
                                           layer.keys["kernel"])
        elif layer.kind == "dense":
            found[layer.name("weight")] = (layer.shape[0], size)
        elif layer.kind == "batchnorm":
            found[layer.name("scale")] = found[layer.name("shift")] = (layer.shape[0],)
        if layer.kind in ("conv", "dense") and layer.keys["bias"]:
            found[layer.name("bias")] = (layer.shape[0],)
    for layer in layers:
        if layer.kind == "batchnorm":
            found[layer.name("mean")] = found[layer.name("variance")] = (layer.shape[0],)
    return found


# ---- what a network answers -----------------------------------------------------------------------------------------

def windows(x, kernel, stride, pad, outside):
    """(N, C, H, W) to (N, C, rows, columns, kernel, kernel)."""
    x = numpy.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=outside)
    view = numpy.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return view[:, :, ::stride, ::stride]


def apply(layer, x, other, arrays):
    part = lambda name: arrays[layer.name(name)].astype(float)
    if layer.kind == "conv":
        seen = windows(x, layer.keys["kernel"], layer.keys["stride"], layer.keys.get("pad", 0), 0)
        y = numpy.tensordot(seen, part("weight"), axes=([1, 4, 5], [1, 2, 3])).transpose(0, 3, 1, 2)
        return y + part("bias")[:, None, None] if layer.keys["bias"] else y
    if layer.kind == "dense":
        y = x.reshape(len(x), -1) @ part("weight").T
        return (y + part("bias") if layer.keys["bias"] else y)[:, :, None, None]
    if layer.kind == "batchnorm":
        scale = part("scale") / numpy.sqrt(part("variance") + EPSILON)
        return (x - part("mean")[:, None, None]) * scale[:, None, None] + part("shift")[:, None, None]
    if layer.kind == "relu":
        return numpy.maximum(x, 0)
    if layer.kind in ("maxpool", "avgpool"):
        most = layer.kind == "maxpool"
        seen = windows(x, layer.keys["kernel"], layer.keys["stride"], layer.keys.get("pad", 0),
                       -numpy.inf if most else 0)
        return seen.max(axis=(4, 5)) if most else seen.mean(axis=(4, 5))
    if layer.kind == "add":
        return x + other
    assert layer.kind == "dropout", layer.kind
    return x


def softmax(scores):
    powers = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def prepare(kind, arrays, pixels):
    """Pixels (N, C, H, W) as they are in a file, prepared."""
    x = pixels.astype(float)
    if kind in ("scale", "channels"):
        mean, scale = (arrays[f"prepare.{name}"].astype(float)[:, None, None] for name in ("mean", "scale"))
        return (x - mean) * scale
    if kind == "zca":
        rows = x.reshape(len(x), -1)
        rows = rows - rows.mean(axis=1, keepdims=True)
        rows = rows / numpy.sqrt((rows ** 2).mean(axis=1, keepdims=True) + FLOOR)
        return ((rows - arrays["prepare.mean"]) @ arrays["prepare.whitening"].astype(float).T).reshape(x.shape)
    assert kind == "none", kind
    return x


def probabilities(metadata, arrays, pixels):
    """Of a model as it was read from its file: (N, classes)."""
    shape, classes = json.loads(metadata["laconic.input"]), int(metadata["laconic.classes"])
    layers = parse(metadata["laconic.layers"], shape, classes)
    values = [prepare(metadata["prepare"], arrays, pixels.reshape(-1, *shape))]
    for layer in layers[1:]:
        other = values[layer.other] if layer.other is not None else None
        values.append(apply(layer, values[layer.source], other, arrays))
        assert values[-1].shape[1:] == layer.shape
    return softmax(values[-1].reshape(len(pixels), classes))


# ---- models ---------------------------------------------------------------------------------------------------------

def read_model(path):
    """(metadata, {name: array})"""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        head, data = json.loads(file.read(length)), file.read()
    metadata = head.pop("__metadata__", {})
    return metadata, {name: numpy.frombuffer(data[slice(*about["data_offsets"])], "<f4").reshape(about["shape"])
                      for name, about in head.items()}


def write_model(path, metadata, arrays):
    head, data = {"__metadata__": metadata}, b""
    for name, array in arrays.items():
        packed = numpy.ascontiguousarray(array).astype("<f4").tobytes()
        head[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def random_array(draw, name, shape):
    """Values with which activations stay near 1."""
    part = name.rsplit(".", 1)[1]
    if part in ("variance", "scale"):
        return draw.uniform(0.5, 2, shape).astype("f4")
    fan = numpy.prod(shape[1:]) if len(shape) > 1 else 16
    return (draw.standard_normal(shape) * numpy.sqrt(2 / fan)).astype("f4")


def random_preparation(draw, kind, shape):
    pixels = int(numpy.prod(shape))
    if kind == "zca":
        skew = draw.standard_normal((pixels, pixels)) / numpy.sqrt(pixels)
        return {"prepare.mean": draw.standard_normal(pixels).astype("f4") / 4,
                "prepare.whitening": (numpy.eye(pixels) + (skew + skew.T) / 4).astype("f4")}
    groups = {"scale": 1, "channels": shape[0], "none": 0}[kind]
    return {"prepare.mean": draw.uniform(60, 180, groups).astype("f4"),
            "prepare.scale": draw.uniform(0.01, 0.02, groups).astype("f4")} if groups else {}


def random_model(text, shape, classes, kind="scale", seed=0, **more):
    """(metadata, arrays) of a network with random parameters; `more` are metadata of a run."""
    draw = numpy.random.default_rng(seed)
    arrays = {name: random_array(draw, name, sizes) for name, sizes in parts(text, shape, classes).items()}
    arrays.update(random_preparation(draw, kind, shape))
    return {"laconic.kind": "classifier", "laconic.version": "1", "laconic.layers": text,
            "laconic.input": json.dumps(list(shape)), "laconic.classes": str(classes), "laconic.convolution": "direct",
            "prepare": kind, **more}, arrays


def random_pixels(count, shape, seed=0):
    """Bytes (N, C, H, W)."""
    return numpy.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=numpy.uint8)


# text, shape, classes: small, and together every kind of layer in every layout of its input
SMALL = {
    "dense": ("dense 7\nrelu\ndense classes", (1, 4, 5), 3),
    "lenet": ("conv 4 kernel=5\nbatchnorm\nrelu\nmaxpool 3\ndropout 0.25\nconv 6 kernel=3\nbatchnorm\nrelu\nmaxpool 2\n"
              "dense 11\nbatchnorm\nrelu\ndropout 0.5\ndense classes", (1, 20, 20), 10),
    "allcnn": ("dropout 0.2\nconv 5 kernel=3 pad=1\nbatchnorm\nrelu\nconv 4 kernel=3 stride=2 pad=1\nrelu\n"
               "conv classes kernel=1\nbatchnorm\nrelu\navgpool all", (3, 9, 9), 4),
    "residual": ("conv 4 kernel=3 pad=1 bias=no\nbatchnorm\nrelu\nmark a\nconv 6 kernel=3 stride=2 pad=1 bias=no\n"
                 "batchnorm\nrelu\nconv 6 kernel=3 pad=1\nbatchnorm\nmark b\nfrom a\nconv 6 kernel=1 stride=2 bias=no\n"
                 "add b\nrelu\navgpool 3 stride=2 pad=1\nmaxpool 2 stride=1 pad=1\ndense classes bias=no", (2, 8, 7), 5),
    "layouts": ("dense 6 # rows to pictures and back\nmark rows\nconv 6 kernel=1\nmark pictures\nfrom rows\nadd pictures\n"
                "conv 4 kernel=1\navgpool all\ndense 3\nrelu\nconv classes kernel=1", (1, 3, 3), 3),
}
KINDS = ("none", "scale", "channels", "zca")
