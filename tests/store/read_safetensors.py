"""A reader and a writer of safetensors files, written from the published format: standard library and numpy only."""

import json
import struct

import numpy

TYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "U32": "<u4", "I32": "<i4",
         "F32": "<f4", "U64": "<u8", "I64": "<i8", "F64": "<f8"}


def unique(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name occurs twice")
    return members


def read(path):
    """({name: array}, {key: text}); ValueError for what the format does not allow."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack_from("<Q", content)
    text = content[8:8 + length]
    if len(text) != length or not text.startswith(b"{"):
        raise ValueError("no header")
    header = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    metadata = header.pop("__metadata__", {})
    if not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("metadata that are no texts")
    data, arrays, end = content[8 + length:], {}, 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        kind = numpy.dtype(TYPES[tensor["dtype"]])
        begin, stop = tensor["data_offsets"]
        if begin != end:
            raise ValueError(f"{name}: a hole or an overlap")
        if (8 + length + begin) % kind.itemsize:
            raise ValueError(f"{name}: not aligned")
        arrays[name] = numpy.frombuffer(data[begin:stop], kind).reshape(tensor["shape"])
        end = stop
    if end != len(data):
        raise ValueError("bytes after the last tensor")
    return arrays, metadata


def write(path, arrays, metadata=None, padding=0):
    """Arrays in the given order, the header followed by `padding` blanks."""
    names = {numpy.dtype(text): name for name, text in TYPES.items()}
    header, offset = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, array in arrays.items():
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, ensure_ascii=False).encode("utf-8") + b" " * padding
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())
