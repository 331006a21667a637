"""The memory that a dry run promises against what a run takes: anonymous and shared pages beyond the mapped file, as the
kernel counts them."""

import os
import subprocess
import time
import unittest

import numpy

from support import LACONIC, ProgramTest

FIXED = 12e6  # bytes a worker: the program itself, validation, blocks in work, what is rounded up to huge pages


def taken(process):
    """Bytes at the peak of what is neither mapped from a file nor swapped out."""
    most = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
                pages = dict(line.split(":", 1) for line in file)
        except ProcessLookupError:
            continue
        # a process that is about to end has none any more
        most = max(most, sum(1024 * int(pages.get(key, "0").split()[0]) for key in ("RssAnon", "RssShmem")))
        time.sleep(0.001)
    return most


class Memory(ProgramTest):
    def test_as_promised(self):
        draw = numpy.random.default_rng(5)
        many = draw.integers(0, 200, (600000, 24), "u1") + draw.integers(0, 50, (600000, 1), "u1")
        numpy.save("bytes.npy", many)
        numpy.save("wide.npy", draw.standard_normal((20000, 500), "f4"))
        linear, rbf = (), ("--encoder", "rbf", "--centres", 150)
        for file, encoder, workers in (("bytes", linear, 1), ("bytes", linear, 2), ("bytes", rbf, 2), ("wide", linear, 1),
                                       ("wide", rbf, 2)):
            command = ["hash", "train", f"{file}.npy", "-o", "m.safetensors", "--bits", 16, "--workers", workers,
                       "--iterations", 2, *encoder]
            promised, = self.run_json(*command, "--dry-run")
            promised = workers * promised["memory"]
            with subprocess.Popen([LACONIC, *map(str, command), "-q"], stdout=subprocess.DEVNULL) as process:
                found = taken(process)
            self.assertEqual(process.returncode, 0)
            self.assertLess(found, 1.1 * promised + FIXED * workers, command)
            self.assertGreater(found, 0.7 * promised, command)
            os.remove("m.safetensors")


if __name__ == "__main__":
    unittest.main()
