"""The program starts itself anew where OpenBLAS does not know the processor: a library put before it says what it took.
And it ends OpenBLAS's own threads: it is held fast in mid-run, and its threads are counted."""

import fcntl
import os
import select
import subprocess
import sys
import unittest

from support import LACONIC, ProgramTest

STUB = sys.argv.pop(1)


def best():
    """What the processor of this machine should be given, None when it has no AVX2."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = set(next((line for line in file if line.startswith("flags")), ":").split(":", 1)[1].split())
    if not {"avx2", "fma"} <= flags:
        return None
    return "SkylakeX" if {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"} <= flags else "Haswell"


class Kernels(ProgramTest):
    def starts(self, kernels, **asked):
        """The setting at each start of one run."""
        environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
        sanitizer = ":".join(filter(None, [environment.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        environment.update(LD_PRELOAD=STUB, LACONIC_STUB="starts", LACONIC_STUB_KERNELS=kernels, ASAN_OPTIONS=sanitizer)
        text = self.run_ok("hash", "train", "--help", env=environment | asked)
        self.assertTrue(text.startswith("Usage: laconic hash train "))
        with open("starts", encoding="utf-8") as file:
            lines = [line.split() for line in file]
        os.remove("starts")
        self.assertEqual({name for _, name in lines}, {"laconic"})
        return [setting for setting, _ in lines]

    def test_kernels_without_avx_are_replaced_once(self):
        expected = ["-", best()] if best() else ["-"]
        for kernels in ("Prescott", "Nehalem", "Opteron_SSE3"):
            self.assertEqual(self.starts(kernels), expected, kernels)

    def test_kernels_with_avx_are_kept(self):
        for kernels in ("Haswell", "SkylakeX", "Zen", "Cooperlake", "Sapphirerapids", "one of tomorrow"):
            self.assertEqual(self.starts(kernels), ["-"], kernels)

    def test_a_setting_is_obeyed(self):
        self.assertEqual(self.starts("Prescott", OPENBLAS_CORETYPE="Nehalem"), ["Nehalem"])


class Threads(ProgramTest):
    def test_none_of_openblas_is_left(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)  # less than what is to be printed
        with subprocess.Popen([LACONIC, "hash", "train", "--help"], stdout=writer,
                              env=os.environ | {"OPENBLAS_NUM_THREADS": "4"}) as run:
            os.close(writer)
            self.assertTrue(select.select([reader], [], [], 60)[0])
            threads = os.listdir(f"/proc/{run.pid}/task")
            with open(reader, encoding="utf-8") as file:
                text = file.read()
        self.assertEqual(run.returncode, 0)
        self.assertGreater(len(text), 4096)
        self.assertEqual(threads, [str(run.pid)])


if __name__ == "__main__":
    unittest.main()
