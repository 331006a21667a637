"""Sets of pictures that numpy and h5py wrote, and their preparations against the same computed by numpy in float64:
scale, channels, and whitening, whose result must also be white."""

import gzip
import json
import os
import struct
import subprocess
import sys

import h5py
import numpy as np

PREPARE = sys.argv[1]
random = np.random.default_rng(11)
checks = 0


def check(condition, *what):
    global checks
    checks += 1
    if not condition:
        print("FAILED:", *what)
        sys.exit(1)


def prepare(fit, applied, kind, part="train", epsilon=0.1, cache="-", fails=None):
    """Prepared pixels, labels, tensors; or, with `fails`, that the run fails and its line holds these words."""
    done = subprocess.run([PREPARE, fit, applied, part, kind, str(epsilon), cache, "out"], capture_output=True, text=True)
    if fails:
        check(done.returncode == 1 and fails in done.stderr and done.stderr.count("\n") == 1, fails, done)
        return None
    check(done.returncode == 0, fit, kind, done.stderr)
    return np.load("out.npy"), np.load("out.labels.npy")[:, 0], safetensors("out.safetensors")


def safetensors(name):
    with open(name, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    arrays = {key: np.frombuffer(data[slice(*value["data_offsets"])], "<f4").reshape(value["shape"])
              for key, value in header.items() if key != "__metadata__"}
    return arrays, header["__metadata__"]


def pictures(count, channels, height, width):
    """Bytes whose neighbours are alike, so that whitening has something to do: noise, blurred, on a bright ground."""
    noise = random.standard_normal((count, channels, height + 2, width + 2)) * 60
    blurred = sum(noise[:, :, y:y + height, x:x + width] for y in range(3) for x in range(3)) / 3
    blurred += 0.5 * blurred[:, :1] + random.uniform(60, 190, (count, 1, 1, 1))
    return np.clip(blurred, 0, 255).astype("u1")


def idx(name, values, packed=False):
    data = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()
    with (gzip.open(name + ".gz", "wb") if packed else open(name, "wb")) as file:
        file.write(data)


def close(found, expected, tolerance, *what):
    worst = abs(found - expected).max()
    check(found.shape == expected.shape and worst <= tolerance, *what, found.shape, expected.shape, worst)


def rows(values):
    return values.reshape(len(values), -1).astype("f8")


def scaled(fit, applied, axes):
    mean, deviation = fit.mean(axes, keepdims=True, dtype="f8"), fit.std(axes, keepdims=True, dtype="f8")
    deviation[deviation == 0] = 1
    return rows((applied - mean) / deviation), mean.ravel(), 1 / deviation.ravel()


def simple(fit_name, applied_name, fit, applied, part):
    for kind, axes in (("scale", (0, 1, 2, 3)), ("channels", (0, 2, 3))):
        found, _, (tensors, meta) = prepare(fit_name, applied_name, kind, part)
        expected, mean, scale = scaled(fit, applied, axes)
        close(found, expected, 4e-6 * max(1, abs(expected).max()), fit_name, kind)
        check(meta == {"prepare": kind} and sorted(tensors) == ["prepare.mean", "prepare.scale"], meta, tensors)
        check((tensors["prepare.mean"] == mean.astype("f4")).all(), kind, tensors, mean)
        check((tensors["prepare.scale"] == scale.astype("f4")).all(), kind, tensors, scale)
    found, _, (tensors, meta) = prepare(fit_name, applied_name, "none", part)
    check((found == rows(applied)).all() and not tensors and meta == {"prepare": "none"}, fit_name, "none")


def contrast(values):
    x = rows(values)
    x -= x.mean(1, keepdims=True)
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 10)


def whitening(fit, epsilon):
    """The mean, W, and the eigenvalues and eigenvectors of the covariance."""
    u = contrast(fit)
    mean = u.mean(0)
    covariance = (u - mean).T @ (u - mean) / len(u)
    values, vectors = np.linalg.eigh(covariance)
    return mean, vectors @ np.diag((np.maximum(values, 0) + epsilon) ** -0.5) @ vectors.T, values, vectors


def zca(fit_name, applied_name, fit, applied, part, epsilon):
    found, _, (tensors, meta) = prepare(fit_name, applied_name, "zca", part, epsilon)
    mean, w, values, vectors = whitening(fit, epsilon)
    expected = (contrast(applied) - mean) @ w
    norm = abs(w).max()
    close(found, expected, 2e-5 * norm, fit_name, "zca")
    close(tensors["prepare.whitening"], w, 1e-5 * norm, fit_name, "W")
    close(tensors["prepare.mean"], mean, 1e-6, fit_name, "mean of u")
    check((tensors["prepare.whitening"] == tensors["prepare.whitening"].T).all(), "W is symmetric")
    check(sorted(tensors) == ["prepare.mean", "prepare.whitening"] and meta == {"prepare": "zca"}, meta)
    if part == "train":  # white: along each eigenvector the variance is value / (value + epsilon), and nothing across
        seen = vectors.T @ np.cov(found.astype("f8").T, bias=True) @ vectors
        close(seen, np.diag(np.maximum(values, 0) / (np.maximum(values, 0) + epsilon)), 1e-4, fit_name, "white")
        large = values > 100 * epsilon
        if large.any():
            check(abs(np.diag(seen)[large] - 1).max() < 0.01, fit_name, "unit variance")


def mnist_set():
    """Two parts of grey pictures, one packed; the preparation of the training part is applied to either."""
    os.makedirs("set", exist_ok=True)
    parts = {part: (pictures(count, 1, 12, 10), random.integers(0, 10, count).astype("u1"))
             for part, count in (("train", 700), ("test", 150))}
    for part, stem in (("train", "train"), ("test", "t10k")):
        idx(f"set/{stem}-images-idx3-ubyte", parts[part][0][:, 0], packed=part == "test")
        idx(f"set/{stem}-labels-idx1-ubyte", parts[part][1], packed=part == "train")
    for part in parts:
        for name in ("mnist:set", "fashion-mnist:set/"):
            check((prepare(name, name, "none", part)[1] == parts[part][1]).all(), name, part, "labels")
        simple("mnist:set", "mnist:set", parts["train"][0], parts[part][0], part)
        for epsilon in (0.1, 0.001):
            zca("mnist:set", "mnist:set", parts["train"][0], parts[part][0], part, epsilon)


def cifar_set():
    os.makedirs("cifar", exist_ok=True)
    images, labels = pictures(120, 3, 32, 32), random.integers(0, 10, 120).astype("u1")
    places = (0, 20, 21, 50, 80, 100, 120)
    for i in range(6):
        chunk = slice(places[i], places[i + 1])
        records = np.concatenate([labels[chunk, None], images[chunk].reshape(-1, 3072)], 1)
        records.tofile("cifar/test_batch.bin" if i == 5 else f"cifar/data_batch_{i + 1}.bin")
    simple("cifar10:cifar", "cifar10:cifar", images[:100], images[:100], "train")
    simple("cifar10:cifar", "cifar10:cifar", images[:100], images[100:], "test")
    check((prepare("cifar10:cifar", "cifar10:cifar", "none", "test")[1] == labels[100:]).all(), "CIFAR labels")


def two_files():
    """Layouts and types that numpy and h5py write; a channel that is constant; fewer pictures than pixels."""
    images, labels = pictures(90, 3, 6, 7), random.integers(0, 4, 90)
    images[:, 1] = 77
    np.save("planes.npy", images)
    np.save("mixed.npy", np.ascontiguousarray(images.transpose(0, 2, 3, 1)))
    np.save("fortran.npy", np.asfortranarray(images.astype(">f4")))
    np.save("labels.npy", labels)
    with h5py.File("both.h5", "w") as file:
        file.create_dataset("x", data=images.transpose(0, 2, 3, 1), chunks=(7, 6, 7, 3), compression="gzip")
        file.create_dataset("y", data=labels.astype("i2"))
    for name in ("planes.npy+labels.npy", "mixed.npy+labels.npy", "fortran.npy+labels.npy", "both.h5:x+both.h5:y",
                 "planes.npy+both.h5:y"):
        simple(name, "planes.npy+labels.npy", images, images, "train")
        check((prepare(name, name, "none")[1] == labels).all(), name, "labels")
        zca(name, "mixed.npy+labels.npy", images, images, "train", 0.1)
    # Enough pictures for more than one block of products, and values far from 0.
    many = pictures(2500, 2, 5, 8)
    np.save("many.npy", many)
    np.save("many.labels.npy", np.zeros(2500, "u1"))
    zca("many.npy+many.labels.npy", "many.npy+many.labels.npy", many, many, "train", 0.1)
    far = many.astype("f8") * 1e-3 + 5000
    np.save("far.npy", far)
    close(prepare("far.npy+many.labels.npy", "far.npy+many.labels.npy", "scale")[0],
          scaled(far, far, (0, 1, 2, 3))[0], 0.02, "far")  # 5000 in float32 is good to 2.5e-4, 0.005 deviations
    prepare("far.npy+many.labels.npy", "far.npy+many.labels.npy", "zca",
            fails="far.npy+many.labels.npy: found pixels from 5000 to 5000.25, expected them to use 0 to 255")
    np.save("unit.npy", many / 255)
    prepare("unit.npy+many.labels.npy", "unit.npy+many.labels.npy", "zca", fails="found pixels from 0 to 1, expected")


for left in os.listdir():  # by an earlier run
    if os.path.isfile(left):
        os.remove(left)
mnist_set()
cifar_set()
two_files()
print(checks, "checks")
