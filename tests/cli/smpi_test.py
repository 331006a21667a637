"""The program for SMPI: the same results as without a simulator, in simulated time that repeats itself to the last digit.
Also laconic-platform, which reads the files that describe a cluster."""

import json
import os
import subprocess
import unittest
import unittest.mock

from network_test import Network
from support import MPIEXEC, ProgramTest, clustered_rows, write_npy

SMPI, PLATFORM, HOUSE = (os.environ["LACONIC_SMPI"], os.environ["LACONIC_PLATFORM"],
                         os.path.join(os.environ["LACONIC_SOURCE"], "tests", "house"))
CLUSTER = os.path.join(HOUSE, "cluster.xml")
WORKERS = 3
LATENCY = 1e-4


def simulate(*arguments, ranks=WORKERS):
    return subprocess.run([os.path.join(HOUSE, "smpirun.sh"), "-np", str(ranks), "-platform", CLUSTER, "-hostfile",
                           os.path.join(HOUSE, "cluster.hosts"), SMPI, *map(str, arguments)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          timeout=100)


def contents(path):
    with open(path, "rb") as file:
        return file.read()


class Hash(ProgramTest):
    def setUp(self):
        super().setUp()
        write_npy("x.npy", clustered_rows(900, 12, 3))
        self.train = ["hash", "train", "x.npy", "--bits", 8, "--iterations", 3, "--json", "-o"]

    @unittest.mock.patch.dict(os.environ, OPENBLAS_CORETYPE="Prescott")  # the program alone would choose better kernels
    def test_same_bits_as_threads_and_ranks(self):
        done = simulate(*self.train, "simulated.safetensors")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.run_ok(*self.train, "threads.safetensors", "--workers", WORKERS)
        self.assertEqual(contents("simulated.safetensors"), contents("threads.safetensors"))
        self.assertEqual(self.run_ranks(WORKERS, *self.train, "ranks.safetensors").returncode, 0)
        self.assertEqual(contents("simulated.safetensors"), contents("ranks.safetensors"))

    def test_time_is_simulated_and_repeats_itself(self):
        first, second = (simulate(*self.train, "m.safetensors").stdout for _ in range(2))
        self.assertEqual(first, second)
        start, *_, done = map(json.loads, first.splitlines())
        self.assertEqual((start["workers"], done["workers"]), (WORKERS, WORKERS))
        self.assertEqual(done["seconds"]["z"], 0)  # computing takes no time unless costs are given
        # A W step sends each submodel from worker to worker, one after the other, for a lap and a bit.
        self.assertGreater(done["seconds"]["w"], done["iterations"] * WORKERS * LATENCY)
        self.assertLess(done["seconds"]["w"], done["iterations"] * 3 * WORKERS * LATENCY)

    def test_computing_takes_what_a_calibration_says(self):
        self.run_ok("plan", "calibrate", "-o", "c.json", "--base", "x.npy", "--bits", 8, "--models", "none")
        with open("c.json") as file:
            calibration = json.load(file)
        calibration["hash"][0].update(z=1e-3, early_z=1e-3, begin=0, early_begin=0, visit=0, submodels=[0, 0], handling=0)
        with open("c.json", "w") as file:
            json.dump(calibration, file)
        free, priced = (json.loads(simulate(*self.train, "m.safetensors", *more).stdout.splitlines()[-1])
                        for more in ((), ("--calibration", "c.json")))
        self.assertEqual(priced["iterations"], free["iterations"])
        # Worker 0 has a third of the points, on a host of speed 1.
        points = len(clustered_rows(900, 12, 3)) / WORKERS
        self.assertAlmostEqual(priced["seconds"]["z"], priced["iterations"] * points * 1e-3, delta=1e-9)
        self.assertEqual(free["seconds"]["z"], 0)

    def test_bad_input_is_one_line_of_rank_0(self):
        for arguments, words in ((["hash", "train", "none.npy", "--bits", 8, "-o", "m"], "none.npy"),
                                 ([*self.train, "m", "--workers", WORKERS + 1], f"found {WORKERS + 1}"),
                                 (["info", "x.npy"], f"found {WORKERS} ranks")):
            done = simulate(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertRegex(done.stderr, r"\Alaconic: [^\n]+\n\Z")
            self.assertIn(words, done.stderr)
            self.assertEqual(os.listdir("."), ["x.npy"])


class Train(Network):
    """Networks on simulated ranks: with rounds the bits of threads, without rounds what repeats itself."""

    def simulate_training(self, name, way):
        done = simulate("train", *self.data, "-o", name, "--exchange", *way, "--epochs", 2, "--learning-rate", 0.02,
                        "--overwrite", "--json", "-q", ranks=4)
        self.assertEqual((done.returncode, done.stderr), (0, ""), way)
        return done.stdout

    def test_rounds_give_the_bits_of_threads(self):
        for way in (["allreduce"], ["dpsgd"]):
            self.simulate_training("simulated.safetensors", way)
            self.run_ok("train", *self.data, "-o", "threads.safetensors", "--exchange", *way, "--epochs", 2,
                        "--learning-rate", 0.02, "--overwrite", "--workers", 4, "-q")
            self.assertEqual(contents("simulated.safetensors"), contents("threads.safetensors"), way)

    def test_without_rounds_a_run_repeats_itself(self):
        for way in (["async-ring"], ["adpsgd"], ["async-server"]):
            one, two = (self.simulate_training(f"{name}.safetensors", way) for name in ("one", "two"))
            self.assertEqual(one.replace("one.", "two."), two, way)
            self.assertEqual(contents("one.safetensors"), contents("two.safetensors"), way)


class Platform(ProgramTest):
    HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">\n'

    def read(self, path, *sizes):
        return subprocess.run([PLATFORM, path, *map(str, sizes)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", timeout=60)

    def read_text(self, text, *sizes):
        with open("p.xml", "w") as file:
            file.write(self.HEAD + text + "</platform>\n")
        return self.read("p.xml", *sizes)

    def test_hosts_and_routes(self):
        done = self.read(CLUSTER)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout), {
            "hosts": [{"name": f"host{i}", "speed": 0.5e9 if i % 2 else 1e9} for i in range(8)],
            "networks": [{"hosts": 8, "latency": LATENCY, "bandwidth": 1e8}]})

    def test_names_in_natural_order(self):
        done = self.read_text('<cluster id="c" prefix="n" suffix="" radical="0-11" speed="2Gf" bw="1GBps" lat="50us"/>')
        about = json.loads(done.stdout)
        self.assertEqual([host["name"] for host in about["hosts"]], [f"n{i}" for i in range(12)])
        network, = about["networks"]
        self.assertAlmostEqual(network["latency"], 1e-4, delta=1e-12)  # on the way out and on the way in
        self.assertEqual(network["bandwidth"], 1e9)

    def test_the_worst_route_counts(self):
        done = self.read_text("""<zone id="z" routing="Full">
            <host id="a" speed="1Gf"/><host id="b" speed="1Gf"/><host id="c" speed="1Gf"/>
            <link id="ab" bandwidth="3MBps" latency="5ms"/><link id="bc" bandwidth="2MBps" latency="1ms"/>
            <link id="ca" bandwidth="9MBps" latency="7ms"/>
            <route src="a" dst="b"><link_ctn id="ab"/></route><route src="b" dst="c"><link_ctn id="bc"/></route>
            <route src="c" dst="a"><link_ctn id="ca"/></route></zone>""", 1, 2, 3, 9)
        self.assertEqual([(n["hosts"], n["latency"], n["bandwidth"]) for n in json.loads(done.stdout)["networks"]],
                         [(1, 0, 0), (2, 5e-3, 3e6), (3, 7e-3, 2e6), (3, 7e-3, 2e6)])  # of those that are asked for

    def test_one_host(self):
        done = self.read_text('<zone id="z" routing="Full"><host id="a" speed="1Gf"/></zone>')
        self.assertEqual(json.loads(done.stdout), {
            "hosts": [{"name": "a", "speed": 1e9}], "networks": [{"hosts": 1, "latency": 0, "bandwidth": 0}]})

    def test_numbers_that_cannot_be(self):
        """Each is named, where the simulator would take it or end without a word."""
        pair = """<zone id="z" routing="Full"><host id="a" speed="%s"/><host id="b" speed="1Gf"/>
            <link id="l" bandwidth="%s" latency="%s"/><route src="a" dst="b"><link_ctn id="l"/></route></zone>"""
        for values, words in ((("nanf", "1GBps", "1us"), "speed of a"), (("1e300Gf", "1GBps", "1us"), "speed of a"),
                              (("1Gf", "0Bps", "1us"), "bandwidth of a to b"), (("0f", "1GBps", "1us"), "speed of a")):
            done = self.read_text(pair % values)
            self.assertEqual((done.returncode, done.stdout), (2, ""), values)
            self.assertIn(words, done.stderr)

    def test_broken_files(self):
        for text, words in (('<zone id="z" routing="Full"><host id="a" speed="fast"/></zone>', "p.xml:4: cannot parse"),
                            ('<zone id="z" routing="Full">', "p.xml:"), ('<zone id="z" routing="Full"/>', "no hosts"),
                            ('<zone id="z" routing="Full"><host id="a" speed="1"/><host id="b" speed="1"/></zone>',
                             "no route")):
            done = self.read_text(text)
            self.assertEqual((done.returncode, done.stdout), (2, ""), text)
            self.assertIn(words, done.stderr)
        for path, words in (("none.xml", "No such file"), (os.devnull, "Parse error")):
            done = self.read(path)
            self.assertEqual((done.returncode, done.stdout), (2, ""), path)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
