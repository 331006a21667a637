"""The generator of vectors: the same rows in every format and however they are cut into parts, spread as asked; bad usage
and bad outputs end with 2, one line that says why, and nothing written."""

import os
import signal
import subprocess
import sys
import time

import numpy as np

GENERATE = sys.argv[1]


def check(condition, *what):
    if not condition:
        print("FAILED:", *what)
        sys.exit(1)


def run(*arguments, status=0):
    done = subprocess.run([GENERATE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(done.returncode == status, arguments, done.returncode, done.stderr)
    return done.stderr


def bvecs(name):
    data = np.fromfile(name, "u1")
    columns = int(data[:4].view("i4")[0])
    records = data.reshape(-1, 4 + columns)
    check((records[:, :4] == records[0, :4]).all(), name, "dimensions")
    return records[:, 4:]


def same_rows():
    for columns in (1, 7, 8, 100, 300):
        options = ["--rows=999", "--columns", str(columns), "--clusters=10", "--seed=5"]
        for name in ("a.bvecs", "a.u8bin", "a.fvecs"):
            run(*options, name)
        rows = bvecs("a.bvecs")
        check(rows.shape == (999, columns), rows.shape)
        head = np.fromfile("a.u8bin", "u4", 2)
        check(list(head) == [999, columns], head)
        check((np.fromfile("a.u8bin", "u1", offset=8).reshape(999, columns) == rows).all(), columns, "u8bin")
        floats = np.fromfile("a.fvecs", "f4").reshape(999, columns + 1)
        check((floats[:, 0].copy().view("i4") == columns).all() and (floats[:, 1:] == rows).all(), columns, "fvecs")
        run("--rows=99", "--first=900", "--columns", str(columns), "--clusters=10", "--seed=5", "b.bvecs")
        check((bvecs("b.bvecs") == rows[900:]).all(), columns, "parts")
        run("--rows=999", "--columns", str(columns), "--clusters=10", "--seed=6", "b.bvecs")
        check((bvecs("b.bvecs") != rows).mean() > 0.5, columns, "another seed")


def spread():
    """One cluster: independent values about its centre. 20,000 rows give means to 20 / sqrt(20000) = 0.14."""
    run("--rows=20k", "--columns=40", "--clusters=1", "--spread=20", "a.bvecs")
    rows = bvecs("a.bvecs").astype("f8")
    inside = (rows.mean(0) > 80) & (rows.mean(0) < 175)  # where nothing is cut off
    check(inside.sum() > 10, rows.mean(0))
    deviation = rows[:, inside].std(0)
    check((abs(deviation - 20) < 0.6).all(), deviation)  # 256 quantiles have 1.5 % less
    correlation = np.corrcoef(rows[:, inside].T) - np.eye(inside.sum())
    check(abs(correlation).max() < 5 / 20000**0.5, correlation)
    run("--rows=20k", "--columns=40", "--clusters=1", "--spread=0", "a.bvecs")
    check((bvecs("a.bvecs") == bvecs("a.bvecs")[0]).all(), "no spread")
    # Many clusters: their sizes are even, and each has a centre of its own.
    run("--rows=20k", "--columns=40", "--clusters=50", "--spread=0", "a.bvecs")
    centres, counts = np.unique(bvecs("a.bvecs"), axis=0, return_counts=True)
    check(len(centres) == 50 and counts.min() > 300 and counts.max() < 500, counts)  # 400 +- 5 standard deviations


def refused():
    for arguments, word in (
        ([], "no output"),
        (["a.npy"], ".npy"),
        (["a"], "extension ''"),
        (["--rows=0", "a.bvecs"], "rows"),
        (["--rows", "many", "a.bvecs"], "many"),
        (["--row=5", "a.bvecs"], "--rows"),
        (["--rows"], "rows"),
        (["--spread=nan", "a.bvecs"], "spread"),
        (["a.bvecs", "b.bvecs"], "second"),
        (["--rows=5G", "a.u8bin"], "4294967295"),
        (["none/a.bvecs"], "none"),
    ):
        message = run(*arguments, status=2)
        check(word in message.splitlines()[0], arguments, message)
    os.symlink("/dev/full", "full.bvecs")
    check("No space" in run("full.bvecs", status=1), "disk full")


def interrupted():
    before = bvecs("a.bvecs")
    process = subprocess.Popen([GENERATE, "--rows=1G", "a.bvecs"], stderr=subprocess.PIPE)
    while not any(".part-" in name for name in os.listdir()):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    message = process.communicate()[1]
    check(process.returncode == 130 and b"interrupted" in message, process.returncode, message)
    check((bvecs("a.bvecs") == before).all(), "what was there is untouched")


for left in os.listdir():  # by an earlier run
    os.remove(left)
same_rows()
spread()
refused()
interrupted()
check(not any(".part-" in name for name in os.listdir()), "nothing is left over", os.listdir())
