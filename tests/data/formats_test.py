"""Files written by numpy, h5py and struct, read here: shapes, types, values, range, variance and fingerprint must be what
numpy says; and arrays written here must be what numpy reads."""

import gzip
import json
import os
import struct
import subprocess
import sys

import h5py
import numpy as np

PRINT = sys.argv[1]
NAMES = {"u1": "u8", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64", "f2": "f16", "f4": "f32", "f8": "f64"}
IDX = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
random = np.random.default_rng(7)
checks = 0
cases = []  # (what to open, values, format, whether mapped)


def check(condition, *what):
    global checks
    checks += 1
    if not condition:
        print("FAILED:", *what)
        sys.exit(1)


def array(kind, shape):
    if kind[0] == "f":
        return (random.standard_normal(shape) * 50).astype(kind)
    info = np.iinfo(kind)
    return random.integers(max(info.min, -(2**40)), min(info.max, 2**40), shape, endpoint=True).astype(kind)


def expect(opened, values, format, mapped=None):
    """That a file (or FORMAT=FILE, FILE:NAME) holds these values."""
    cases.append((opened, values, format, mapped))


def save(name, data):
    with open(name, "wb") as file:
        file.write(data)
    return name


def write_npy():
    for kind in NAMES:
        for order in "<>":
            for fortran in (False, True):
                for version in ((1, 0), (2, 0), (3, 0)):
                    shape = {(1, 0): (137, 50), (2, 0): (67, 3, 5, 2), (3, 0): (33,)}[version]
                    values = array(kind, shape)
                    name = f"a{kind}{'lb'[order == '>']}{'cf'[fortran]}{version[0]}.npy"
                    with open(name, "wb") as file:
                        stored = np.array(values, dtype=order + kind, order="F" if fortran else "C")
                        np.lib.format.write_array(file, stored, version)
                    expect(name, values, "npy", mapped=True)
    np.save("one-column.npy", np.asfortranarray(array("f4", (100, 1))))
    expect("one-column.npy", np.load("one-column.npy"), "npy")
    wide = array("u1", (3, 70000))
    np.save("wide.npy", np.asfortranarray(wide))
    expect("wide.npy", wide, "npy")


def idx_bytes(kind, values):
    head = struct.pack(">BBBB", 0, 0, IDX[kind], values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(">" + kind).tobytes()


def write_idx():
    for kind in IDX:
        values = array(kind, (19, 4, 7))
        expect(save(f"images-{kind}-ubyte", idx_bytes(kind, values)), values, "idx", mapped=True)
        with gzip.open(f"images-{kind}-ubyte.gz", "wb") as file:
            file.write(idx_bytes(kind, values))
        expect(f"images-{kind}-ubyte.gz", values, "idx")
    labels = array("u1", (500,))
    expect(save("labels-idx1-ubyte", idx_bytes("u1", labels)), labels, "idx")


def vecs_bytes(values):
    return b"".join(struct.pack("<i", len(row)) + row.tobytes() for row in values)


def write_vecs():
    for kind, suffix in (("f4", "fvecs"), ("u1", "bvecs"), ("i4", "ivecs")):
        for rows, columns in ((1, 1), (300, 17), (5000, 100)):
            values = array(kind, (rows, columns))
            expect(save(f"a{rows}.{suffix}", vecs_bytes(values)), values, suffix, mapped=True)
        expect(f"{suffix}={save(f'nameless-{suffix}', vecs_bytes(values))}", values, suffix)
    for kind, suffix in (("f4", "fbin"), ("u1", "u8bin")):
        values = array(kind, (321, 33))
        expect(save(f"a.{suffix}", struct.pack("<II", 321, 33) + values.tobytes()), values, suffix, mapped=True)


def write_cifar():
    for labels, name in ((1, "cifar10"), (2, "cifar100")):
        values = array("u1", (90, 3, 32, 32))
        first = random.integers(0, 10, (90, labels)).astype("u1")
        data = np.concatenate([first, values.reshape(90, -1)], axis=1).tobytes()
        expect(save(f"{name}.bin", data), values, name, mapped=True)
        expect(f"{name}={save(f'{name}.data', data)}", values, name)
        with gzip.open(f"{name}.bin.gz", "wb") as file:
            file.write(data)
        expect(f"{name}.bin.gz", values, name)


def write_csv():
    values = array("f8", (150, 9))
    np.savetxt("a.csv", values, delimiter=",", fmt="%.17g")
    expect("a.csv", values, "csv")
    # Where digits, powers and roundings are many: repr() gives back the very double.
    hard = [0.1, 1e23, 2.2250738585072014e-308, 5e-324, 1.7976931348623157e308, 123456789012345.0, 0.000001234567890123]
    hard += [9007199254740993.0, -0.0, 1e22, 3.141592653589793, -999999999999999.0]
    hard += list(random.standard_normal(500)) + list(np.exp(random.uniform(-700, 700, 500)))
    save("hard.csv", "".join(f"{x!r},{-x!r}\n" for x in map(float, hard)).encode())
    expect("hard.csv", np.array([[x, -x] for x in hard]), "csv")
    integers = random.integers(-(10**15), 10**15, (100, 3))
    np.savetxt("i.csv", integers, delimiter=",", fmt="%d", header="a,b,c", comments="")
    expect("i.csv", integers.astype("f8"), "csv")
    decimals = random.integers(0, 10**9, (200, 2))
    save("d.csv", "".join(f"{a}.{b:09d},{b}.5\r\n\r\n" for a, b in decimals).encode())
    expect("d.csv", np.array([[float(f"{a}.{b:09d}"), b + 0.5] for a, b in decimals]), "csv")
    save("bom.csv", b"\xef\xbb\xbf 1 , +2\n.5,6.\n1e3,-1E-3")
    expect("bom.csv", np.array([[1, 2], [0.5, 6], [1e3, -1e-3]]), "csv")


def write_hdf5():
    train, test = array("f4", (400, 25)), array("f4", (40, 25))
    neighbors, distances = array("i4", (40, 10)), array("f4", (40, 10))
    with h5py.File("ann.hdf5", "w") as file:
        for name in ("train", "test", "neighbors", "distances"):
            file[name] = locals()[name]
    expect("ann.hdf5", train, "hdf5", mapped=True)
    for name in ("train", "test", "neighbors", "distances"):
        expect(f"ann.hdf5:{name}", locals()[name], "hdf5", mapped=True)
    options = {
        "gzip": {"chunks": (64, 10), "compression": "gzip", "shuffle": True},
        "level": {"chunks": (7, 25), "compression": "gzip", "compression_opts": 9},
        "plain": {"chunks": (100, 25)},
        "sum": {"chunks": (400, 1), "fletcher32": True},
    }
    for name, option in options.items():
        for kind in NAMES if name == "gzip" else ("u1", "f4"):
            for order in "<>":
                values = array(kind, (400, 25))
                path = f"{name}{kind}{'lb'[order == '>']}.h5"
                with h5py.File(path, "w") as file:
                    file.create_dataset("only", data=values, dtype=order + kind, **option)
                    file.create_group("group")
                expect(path, values, "hdf5", mapped=False)
                expect(path + ":only", values, "hdf5", mapped=False)
    for kind in NAMES:
        values = array(kind, (31, 4, 6))
        with h5py.File(f"order{kind}.h5", "w") as file:
            file.create_dataset("group/inside", data=values, dtype=">" + kind)
        with open(f"order{kind}.h5", "rb") as file, gzip.open(f"order{kind}.h5.gz", "wb") as packed:
            packed.write(file.read())
        expect(f"order{kind}.h5:group/inside", values, "hdf5", mapped=True)
        expect(f"order{kind}.h5:/group/inside", values, "hdf5", mapped=True)
    with h5py.File("block.h5", "w", userblock_size=1024) as file:
        file["train"] = train
    expect("block.h5", train, "hdf5", mapped=True)
    with h5py.File("new.h5", "w", libver="latest") as file:
        file.create_dataset("train", data=train, chunks=(50, 25), compression="gzip")
        file["second"] = test
    expect("new.h5", train, "hdf5", mapped=False)
    expect("new.h5:second", test, "hdf5", mapped=True)
    with h5py.File("compact.h5", "w") as file:
        space, plist = h5py.h5s.create_simple((5, 3)), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        compact = array("f4", (5, 3))
        made = h5py.h5d.create(file.id, b"train", h5py.h5t.IEEE_F32LE, space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, compact)
    expect("compact.h5", compact, "hdf5", mapped=False)
    with gzip.open("packed.h5.gz", "wb") as file:
        file.write(open("ann.hdf5", "rb").read())
    expect("packed.h5.gz", train, "hdf5", mapped=True)


def compare():
    lines = subprocess.run([PRINT] + [case[0] for case in cases], stdout=subprocess.PIPE, check=True, text=True)
    lines = lines.stdout.splitlines()
    check(len(lines) == len(cases), "lines", len(lines), len(cases))
    for number, (line, (opened, values, format, mapped)) in enumerate(zip(lines, cases), 1):
        got = json.loads(line)
        kind = values.dtype.str[1:]
        check("message" not in got, opened, line)
        flat = values.reshape(len(values), -1)
        check(got["format"] == format and got["type"] == NAMES[kind], opened, got)
        check((got["rows"], got["columns"]) == flat.shape, opened, got, flat.shape)
        check(got["shape"] == list(values.shape), opened, got)
        with np.errstate(over="ignore"):
            wanted = flat.astype("f4")
        read = np.fromfile(f"{number}.values", "f4").reshape(flat.shape)
        check(np.array_equal(read.view("u4"), wanted.view("u4")), opened, "values differ")
        exact = flat.astype("f8")
        integral = bool((exact == np.floor(exact)).all() and (abs(exact) < 2**31).all())
        check(got["integers"] == integral, opened, "integers", integral)
        if integral:
            check(np.array_equal(np.fromfile(f"{number}.integers", "i4").reshape(flat.shape), flat.astype("i4")), opened)
        check(float(got["low"]) == float(exact.min()) and float(got["high"]) == float(exact.max()), opened, got)
        check(got["bad_row"] == -1, opened, got)
        if np.abs(exact).max() < 1e150:
            variance = ((exact - exact.mean(0)) ** 2).sum(1).mean()
            check(abs(float(got["variance"]) - variance) <= 1e-12 * variance, opened, got["variance"], variance)
        check(got["same_variance"], opened, "the variance depends on the number of threads")
        check(mapped is None or got["mapped"] == mapped, opened, "mapped", got)
        if format != "npy":  # whose columns may be apart
            check(got["bytes"] == (kind == "u1" and got["mapped"]), opened, got)


def prints(*names):
    done = subprocess.run([PRINT, *names], stdout=subprocess.PIPE, check=True, text=True).stdout
    return [json.loads(line) for line in done.splitlines()]


def compare_fingerprints():
    """One array in every format that holds it has one fingerprint; any change of it has another."""
    values = array("u1", (40, 30))
    np.save("f1.npy", values)
    np.save("f2.npy", np.asfortranarray(values))
    save("f3-ubyte", idx_bytes("u1", values.reshape(40, 5, 6)))
    save("f4.bvecs", vecs_bytes(values))
    save("f5.u8bin", struct.pack("<II", 40, 30) + values.tobytes())
    with h5py.File("f6.h5", "w") as file:
        file.create_dataset("train", data=values, chunks=(7, 11), compression="gzip")
    same = [got["fingerprint"] for got in prints("f1.npy", "f2.npy", "f3-ubyte", "f4.bvecs", "f5.u8bin", "f6.h5")]
    check(len(set(same)) == 1, same)
    floats = array("f4", (40, 30))
    np.save("g1.npy", floats)
    np.save("g2.npy", floats.astype(">f4"))
    save("g3.fvecs", vecs_bytes(floats))
    save("g4-ubyte", idx_bytes("f4", floats))
    same = [got["fingerprint"] for got in prints("g1.npy", "g2.npy", "g3.fvecs", "g4-ubyte")]
    check(len(set(same)) == 1, same)
    others = [values.reshape(30, 40), values.reshape(20, 60), values.astype("i1"), values.astype("f4"), values[::-1]]
    others += [values[:, ::-1], values[:39], np.zeros_like(values), np.zeros((1, 1), "u1"), np.zeros((2, 1), "u1")]
    for row, column, bit in ((0, 0, 0), (39, 29, 7), (20, 15, 3)):
        changed = values.copy()
        changed[row, column] ^= 1 << bit
        others.append(changed)
    for row in range(2):
        swapped = values.copy()
        swapped[[row, row + 1]] = swapped[[row + 1, row]]
        others.append(swapped)
    names = []
    for i, other in enumerate(others):
        np.save(f"h{i}.npy", other)
        names.append(f"h{i}.npy")
    all_of_them = [got["fingerprint"] for got in prints("f1.npy", *names)]
    check(len(set(all_of_them)) == len(all_of_them), all_of_them)


def compare_written():
    """Arrays that the library writes, read by numpy."""
    for kind in NAMES:
        for shape in ((1, 1), (123, 45)):
            values = array(kind, shape)
            np.save("in.npy", values)
            subprocess.run([PRINT, "--copy", "out.npy", "in.npy"], check=True)
            got = np.load("out.npy")
            check(got.dtype == values.dtype and np.array_equal(got, values), kind, shape)
            with open("out.npy", "rb") as file:
                np.lib.format.read_magic(file)
                np.lib.format.read_array_header_1_0(file)
                check(file.tell() % 64 == 0, "the values are not aligned")
    for kind, suffix in (("f4", "fvecs"), ("u1", "bvecs"), ("i4", "ivecs")):
        values = array(kind, (77, 9))
        np.save("in.npy", values)
        subprocess.run([PRINT, "--copy", f"out.{suffix}", "in.npy"], check=True)
        check(open(f"out.{suffix}", "rb").read() == vecs_bytes(values), suffix)


def refused(name, *words):
    (got,) = prints(name)
    check(got.get("status") in ("LAC_E_INPUT", "LAC_E_UNSUPPORTED"), name, got)
    for word in (name.split("=")[-1], *words):
        check(word in got["message"], name, got, word)


def refuse():
    def hdf5(name, fill, **options):
        with h5py.File(name, "w", **options) as file:
            fill(file)
        return name

    values = array("f4", (100, 8))
    several = hdf5("several.h5", lambda file: [file.create_dataset(n, data=values) for n in ("one", "two")])
    refused(several, "one, two", "2 arrays")
    refused(several + ":three", "three", "one, two")
    refused(hdf5("none.h5", lambda file: file.create_group("group")), "0 arrays")
    refused("none.h5:group", "'group'")
    for name, data in {
        "text": np.array([b"abc", b"def"]),
        "bool": np.zeros((3, 4), "?"),
        "u2": np.zeros((3, 4), "u2"),
        "c8": np.zeros((3, 4), "c8"),
        "record": np.zeros((3,), [("x", "f4"), ("y", "i4")]),
    }.items():
        refused(hdf5(f"{name}.h5", lambda file: file.create_dataset("train", data=data)), "found elements of class")
    refused(hdf5("scalar.h5", lambda file: file.create_dataset("train", data=1.0)), "0 axes")
    refused(hdf5("rows.h5", lambda file: file.create_dataset("train", (0, 5))), "(0, 5)", "row")
    refused(hdf5("columns.h5", lambda file: file.create_dataset("train", (5, 0))), "(5, 0)", "column")
    refused(hdf5("nine.h5", lambda file: file.create_dataset("train", (1,) * 9)), "9 axes")
    # No size in a header is believed: values that were never written, of any size.
    for shape in ((100, 8), (2**40, 2**20)):
        for chunks in (None, (1, 1)):
            name = hdf5("unwritten.h5", lambda file: file.create_dataset("train", shape, chunks=chunks))
            refused(name, "found 0 bytes stored")
    refused(hdf5("huge.h5", lambda file: file.create_dataset("train", (2**40, 2**40), chunks=(1, 1))), "no file can hold")
    external = [("raw.bin", 0, h5py.h5f.UNLIMITED)]
    save("raw.bin", values.tobytes())
    refused(hdf5("external.h5", lambda file: file.create_dataset("train", (100, 8), "f4", external=external)), "other files")
    for number, chunks in enumerate((None, (10, 8))):
        other = hdf5(f"other{number}.h5", lambda file: file.create_dataset("there", data=values, chunks=chunks))
        def linked(file):
            file.create_dataset("test", data=values + 777)
            file["train"] = h5py.ExternalLink(other, "/there")
        refused(hdf5(f"linked{number}.h5", linked), "'train' in the other file")
    layout = h5py.VirtualLayout((100, 8), "f4")
    layout[:] = h5py.VirtualSource(several, "one", (100, 8))
    refused(hdf5("virtual.h5", lambda file: file.create_virtual_dataset("train", layout)), "other files")
    whole = open(several, "rb").read()
    for size in (8, 100, 1000, len(whole) - 1):
        refused(save("cut.h5", whole[:size]), "HDF5", "cannot be opened")
    refused(save("magic.h5", b"\x88" + whole[1:]), "cannot be opened")
    hdf5("packed.h5", lambda file: file.create_dataset("train", data=values, chunks=(10, 8), compression="gzip"))
    # A filter that h5py brings along, and one that the library does not withstand damage in.
    hdf5("scaled.h5", lambda file: file.create_dataset("train", data=values, chunks=(10, 8), scaleoffset=3))
    refused("scaled.h5", "filter 6")
    hdf5("lzf.h5", lambda file: file.create_dataset("train", data=values, chunks=(10, 8), compression="lzf"))
    refused("lzf.h5", "filter 32000")
    packed = bytearray(open("packed.h5", "rb").read())
    with h5py.File("packed.h5") as file:
        chunk = file["train"].id.get_chunk_info(5).byte_offset
    packed[chunk + 10 : chunk + 40] = bytes(30)
    refused(save("damaged.h5", packed), "HDF5", "rows")

    for text, *words in (
        (b"1,2\n3\n", "row 1 (line 2)", "found 1 fields", "expected 2"),
        (b"1,2\n\n3,4,5\n", "row 1 (line 3)", "found 3 fields"),
        (b"x,y\n1,2\n3,oops\n", "row 1 (line 3), column 1", "'oops'"),
        (b"1,2\n3,\n", "row 1 (line 2), column 1", "''"),
        (b"1,x\n", "row 0 (line 1), column 1", "'x'"),
        (b"1,0x10\n", "column 1", "'0x10'"),
        (b"1,2 3\n", "column 1", "'2 3'"),
        (b'1,"2"\n', "column 1", "'\"2\"'"),
        (b"1,\x01\x00\xff\n", "'???'"),
        (b"a,b\n", "no rows"),
        (b"\n\n", "no rows"),
    ):
        refused(save("bad.csv", text), *words)
    with open("bad.csv", "wb") as file:
        file.write(b"1," + b"9" * 600 + b"\n")
    refused("bad.csv", "column 1", "'999999999999999999999999'")

    image = bytes(3072)
    refused(save("short.bin", b"\1" + image + b"\2" + image[:-1]), "neither")
    refused("cifar10=short.bin", "record 1 at offset 3073", "found 3072 bytes, expected 3073")
    refused("cifar100=short.bin", "record 1 at offset 3074", "found 3071 bytes, expected 3074")
    refused(save("label.bin", (b"\1" + image) * 3 + b"\x0a" + image), "neither")
    refused("cifar10=label.bin", "record 3 at offset 9219", "label")
    refused(save("label100.bin", b"\x13\x63" + image + b"\x13\x64" + image), "neither")
    refused("cifar100=label100.bin", "record 1 at offset 3074", "label")
    refused(save("both.bin", bytes(3073 * 3074)), "both")
    refused("cifar10=" + save("empty.bin", b""), "empty")


def not_finite():
    for kind in ("f2", "f4", "f8"):
        for bad in (np.nan, np.inf, -np.inf):
            values = array(kind, (500, 6))
            values[321, 4] = values[499, 0] = bad
            np.save("bad.npy", values)
            (got,) = prints("bad.npy")
            finite = values[np.isfinite(values)].astype("f8")
            check((got["bad_row"], got["bad_column"]) == (321, 4), kind, bad, got)
            check((float(got["low"]), float(got["high"])) == (finite.min(), finite.max()), kind, bad, got)
    np.save("bad.npy", np.full((3, 2), np.nan))
    (got,) = prints("bad.npy")
    check(got["low"] in ("nan", "-nan") and got["bad_row"] == 0, got)


for left in os.listdir():  # by an earlier run: a file that is written over is slow, it is flushed to the disk
    os.remove(left)
write_npy()
write_idx()
write_vecs()
write_cifar()
write_csv()
write_hdf5()
compare()
compare_fingerprints()
compare_written()
refuse()
not_finite()
print(f"{checks} checks passed, {len(cases)} files")
