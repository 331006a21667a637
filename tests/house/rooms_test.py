"""Checks what ARCHITECTURE.md says of the rooms, on the sources themselves.

A file includes only its own room and those below it, the command line only public headers; the calls of MPI, BLAS and
LAPACK, and printing, each stay where they belong; the pictures in docs show no paths. Prints a line for each breach; exits
1 if there is one.
"""

import os
import re
import sys

# A room may include itself and the rooms of lower floors; rooms of the same floor do not know each other.
FLOOR = {"base": 0, "math": 1, "comm": 2, "store": 2, "data": 3, "mac": 4, "optim": 4, "mixing": 4, "hash": 5, "replica": 5, "nn": 5,
         "classifier": 6, "plan": 6}
# Rooms that use less than what their floor allows.
ONLY = {"nn": {"base", "math"}}
# Rooms whose public header carries another name than the room.
PUBLIC = {
    "context": "base", "status": "base", "version": "base", "options": "base", "output": "base", "profile": "base",
    "shape": "base", "tensors": "store", "world": "comm", "dataset": "data", "images": "data",
    "mac": "mac", "hash": "hash", "retrieval": "hash", "optimizer": "optim", "replica": "replica",
    "checkpoint": "replica", "topology": "mixing", "process": "mixing", "mixing": "mixing",
    "net": "nn", "classifier": "classifier", "plan": "plan", "calibration": "plan",
}
# (what, pattern, files that may)
RESERVED = [
    ("MPI", re.compile(r"#\s*include\s*<mpi\.h>|\bMPI_[A-Z][a-z_]+\s*\("),
     {"src/comm/mpi.c", "src/comm/mpi_link.h", "src/comm/mpi_packets.c", "src/comm/smpi_packets.c"}),
    ("SimGrid", re.compile(r"#\s*include\s*<(simgrid|smpi|xbt)/|\b(smpi|sg|simgrid)_[a-z]\w*\s*\("),
     {"src/base/profile.c", "src/comm/smpi_packets.c"}),
    ("BLAS and LAPACK", re.compile(r"#\s*include\s*<(cblas|lapacke?|openblas_config)\.h>|\b(cblas_|LAPACKE_|openblas_)\w+\s*\("),
     {"src/math/blas.c"}),
    ("protobuf", re.compile(r"#\s*include\s*[<\"](protobuf-c/|[\w/]+\.pb-c\.h)|\b(lac_onnx__|protobuf_c_)\w+\s*\("),
     {"src/classifier/onnx.c"}),
    ("ARPACK", re.compile(r"#\s*include\s*<(arpack/)?arpack\w*\.h>|\b(ds(a|e)upd_c|dn(a|e)upd_c)\s*\("), {"src/math/arpack.c"}),
    ("CHOLMOD", re.compile(r"#\s*include\s*<(suitesparse/)?cholmod\w*\.h>|\bcholmod_l?_?\w+\s*\("), {"src/mixing/eigen.c"}),
    ("oneDNN", re.compile(r"#\s*include\s*<(oneapi/dnnl/)?dnnl\w*\.h>|\bdnnl_\w+\s*\("),
     {"src/nn/onednn.h", "src/nn/onednn.c", "src/nn/onednn_layers.c", "src/nn/onednn_plan.c"}),
]
# The library never prints, exits or aborts, and keeps no state of its own between calls.
LIBRARY_FORBIDDEN = [
    ("printing", re.compile(r"\b(printf|vprintf|puts|putchar|perror)\s*\(|\b(stdout|stderr)\b")),
    ("leaving the process", re.compile(r"\b(exit|_exit|abort|quick_exit)\s*\(")),
]
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


def code_of(text):
    """The text without comments and string literals, line numbers kept; includes keep their names."""
    def blank(match):
        whole = match.group(0)
        line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        if whole[0] == '"' and re.match(r"\s*#\s*include", line):
            return whole
        return re.sub(r"[^\n]", " ", whole)
    return COMMENT_OR_TEXT.sub(blank, text)


def included_room(name):
    if name.startswith("laconic/"):
        stem = name[len("laconic/"):-len(".h")]
        return PUBLIC.get(stem, "?")
    return name.split("/")[0] if "/" in name else None


def breaches_of(path, room, text):
    code = code_of(text)
    line_of = lambda match: code.count("\n", 0, match.start()) + 1
    for match in INCLUDE.finditer(code):
        name = match.group(1)
        if room == "cli":
            if not name.startswith(("laconic/", "cli/")):
                yield line_of(match), f'includes "{name}"; the command line uses public headers and its own only'
            continue
        other = included_room(name)
        if other is None:
            yield line_of(match), f'includes "{name}"; expected the form "room/name.h"'
        elif other not in FLOOR:
            yield line_of(match), f'includes "{name}", which is of no room that a library may use'
        elif other != room and FLOOR[other] >= FLOOR[room]:
            yield line_of(match), f'includes "{name}" of room {other}, which is not below {room}'
        elif other != room and room in ONLY and other not in ONLY[room]:
            yield line_of(match), f'includes "{name}" of room {other}; {room} uses {", ".join(sorted(ONLY[room]))} only'
    for what, pattern, allowed in RESERVED:
        if path not in allowed:
            for match in pattern.finditer(code):
                yield line_of(match), f"{match.group(0).strip()}: {what} belongs to {', '.join(sorted(allowed))}"
    if room != "cli":
        for what, pattern in LIBRARY_FORBIDDEN:
            for match in pattern.finditer(code):
                yield line_of(match), f"{match.group(0).strip()}: {what} is left to the caller of the library"


def sources(root, folder, ends):
    for where, _, names in sorted(os.walk(os.path.join(root, folder))):
        for name in sorted(names):
            if name.endswith(ends):
                yield os.path.relpath(os.path.join(where, name), root)


def main():
    root = os.environ["LACONIC_SOURCE"]
    count, bad = 0, 0
    for path in sources(root, "src", (".c", ".h")):
        parts = path.split("/")
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        if len(parts) != 3 or (parts[1] != "cli" and parts[1] not in FLOOR):
            print(f"{path}: is in no room; expected src/ROOM/NAME")
            bad += 1
            continue
        for line, what in breaches_of(path, parts[1], text):
            print(f"{path}:{line}: {what}")
            bad += 1
        count += 1
    for path in sources(root, "include/laconic", (".h",)):
        stem = os.path.basename(path)[:-2]
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        if stem != "laconic":
            if stem not in PUBLIC:
                print(f"{path}: belongs to no room; add it to PUBLIC in this script")
                bad += 1
                continue
            for line, what in breaches_of(path, PUBLIC[stem], text):
                print(f"{path}:{line}: {what}")
                bad += 1
        count += 1
    for picture in sorted(os.listdir(os.path.join(root, "docs/plots"))):  # labels are names, not places on the machine that drew them
        with open(os.path.join(root, "docs/plots", picture), encoding="utf-8") as file:
            for label in re.findall(r"<text>\s*(/[^<]*)", file.read()):
                print(f"docs/plots/{picture}: found the path {label} as a label, expected a name")
                bad += 1
    print(f"{count} files, {bad} breaches")
    return 1 if bad or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
