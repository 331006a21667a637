"""laconic plan hash and plan train under SimGrid: --simulate beside the formula and the engine's rehearsal, platform files,
and that nothing is left behind, whatever happens."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from support import LACONIC, ProgramTest

HOUSE = os.path.join(os.environ["LACONIC_SOURCE"], "tests", "house")
CLUSTER = os.path.join(HOUSE, "cluster.xml")
SHORT = ("--network", "100MB,100us", "--speeds", "1,0.5")  # the same in the short form
HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">\n'
HASH = ("plan", "hash", "--points", 100000, "--dims", 32, "--bits", 8, "--real-limit", 0)
TRAIN = ("plan", "train", "--parameters", "10k", "--compute", "5ms", "--gradients", 1000)


class Simulated(ProgramTest):
    """TMPDIR is a folder that must be empty after each test."""

    def setUp(self):
        super().setUp()
        smpirun = os.path.dirname(os.environ.get("LACONIC_REAL_SMPIRUN") or "/usr/bin/smpirun")
        os.mkdir("temporary")
        self.environment = {**os.environ, "TMPDIR": os.path.abspath("temporary"),
                            "PATH": f"{os.environ['PATH']}:{smpirun}"}

    def tearDown(self):
        left = os.listdir("temporary"), self.processes()
        super().tearDown()
        self.assertEqual(left, ([], []))

    def processes(self):
        """Command lines of those that run in this test's folder."""
        found = []
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{number}/cmdline", errors="replace") as file:
                    line = file.read()
                if int(number) != os.getpid() and os.path.samefile(f"/proc/{number}/cwd", ".") and line:
                    found.append(line)
            except OSError:
                pass
        return found

    def fake_smpirun(self, script, everything=False):
        """In place of the real one, but for the question which version it is."""
        os.makedirs("bin", exist_ok=True)
        if not self.environment["PATH"].startswith(os.path.abspath("bin")):
            self.environment["PATH"] = os.path.abspath("bin") + ":" + self.environment["PATH"]
        with open("bin/smpirun", "w") as file:
            file.write("#!/bin/sh\n" + ("" if everything else '[ "$1" != -version ] || exit 0\n') + script + "\n")
        os.chmod("bin/smpirun", 0o755)

    def run_program(self, *arguments, **more):
        return super().run_program(*arguments, **{"env": self.environment, **more})

    def plan(self, *arguments):
        """Lines of one source after the other: {source: [line, …]}."""
        *lines, done = self.run_json(*arguments)
        self.assertEqual(done["event"], "done")
        found = {}
        for line in lines:
            if line.get("event") == "plain":
                continue
            found.setdefault(line["source"], []).append(line)
        return found

    def write_platform(self, name, hosts, more=""):
        with open(name, "w") as file:
            file.write(f'{HEAD}<zone id="z" routing="Full">{hosts}{more}</zone></platform>\n')


class Hash(Simulated):
    def check_close(self, one, other, delta):
        for a, b in zip(one, other):
            self.assertEqual(a["workers"], b["workers"])
            self.assertAlmostEqual(a["seconds_per_iteration"] / b["seconds_per_iteration"], 1, delta=delta)
            self.assertAlmostEqual(a["messages"] / b["messages"] if b["messages"] else 1 + a["messages"], 1, 12)

    def test_beside_formula_and_rehearsal(self):
        command = (*HASH, "--points", "1e6", "--workers", "1,2,8,16,24", "--epochs", 2, "--rehearse", "--simulate")
        lines = self.plan(*command)
        self.assertEqual({source: len(found) for source, found in lines.items()}, {"formula": 5, "sim": 5, "smpi": 5})
        self.check_close(lines["formula"][:4], lines["smpi"][:4], 0.05)
        self.check_close(lines["formula"], lines["smpi"], 0.1)
        self.check_close(lines["sim"], lines["smpi"], 0.05)
        for sim, smpi in zip(lines["sim"], lines["smpi"]):
            self.assertEqual(list(sim), list(smpi))
            self.assertEqual((sim["bytes"], sim["messages"]), (smpi["bytes"], smpi["messages"]))
        self.assertEqual(self.plan(*command), lines)  # to the last digit

    def test_really(self):
        """What one worker really does, once, is counted like what is foretold; it takes what it takes."""
        lines = self.plan("plan", "hash", "--points", 2000, "--dims", 16, "--bits", 4, "--iterations", 2, "--workers", "1,2",
                          "--simulate", "--rehearse")
        real = lines["real"]
        self.assertEqual([line["workers"] for line in real], [1, 2][:max(1, min(2, len(os.sched_getaffinity(0))))])
        self.assertEqual((real[0]["speedup"], real[0]["efficiency"]), (1, 1))
        for line, formula in zip(real, lines["formula"]):
            self.assertGreater(line["seconds"]["total"], 0)
            self.assertEqual((line["messages"], line["bytes"]), (formula["messages"], formula["bytes"]))
        text = self.run_ok("plan", "hash", "--points", 2000, "--dims", 16, "--bits", 4, "--iterations", 2, "--workers", 2,
                           "--simulate", "--plot", "s.svg")  # compared with nothing
        if len(real) > 1:
            self.assertRegex(text, r"\n +2 +- +- +[^\n]+ real\n")
        self.assertNotIn("real", self.plan(*HASH, "--workers", 1, "--simulate"))

    def test_options_of_the_simulator(self):
        """The program runs smpirun as the tests of the back end do."""
        self.fake_smpirun('echo "$@" >>seen; exit 3')
        self.assertEqual(self.run_program(*HASH, "--workers", 2, "--simulate").returncode, 1)
        with open("seen") as file:
            seen = {word for word in file.read().split() if word.startswith(("--cfg", "--log"))}
        with open(os.path.join(HOUSE, "smpirun.sh")) as file:
            wanted = {word for word in file.read().split("exec ")[1].split() if word.startswith(("--cfg", "--log"))}
        self.assertEqual({word for word in seen if "host-speed" not in word and "concurrency" not in word},
                         {word for word in wanted if "host-speed" not in word})

    def test_links(self):
        """What leaves each worker adds up; without rounds and with one order of the ring, the engine says the same twice."""
        lines = self.plan(*HASH, "--workers", "1,3,8", "--epochs", 2, "--links", "--rehearse", "--simulate")
        for source, found in lines.items():
            for line in found:
                self.assertEqual(len(line["links"]), line["workers"])
                for key in ("messages", "bytes"):
                    self.assertAlmostEqual(sum(link[key] for link in line["links"]), line[key], delta=1e-9 * line[key])
                self.assertEqual(max(link["bytes"] for link in line["links"]), line["link_bytes"], source)
        self.assertEqual([line["links"] for line in lines["sim"]], [line["links"] for line in lines["smpi"]])
        self.assertNotIn("links", self.plan(*HASH, "--workers", 2)["formula"][0])
        text = self.run_ok(*HASH, "--workers", 3, "--links")
        self.assertRegex(text, r"\nworkers +of worker +messages sent +sent  source\n +3 +0-2 +\d+[^\n]*formula\n")

    def test_costs(self):
        """In any unit, and with all computing in it: 16 submodels, of one kind."""
        lines = self.plan(*HASH, "--costs", "1,40,1e4", "--workers", "1,4,16", "--simulate", "--points", "1e6")
        self.check_close(lines["formula"], lines["smpi"], 0.02)

    def test_cluster_is_its_short_form(self):
        common = (*HASH, "--workers", "2,4,7", "--rehearse", "--simulate")
        file, short = self.plan(*common, "--cluster", CLUSTER), self.plan(*common, *SHORT)
        self.assertEqual(file["formula"], short["formula"])
        self.check_close(file["sim"], short["sim"], 1e-6)
        self.check_close(file["smpi"], short["smpi"], 0.02)  # the file's links are shared, the short form's serve in turn
        self.assertIn(f"network {CLUSTER}", self.run_ok(*HASH, "--workers", 2, "--cluster", CLUSTER))

    def test_one_host(self):
        self.write_platform("one.xml", '<host id="a" speed="2Gf"/>')
        lines = self.plan(*HASH, "--workers", 1, "--cluster", "one.xml", "--simulate")
        self.check_close(lines["formula"], lines["smpi"], 0.001)

    def test_a_host_slows_down(self):
        """To a quarter in the middle of the job: the rest of it takes four times as long, for both."""
        link = '<link id="l" bandwidth="10GBps" latency="1us"/><route src="a" dst="b"><link_ctn id="l"/></route>'
        hosts = '<host id="a" speed="1Gf"/><host id="b" speed="1Gf" speed_file="b.speed"/>'
        common = (*HASH, "--points", "1e6", "--workers", 2, "--iterations", 8, "--subsample", 1, "--simulate",
                  "--rehearse-iterations", 10)
        self.write_platform("even.xml", hosts.replace(' speed_file="b.speed"', ""), link)
        self.write_platform("slow.xml", hosts, link)
        even, = self.plan(*common, "--cluster", "even.xml")["smpi"]
        each = even["seconds_per_iteration"]
        with open("b.speed", "w") as file:
            file.write(f"0.0 1.0\n{6 * each} 0.25\n")
        lines = self.plan(*common, "--cluster", "slow.xml")
        # Eleven iterations of which the first is not counted: 5 as before, 5 that take four times as long.
        self.assertAlmostEqual(lines["smpi"][0]["seconds_per_iteration"] / each, (5 + 5 * 4) / 10, delta=0.1)
        self.assertAlmostEqual(lines["formula"][0]["seconds_per_iteration"] / each, 1, delta=0.01)

    def test_table_and_picture(self):
        text = self.run_ok(*HASH, "--workers", "1,2,4", "--simulate", "--plot", "s.svg")
        self.assertEqual([line.split()[-1] for line in text.splitlines()[2:8]], ["formula", "smpi"] * 3)
        with open("s.svg") as file:
            picture = file.read()
        self.assertIn("smpi", picture)
        self.assertIn("plain", picture)

    def test_bad_clusters(self):
        small = (*HASH, "--workers", 2)
        self.run_bad(*HASH, "--workers", 9, "--cluster", CLUSTER, names=(CLUSTER, "8 hosts", "9 workers"))
        self.run_bad(*TRAIN, "--workers", 9, "--cluster", CLUSTER, names=(CLUSTER, "8 hosts", "9 workers"))
        self.run_bad(*small, "--cluster", "none.xml", names=("none.xml", "No such file"))
        for text, words in ((HEAD, "broken.xml:4"), ("<x", "broken.xml:1"), ("", "broken.xml"),
                            (f'{HEAD}<zone id="z" routing="Full"/></platform>\n', "no hosts")):
            with open("broken.xml", "w") as file:
                file.write(text)
            self.run_bad(*small, "--cluster", "broken.xml", names=("broken.xml", words))
            self.run_bad(*small, "--cluster", "broken.xml", "--simulate", names=("broken.xml", words))
        for key, value in (("network", "1Gbit,1us"), ("speeds", "1,1")):
            self.run_bad(*small, "--cluster", CLUSTER, f"--{key}", value, names=("--cluster", f"--{key}"))
            self.run_bad(*TRAIN, "--cluster", CLUSTER, f"--{key}", value, names=("--cluster", f"--{key}"))

    def test_more_than_memory(self):
        """The estimate is said before anything starts."""
        self.run_bad("plan", "hash", "--points", "1e9", "--dims", "100k", "--bits", 1024, "--workers", "1,4096", "--simulate",
                     names=("--simulate", "4096 workers", "TB", "expected no more than"), timeout=5)
        self.run_bad(*TRAIN, "--workers", 5000, "--simulate", names=("--simulate", "5000", "4096"), timeout=5)

    def test_without_smpirun(self):
        os.mkdir("bin")
        self.environment["PATH"] = os.path.abspath("bin")
        for command in HASH, TRAIN:
            self.run_bad(*command, "--workers", 2, "--simulate", names=("smpirun", "libsimgrid-dev"))

    def test_smpirun_that_fails(self):
        """Its last word is passed on; a run that ends well without an answer is none."""
        for script, words in (("echo broken >&2; exit 3", ("status 3", "broken")), ("exit 0", ("status 0",)),
                              ("kill -9 $$", ("2 workers",))):
            self.fake_smpirun(script)
            self.run_bad(*HASH, "--workers", 2, "--simulate", names=words, status=1)

    def test_interrupted_in_a_program(self):
        """Whatever it is doing, also where it does not listen, and without a word on what to install."""
        for script in "exec sleep 60", 'trap "" TERM; sleep 60', '[ "$1" = -version ] && exec sleep 60':
            self.fake_smpirun(script, everything=script.startswith("["))
            run = subprocess.Popen([LACONIC, *map(str, HASH), "--workers", "2", "--simulate"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.environment)
            time.sleep(0.5)
            run.send_signal(signal.SIGINT)
            begun = time.monotonic()
            self.assertEqual((run.communicate(timeout=60)[1], run.returncode), ("laconic: interrupted\n", 130), script)
            self.assertLess(time.monotonic() - begun, 20)
            self.assertEqual(self.processes(), [])

    def test_folders_that_cannot_be(self):
        os.mkdir("white space")
        place = os.path.abspath("white space")
        self.run_bad(*HASH, "--workers", 2, "--simulate", env={**self.environment, "TMPDIR": place},
                     names=("white space",))
        self.assertEqual(os.listdir(place), [])
        self.run_bad(*HASH, "--workers", 2, "--simulate", env={**self.environment, "TMPDIR": "/none"}, status=1,
                     names=("/none", "No such file"))
        self.run_bad(*HASH, "--workers", 2, "--simulate", status=1, names=("/none", "No such file"),
                     env={**self.environment, "TMPDIR": "/none" + "/more" * 30})

    def test_interrupt(self):
        for number in signal.SIGINT, signal.SIGTERM:
            with tempfile.TemporaryFile("w+") as said:
                run = subprocess.Popen([LACONIC, "plan", "hash", "--points", "1e8", "--bits", "128", "--epochs", "9",
                                        "--workers", "250", "--simulate"], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                       env=self.environment)
                begin = time.monotonic()
                while not any("smpimain" in line for line in self.processes()) and time.monotonic() < begin + 20:
                    time.sleep(0.02)
                time.sleep(0.5)
                self.assertIsNone(run.poll(), "it was to take long")
                self.assertEqual(len(os.listdir("temporary")), 1)
                run.send_signal(number)
                self.assertEqual(run.wait(timeout=20), 130)
                said.seek(0)
                self.assertEqual(said.read(), "laconic: interrupted\n")
            self.assertEqual((os.listdir("temporary"), self.processes()), ([], []))


class Train(Simulated):
    def check_close(self, one, other, delta):
        for a, b in zip(one, other):
            self.assertEqual((a["workers"], a["method"], a["exchange"]), (b["workers"], b["method"], b["exchange"]))
            self.assertAlmostEqual(a["seconds"]["total"] / b["seconds"]["total"], 1, delta=delta)
            self.assertAlmostEqual(a["messages"] / b["messages"], 1, 9)
            self.assertAlmostEqual(a["bytes"] / b["bytes"], 1, 9)

    def test_beside_formula_and_rehearsal(self):
        command = (*TRAIN, "--workers", "2,4", "--compare", "sgd,parle", "--rehearse", "--simulate", "--network",
                   "1Gbit,50us")
        lines = self.plan(*command)
        self.assertEqual({source: [(line["label"], line["workers"]) for line in found] for source, found in lines.items()},
                         dict.fromkeys(("formula", "sim", "smpi"), [("sgd", 2), ("sgd", 4), ("parle", 2), ("parle", 4)]))
        self.check_close(lines["formula"], lines["smpi"], 0.05)
        self.check_close(lines["sim"], lines["smpi"], 0.05)
        for formula, smpi in zip(lines["formula"], lines["smpi"]):
            self.assertEqual(list(formula), list(smpi))
            self.assertEqual(formula["t_mix"], smpi["t_mix"])
            self.assertAlmostEqual(smpi["seconds_per_1000_gradients"] / smpi["seconds"]["total"],
                                   formula["seconds_per_1000_gradients"] / formula["seconds"]["total"], 9)
        self.assertEqual(self.plan(*command), lines)

    def test_cluster_is_its_short_form(self):
        common = (*TRAIN, "--workers", "2,4", "--compare", "sgd/async-ring,elastic", "--simulate")
        file, short = self.plan(*common, "--cluster", CLUSTER), self.plan(*common, *SHORT)
        self.assertEqual(file["formula"], short["formula"])
        self.check_close(file["smpi"], short["smpi"], 0.02)  # whole vectors there, short ones and envelopes here
        for line in file["formula"] + file["smpi"]:
            self.assertLess(line["speedup"], 0.76 * line["workers"])

    def test_links(self):
        """The server's link and the others', the same from formula, rehearsal and simulation."""
        lines = self.plan(*TRAIN, "--workers", 4, "--compare", "sgd/server,parle", "--rehearse", "--simulate", "--links")
        server, parle = ([[line for line in found if line["label"] == label][0] for found in lines.values()]
                         for label in ("sgd/server", "parle"))
        for line in server:
            for link, vectors in zip(line["links"], (3, 1, 1, 1)):  # of 1,000 gradients
                self.assertAlmostEqual(link["messages"], 1000 * vectors, 6)
                self.assertAlmostEqual(link["bytes"], 40e6 * vectors, delta=1)
        for line in parle:
            for link in line["links"]:
                self.assertAlmostEqual(link["messages"], 40 * 6, 6)
                self.assertAlmostEqual(link["bytes"], 40 * 1.5 * 40e3, delta=1)

    def test_really(self):
        """A network's gradients on as many workers as this machine has cores for; none for another machine's."""
        job = ("plan", "train", "--model", "mlp:64-32-10", "--batch", 16, "--gradients", 1000, "--simulate", "--links")
        real = self.plan(*job, "--workers", "1,2", "--compare", "sgd,parle,sgd/adpsgd")["real"]
        most = min(2, len(os.sched_getaffinity(0)))
        self.assertEqual([(line["label"], line["workers"]) for line in real],
                         [(label, n) for label in ("sgd", "parle", "sgd/adpsgd") for n in range(1, most + 1)])
        for line in real:
            seconds = line["seconds"]
            self.assertAlmostEqual(seconds["w"] + seconds["waiting"], seconds["total"], 9)
            self.assertGreater(seconds["w"], 0)
            self.assertEqual(len(line["links"]), line["workers"])
            if line["workers"] == 1:
                self.assertEqual((line["speedup"], line["efficiency"], line["bytes"]), (1, 1, 0))
            else:
                self.assertAlmostEqual(line["speedup"] / line["workers"], line["efficiency"], 9)
                self.assertGreater(line["bytes"], 0)
        self.assertNotIn("real", self.plan(*job, "--workers", 1, "--compute", "5ms"))
        self.assertNotIn("real", self.plan(*job, "--workers", 1, "--real-limit", 0))

    def test_table(self):
        text = self.run_ok(*TRAIN, "--workers", 2, "--simulate")
        self.assertEqual([line.split()[-1] for line in text.splitlines()[1:3]], ["formula", "smpi"])


if __name__ == "__main__":
    unittest.main()
