"""The environment of a benchmark, set on import, before numpy or FAISS is loaded: one thread, and the best OpenBLAS.

OpenBLAS chooses its kernels by the processor's model. Where it knows better than what the environment asks for, the
environment's request is dropped; where it does not know the model and falls back to kernels without AVX (Debian 12's does
so on processors younger than itself, which costs a factor of four), the kernels of the instruction set are asked for. The
same choice holds for all that runs in a benchmark, the peers too. As a program it prints the setting, for env(1):

    env $(python3 bench/blas.py) build/bench/machine
"""

import os
import subprocess
import sys

VARIABLE = "OPENBLAS_CORETYPE"
# The program does the same by itself: src/cli/openblas.c.
WITHOUT_AVX = {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Atom", "Katmai", "Northwood", "Banias", "Athlon",
               "Opteron", "Opteron_SSE3", "Barcelona", "Bobcat", "Nano"}
AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}


def core():
    """The name of the kernels that OpenBLAS takes in this environment; None without OpenBLAS."""
    script = ("import ctypes; name = ctypes.CDLL('libopenblas.so.0').openblas_get_corename; "
              "name.restype = ctypes.c_char_p; print(name().decode())")
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def instruction_sets():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    return set()


def choose():
    for name in (VARIABLE, "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"
    sets = instruction_sets()
    if core() in WITHOUT_AVX and "avx2" in sets:
        os.environ[VARIABLE] = "SkylakeX" if AVX512 <= sets else "Haswell"


choose()

if __name__ == "__main__":
    print(f"{VARIABLE}={os.environ[VARIABLE]}" if VARIABLE in os.environ else "")
