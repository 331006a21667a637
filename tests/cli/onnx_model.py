"""ONNX files without any library of theirs: a decoder of the protobuf wire format by the published field numbers, and an
interpreter of the operators that a classifier uses, in numpy. Anything else in a file is an error."""

import struct

import numpy

# message: {field number: (name, type, repeated)}; a type is a message, or how a value is read
MODEL = {1: ("ir_version", int, False), 2: ("producer_name", str, False), 3: ("producer_version", str, False),
         7: ("graph", "GRAPH", False), 8: ("opset_import", "OPSET", True)}
SCHEMA = {
    "MODEL": MODEL,
    "OPSET": {1: ("domain", str, False), 2: ("version", int, False)},
    "GRAPH": {1: ("node", "NODE", True), 2: ("name", str, False), 5: ("initializer", "TENSOR", True),
              11: ("input", "VALUE", True), 12: ("output", "VALUE", True)},
    "NODE": {1: ("input", str, True), 2: ("output", str, True), 3: ("name", str, False), 4: ("op_type", str, False),
             5: ("attribute", "ATTRIBUTE", True)},
    "ATTRIBUTE": {1: ("name", str, False), 2: ("f", float, False), 3: ("i", int, False), 8: ("ints", int, True),
                  20: ("type", int, False)},
    "TENSOR": {1: ("dims", int, True), 2: ("data_type", int, False), 8: ("name", str, False),
               9: ("raw_data", bytes, False)},
    "VALUE": {1: ("name", str, False), 2: ("type", "TYPE", False)},
    "TYPE": {1: ("tensor_type", "ARRAY", False)},
    "ARRAY": {1: ("elem_type", int, False), 2: ("shape", "SHAPE", False)},
    "SHAPE": {1: ("dim", "DIMENSION", True)},
    "DIMENSION": {1: ("dim_value", int, False), 2: ("dim_param", str, False)},
}
FLOAT, INT64 = 1, 7
ATTRIBUTE_TYPES = {1: "f", 2: "i", 7: "ints"}
WIRES = {int: 0, float: 5}  # of scalars; everything else has a length


def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    assert shift <= 70
    return value - (1 << 64) if value >> 63 else value, at


def field_value(data, at, kind):
    if kind is int:
        return varint(data, at)
    if kind is float:
        return struct.unpack_from("<f", data, at)[0], at + 4
    length, at = varint(data, at)
    assert 0 <= length <= len(data) - at, "a field that is longer than its message"
    content = data[at:at + length]
    if kind is str:
        return content.decode("utf-8"), at + length
    return (content if kind is bytes else decode(content, kind)), at + length


def decode(data, message):
    found = {name: [] for name, _, repeated in SCHEMA[message].values() if repeated}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        assert key >> 3 in SCHEMA[message], f"{message}: field {key >> 3}"
        name, kind, repeated = SCHEMA[message][key >> 3]
        assert key & 7 == WIRES.get(kind, 2), f"{message}.{name}: wire type {key & 7}"
        value, at = field_value(data, at, kind)
        assert repeated or name not in found, f"{message}.{name}: twice"
        if repeated:
            found[name].append(value)
        else:
            found[name] = value
    assert at == len(data)
    return found


def tensor(about):
    kind = {FLOAT: "<f4", INT64: "<i8"}[about["data_type"]]
    return numpy.frombuffer(about["raw_data"], kind).reshape(about["dims"])


def value_shape(about):
    """Sizes, or the name of a free one."""
    array = about["type"]["tensor_type"]
    assert array["elem_type"] == FLOAT
    return [size.get("dim_value", size.get("dim_param")) for size in array["shape"]["dim"]]


class Model:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.model = decode(file.read(), "MODEL")
        graph = self.model["graph"]
        self.nodes = graph["node"]
        self.arrays = {about["name"]: tensor(about) for about in graph["initializer"]}
        assert len(self.arrays) == len(graph["initializer"]), "an array twice"
        self.inputs = {about["name"]: value_shape(about) for about in graph["input"]}
        self.outputs = {about["name"]: value_shape(about) for about in graph["output"]}

    def check(self):
        """What holds of every graph: values are made once, before they are read, and all of them are read."""
        known, read = set(self.arrays) | set(self.inputs), set(self.outputs)
        assert len(known) == len(self.arrays) + len(self.inputs)
        names = [node["name"] for node in self.nodes]
        assert len(set(names)) == len(names)
        for node in self.nodes:
            assert set(node["input"]) <= known, f"{node['name']} reads what is not there: {node['input']}"
            read |= set(node["input"])
            for output in node["output"]:
                assert output not in known, f"{output} is made twice"
                known.add(output)
        assert known == read, f"nobody reads {known - read}"
        assert self.model["opset_import"] == [{"version": 13}] and self.model["ir_version"] == 7

    def run(self, pixels):
        """Probabilities in single precision, as a program that runs such a file would."""
        values = dict(self.arrays, pixels=pixels.astype("f4"))
        for node in self.nodes:
            inputs = [values[name] for name in node["input"]]
            attributes = {}
            for one in node["attribute"]:
                # the one that its type names, and no other
                assert set(one) - {"ints"} == {"name", "type"} | ({ATTRIBUTE_TYPES[one["type"]]} - {"ints"})
                attributes[one["name"]] = one[ATTRIBUTE_TYPES[one["type"]]]
            result = OPERATORS[node["op_type"]](*inputs, **attributes)
            assert result.dtype == numpy.float32, node["op_type"]
            values[node["output"][0]] = result
        return values["probabilities"]


# ---- operators, as opset 13 defines them --------------------------------------------------------------------------

def slide(x, kernel_shape, strides, pads, outside):
    top, left, bottom, right = pads
    x = numpy.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=outside)
    view = numpy.lib.stride_tricks.sliding_window_view(x, tuple(kernel_shape), axis=(2, 3))
    return view[:, :, ::strides[0], ::strides[1]]


def conv(x, w, b=None, *, kernel_shape, strides, pads):
    assert list(w.shape[2:]) == kernel_shape and w.shape[1] == x.shape[1]
    y = numpy.tensordot(slide(x, kernel_shape, strides, pads, 0), w, axes=([1, 4, 5], [1, 2, 3])).transpose(0, 3, 1, 2)
    return y if b is None else y + b[:, None, None]


def gemm(a, b, c=None, *, transB=0):
    assert a.ndim == b.ndim == 2
    y = a @ (b.T if transB else b)
    return y if c is None else y + c


def batch_normalization(x, scale, shift, mean, variance, *, epsilon):
    wide = lambda v: v.reshape(-1, *[1] * (x.ndim - 2))
    return wide(scale) * (x - wide(mean)) / numpy.sqrt(wide(variance) + numpy.float32(epsilon)) + wide(shift)


def max_pool(x, *, kernel_shape, strides, pads):
    assert x.ndim == 4
    return slide(x, kernel_shape, strides, pads, -numpy.inf).max(axis=(4, 5))


def average_pool(x, *, kernel_shape, strides, pads, count_include_pad):
    assert x.ndim == 4 and count_include_pad == 1
    return slide(x, kernel_shape, strides, pads, 0).mean(axis=(4, 5), dtype="f4")


def global_average_pool(x):
    assert x.ndim == 4
    return x.mean(axis=(2, 3), keepdims=True)


def flatten(x, *, axis):
    return x.reshape(int(numpy.prod(x.shape[:axis])), -1)


def reshape(x, shape):
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)])


def reduce_mean(x, *, axes, keepdims):
    return x.mean(axis=tuple(axes), keepdims=bool(keepdims))


def softmax(x, *, axis):
    powers = numpy.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def same_rank_or_array(operation):
    """numpy would also broadcast (N, C) over (N, C, 1, 1), to something else."""
    def checked(a, b):
        result = operation(a, b)
        assert result.shape == a.shape, "a sum that grows"
        return result
    return checked


OPERATORS = {
    "Conv": conv, "Gemm": gemm, "BatchNormalization": batch_normalization, "MaxPool": max_pool,
    "AveragePool": average_pool, "GlobalAveragePool": global_average_pool, "Flatten": flatten, "Reshape": reshape,
    "ReduceMean": reduce_mean, "Softmax": softmax, "Relu": lambda x: numpy.maximum(x, 0), "Sqrt": numpy.sqrt,
    "Add": same_rank_or_array(numpy.add), "Sub": same_rank_or_array(numpy.subtract),
    "Mul": same_rank_or_array(numpy.multiply), "Div": same_rank_or_array(numpy.divide),
}
