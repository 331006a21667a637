"""The program without data: commands, options, help, manual page, completion, exit statuses."""

import functools
import os
import re
import socket
import subprocess
import unittest

from support import LACONIC, MPIEXEC, ProgramTest


@functools.cache
def commands():
    """The words of every command, as the overview lists them."""
    text = subprocess.run([LACONIC, "help"], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    return re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", text, re.M)


def help_options(text):
    """(letter, key, placeholder) of every option in a help text."""
    return re.findall(r"^  (?:-(\w), |    )--([a-z-]+)(?: ([A-Z]+))?(?:  |$)", text, re.M)


class Lines(ProgramTest):
    def test_a_line_is_written_in_one_piece(self):
        """So that the lines of several ranks do not mix: each write is a datagram here."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with ours, theirs:
            subprocess.run([LACONIC, "hash", "trian"], stderr=theirs.fileno(), check=False)
            ours.settimeout(10)
            self.assertRegex(ours.recv(65536).decode(), r"\Alaconic: unknown command 'hash trian'[^\n]*\n\Z")


class Help(ProgramTest):
    def test_overview_lists_every_command(self):
        self.assertIn("help", commands())
        self.assertEqual(len(set(commands())), len(commands()))
        self.assertEqual(self.run_ok("help"), self.run_ok("--help"))
        self.assertEqual(self.run_ok("help"), self.run_ok("-h"))

    def test_help_of_every_command(self):
        for command in commands():
            text = self.run_ok(*command.split(), "--help")
            self.assertTrue(text.startswith(f"Usage: laconic {command} "), command)
            self.assertEqual(text, self.run_ok("help", *command.split()))
            self.assertEqual(text, self.run_ok(*command.split(), "-h"))
            described = text.split("\nExamples:\n")[0]
            self.assertLessEqual(max(map(len, described.splitlines()[1:])), 80, command)
            keys = [key for _, key, _ in help_options(text)]
            self.assertEqual(len(set(keys)), len(keys), command)
            for key in ("json", "quiet", "verbose", "log-view", "help"):
                self.assertIn(key, keys)

    def test_version(self):
        self.assertRegex(self.run_ok("--version"), r"\Alaconic \d+\.\d+\.\d+\n\Z")

    def test_manual_page_has_every_command_and_option(self):
        page = self.run_ok("man")
        self.assertTrue(page.startswith(".TH LACONIC 1 "))
        plain = page.replace("\\-", "-")
        for command in commands():
            self.assertIn(f'.SS "laconic {command}', plain)
            for _, key, _ in help_options(self.run_ok("help", *command.split())):
                self.assertIn(f"\\fB--{key}\\fR", plain, command)
        for line in page.splitlines():
            if line.startswith("."):
                self.assertRegex(line, r"\A\.(TH|SH|SS|PP|TP|nf|fi)\b")

    def test_completion_is_bash_and_completes(self):
        script = self.run_ok("completion", "bash")

        def complete(*words):
            typed = " ".join(f"'{word}'" for word in words)
            ask = f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _laconic; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            done = subprocess.run(["bash", "-euc", ask], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  encoding="utf-8", timeout=30)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            return done.stdout.split()

        first = sorted({command.split()[0] for command in commands()} | {"--help", "--version"})
        self.assertEqual(sorted(complete("laconic", "")), first)
        self.assertEqual(complete("laconic", "compl"), ["completion"])
        for command in commands():
            keys = [key for _, key, _ in help_options(self.run_ok("help", *command.split()))]
            self.assertEqual(sorted(complete("laconic", *command.split(), "--")), sorted("--" + key for key in keys))
            if " " in command:
                self.assertIn(command.split()[1], complete("laconic", command.split()[0], ""))
                self.assertIn(command.split()[1], complete("laconic", "help", command.split()[0], ""))
        self.assertEqual(sorted(complete("laconic", "help", "")), first)
        self.assertEqual(complete("laconic", "help", "completion", ""), ["bash"])
        self.assertEqual(complete("laconic", "completion", "b"), ["bash"])
        self.assertEqual(complete("laconic", "hash", "train", "x.npy", ""), [])  # a file

        def values(key, text):
            """The values of an option that has a list of them, by its help."""
            about = re.search(rf"--{key} [A-Z]+\s+(.*?)(?=\n +(?:-\w, )?--|\n\n)", text, re.S).group(1)
            about = " ".join(about.split())
            listed = re.search(r"recognising it: ([\w, ]+)\Z", about) or re.search(r"\(([\w, ]+ or [\w]+)[;)]", about)
            return re.split(", | or ", listed.group(1)) if listed else None

        asked = 0
        for command in commands():
            text = self.run_ok("help", *command.split())
            for _, key, placeholder in help_options(text):
                expected = values(key, text) if placeholder in ("NAME", "FORMAT") else None
                if expected:
                    asked += 1
                    option = ("laconic", *command.split(), "operand", "--" + key)
                    self.assertEqual(sorted(complete(*option, "")), sorted(expected))
                    self.assertEqual(sorted(complete(*option, "=")), sorted(expected))  # as bash splits --key=
                    self.assertIn(expected[0], complete(*option, "=", expected[0][:2]))
        self.assertGreater(asked, 10)


class BadUsage(ProgramTest):
    def test_commands(self):
        self.run_bad(names=["no command", "laconic help"])
        self.run_bad("hlep", names=["'hlep'", "'help'"])
        self.run_bad("xyzzy", names=["'xyzzy'", "laconic help"])
        self.run_bad("--jsno", names=["--jsno"])
        self.run_bad("help", "xyzzy", names=["xyzzy"])
        self.run_bad("completion", "zsh", names=["zsh", "bash"])
        self.run_bad("completion", names=["completion", "operand", "usage"])
        self.run_bad("man", "page", names=["page", "usage"])

    def test_options(self):
        self.run_bad("man", "--qiuet", names=["--qiuet", "--quiet"])
        self.run_bad("man", "--nothing-like-it", names=["--nothing-like-it", "laconic man --help"])
        self.run_bad("man", "-Z", names=["-Z"])
        self.run_bad("man", "--json=yes", names=["--json", "yes"])
        self.run_bad("man", "--no-json=yes", names=["--no-json", "yes"])
        self.run_bad("man", "--" + "x" * 300, names=["unknown option"])
        self.run_bad("man", "-qv", names=["--quiet", "--verbose"])
        self.run_bad("man", "--", "--json", names=["--json"])  # an operand there, and one too many

    def test_flags_can_be_taken_back(self):
        self.run_ok("man", "-q", "--no-quiet", "-v")


class Output(ProgramTest):
    PAGES = (("man",), ("help",), ("hash", "train", "--help"), ("completion", "bash"), ("--version",))

    def test_full_disk_on_stdout(self):
        for page in self.PAGES:
            self.assertIn("No space left on device", self.run_full(*page))

    def test_reader_that_left(self):
        for page in self.PAGES:
            reading, writing = os.pipe()
            os.close(reading)
            done = subprocess.run([LACONIC, *page], stdout=writing, stderr=subprocess.PIPE, encoding="utf-8")
            os.close(writing)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"\Alaconic: standard output: [^\n]+: Broken pipe\n\Z", page)


@unittest.skipUnless(MPIEXEC, "built without MPI")
class Ranks(ProgramTest):
    def test_one_speaks_for_all(self):
        done = self.run_ranks(3, "--version")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, self.run_ok("--version"), ""))
        done = self.run_ranks(3, "man", "--qiuet")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"\Alaconic: [^\n]*--qiuet[^\n]*\n\Z")

    def test_most_commands_are_one_process(self):
        done = self.run_ranks(2, "info", "nothing")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"\Alaconic: info: found 2 ranks, expected one[^\n]*\n\Z")
        done = self.run_ranks(1, "info", "nothing")
        self.assertIn("nothing", done.stderr)


if __name__ == "__main__":
    unittest.main()
