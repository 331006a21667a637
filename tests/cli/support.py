"""What the tests of the program share: a folder of its own for each test, runs of the program, small data files."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

LACONIC = os.environ["LACONIC"]
MPIEXEC = os.environ.get("LACONIC_MPIEXEC", "")


class ProgramTest(unittest.TestCase):
    """Each test runs in an empty folder, which is removed afterwards."""

    maxDiff = None

    def setUp(self):
        self.home = os.getcwd()
        self.folder = tempfile.mkdtemp(dir=self.home)
        os.chdir(self.folder)

    def tearDown(self):
        os.chdir(self.home)
        shutil.rmtree(self.folder)

    def run_program(self, *arguments, timeout=60, **more):
        """Returns the finished process: returncode, stdout, stderr as text."""
        return subprocess.run([LACONIC, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", timeout=timeout, **more)

    def run_ok(self, *arguments, **more):
        """Runs it, expects success without a word on stderr, returns stdout."""
        done = self.run_program(*arguments, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def run_json(self, *arguments, **more):
        """The same with --json: the lines of stdout, parsed."""
        return [json.loads(line) for line in self.run_ok(*arguments, "--json", **more).splitlines()]

    def run_bad(self, *arguments, names=(), status=2, **more):
        """Runs it, expects the exit status, one line on stderr with all of `names` in it, nothing on stdout and every
        file as it was. Returns the line."""
        before = self.files()
        done = self.run_program(*arguments, **more)
        self.assertEqual((done.returncode, done.stdout), (status, ""), (arguments, done.stderr))
        self.assertRegex(done.stderr, r"\Alaconic: [^\n]+\n\Z", arguments)
        for name in names:
            self.assertIn(str(name), done.stderr, arguments)
        self.assertEqual(self.files(), before, arguments)
        return done.stderr

    def files(self):
        """Name and content of every file in the folder."""
        found = {}
        for where, _, names in os.walk("."):
            for name in names:
                path = os.path.join(where, name)
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        found[path] = file.read()
                else:
                    found[path] = None
        return found
