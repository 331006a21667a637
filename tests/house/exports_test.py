"""exports_test.py NM LIBRARY: what the public headers declare is what the shared library defines, no more and no less."""

import glob
import os
import re
import subprocess
import sys

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
# A declaration from LAC_API to its semicolon; the name stands before the argument list or the array's brackets.
DECLARATION = re.compile(r"\bLAC_API\b(?P<text>[^;{]*);")
NAME = re.compile(r"\b(lac_\w+)\s*[(\[]")


def declared(folder):
    names = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.h"))):
        with open(path, encoding="utf-8") as file:
            code = COMMENT.sub(" ", file.read())
        code = "\n".join(line for line in code.split("\n") if not line.lstrip().startswith("#"))
        for match in DECLARATION.finditer(code):
            name = NAME.search(match.group("text"))
            if not name:
                sys.exit(f"{path}: no name found in: {match.group(0)}")
            names[name.group(1)] = os.path.basename(path)
        # A public function without the mark would not be exported: find those as well.
        for match in re.finditer(r"^(?!.*\bLAC_API\b)(?!.*\btypedef\b)[\w \*]*\b(lac_\w+)\([^;{]*\)[^;{]*;", code, re.M):
            names.setdefault(match.group(1), os.path.basename(path))
    return names


def main():
    nm, library = sys.argv[1:]
    headers = declared(os.path.join(os.environ["LACONIC_SOURCE"], "include/laconic"))
    listing = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    for name in sorted(headers.keys() - exported):
        print(f"{headers[name]} declares {name}, which the library does not export")
    for name in sorted(exported - headers.keys()):
        print(f"the library exports {name}, which no public header declares")
    print(f"{len(headers)} declared, {len(exported)} exported")
    return 0 if headers and headers.keys() == exported else 1


if __name__ == "__main__":
    sys.exit(main())
