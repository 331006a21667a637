"""laconic mix: what it says beside formulas that are worked out here, files beside built-in graphs, bad input."""

import json
import math
import os
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree

from support import LACONIC, ProgramTest

PROTOCOLS = ["allreduce", "server", "async-server", "dpsgd", "adpsgd", "async-ring", "periodic"]
ON_TOPOLOGY = ["dpsgd", "adpsgd", "async-ring"]
ASYNCHRONOUS = ["async-server", "adpsgd", "async-ring"]
# As the issue names them, and in its order; what follows them is more.
KEYS = ["protocol", "topology", "workers", "slots", "t_mix", "spectral_gap", "messages_per_round", "bytes_per_round"]
TIME_KEYS = ["kind", "rounds", "updates", "lower", "upper", "standard_error"]


def slope(points):
    """Least squares of log y against log x."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mean_x, mean_y = (sum(column) / len(logs) for column in zip(*logs))
    return (sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs))


def write_ring(path, n, market=False):
    """An edge list from 0, or a symmetric Matrix Market file, whose lower half is written, from 1."""
    edges = [(i, (i + 1) % n) for i in range(n)]
    with open(path, "w") as file:
        if market:
            file.write(f"%%MatrixMarket matrix coordinate pattern symmetric\n% a ring\n{n} {n} {n}\n")
            file.writelines(f"{max(edge) + 1} {min(edge) + 1}\n" for edge in edges)
        else:
            file.write("# a ring\n\n")
            file.writelines(f"{i} {j}\n" for i, j in edges)


class Mix(ProgramTest):
    def check_line(self, line):
        self.assertEqual(list(line)[:len(KEYS)], KEYS)
        self.assertEqual(list(line["t_mix"])[:len(TIME_KEYS)], TIME_KEYS)
        mixing = line["t_mix"]
        self.assertIn(line["protocol"], PROTOCOLS)
        self.assertEqual(line["topology"] is None, line["protocol"] not in ON_TOPOLOGY)
        self.assertEqual(line["slots"], line["workers"] + (line["protocol"] == "async-server"))
        self.assertEqual(mixing["kind"], "realised" if line["protocol"] in ASYNCHRONOUS else "exact")
        self.assertAlmostEqual(mixing["updates"] / (mixing["rounds"] * line["workers"]), 1, 9)
        self.assertAlmostEqual(mixing["upper"] - mixing["rounds"], mixing["standard_error"], 9)
        self.assertAlmostEqual(mixing["rounds"] - mixing["lower"], mixing["standard_error"], 9)
        self.assertEqual(mixing["standard_error"] > 0, mixing["kind"] == "realised")
        self.assertTrue(0 < line["spectral_gap"] <= 1)
        self.assertAlmostEqual(line["messages_until_mixed"] / (line["messages_per_round"] * mixing["rounds"]), 1, 9)
        self.assertAlmostEqual(line["bytes_until_mixed"] / (line["bytes_per_round"] * mixing["rounds"]), 1, 9)
        self.assertIsNone(line["never"])


class Examples(Mix):
    def test_one_process(self):
        line, = self.run_json("mix", "--protocol", "dpsgd", "--topology", "ring", "--workers", "16")
        self.check_line(line)
        self.assertEqual((line["topology"], line["workers"]), ("ring", 16))
        self.assertAlmostEqual(line["spectral_gap"], 1 - (1 + 2 * math.cos(2 * math.pi / 16)) / 3, 9)
        self.assertEqual((line["messages_per_round"], line["bytes_per_round"]), (32, 32 * 4e6))
        self.assertIsNone(line["round_seconds"])
        self.assertIsNone(line["seconds_until_mixed"])
        x, rounds = [1.0] + [0.0] * 15, 0
        while sum(abs(v - 1 / 16) for v in x) / 2 > 0.25:
            x, rounds = [(x[i - 1] + x[i] + x[(i + 1) % 16]) / 3 for i in range(16)], rounds + 1
        self.assertEqual(line["t_mix"]["rounds"], rounds)
        text = self.run_ok("mix", "--protocol", "dpsgd", "--topology", "ring", "--workers", "16")
        self.assertIn(f"{rounds} rounds or {16 * rounds} updates (exact)", text)
        self.assertIn(f"32 a round, {32 * rounds} until mixed", text)
        self.assertIn("0.05075 a round", text)

    def test_sweep(self):
        sweep = ("mix", "--protocol", "adpsgd", "--topology", "complete", "--workers", "8:64:x2", "--plot", "tmix.svg",
                 "--precision", "0.05")
        *lines, growth = self.run_json(*sweep)
        self.assertEqual([line["workers"] for line in lines], [8, 16, 32, 64])
        for line in lines:
            self.check_line(line)
            self.assertLessEqual(line["t_mix"]["standard_error"], 0.05 * line["t_mix"]["rounds"])
            self.assertEqual(line["messages_per_round"], 2 * line["workers"])
        self.assertAlmostEqual(lines[1]["t_mix"]["updates"], 73, delta=6)
        self.assertEqual((growth["event"], growth["protocol"]), ("growth", "adpsgd"))
        for unit in ("rounds", "updates"):
            self.assertAlmostEqual(growth["exponent"][unit],
                                   slope([(line["workers"], line["t_mix"][unit]) for line in lines]), 9)
        texts = "".join(xml.etree.ElementTree.parse("tmix.svg").getroot().itertext())
        for word in ("Mixing time", "workers", "rounds", "updates", "adpsgd"):
            self.assertIn(word, texts)
        text = self.run_ok(*sweep[:-4], "--precision", "0.05")  # the same numbers for people
        self.assertIn(f"n^{growth['exponent']['rounds']:.2f} in rounds, n^{growth['exponent']['updates']:.2f} in updates",
                      text)
        self.assertEqual([row.split()[2] for row in text.splitlines()[2:-1]], ["8", "16", "32", "64"])

    def test_compare(self):
        lines = self.run_json("mix", "--compare", "all", "--workers", "32", "--model-bytes", "1.1M", "--compute", "20ms",
                              "--network", "1Gbit,50us")
        self.assertEqual(sorted(line["protocol"] for line in lines), sorted(PROTOCOLS))
        seconds = [line["seconds_until_mixed"] for line in lines]
        self.assertEqual(seconds, sorted(seconds))
        n, v, w, latency = 32, 1.1e6 / 125e6, 0.02, 50e-6
        rounds = {"allreduce": w + 2 * (n - 1) * (v / n + latency),
                  "periodic": w + 2 * (n - 1) * (v / n + latency) / 25,
                  "server": w + n * v + 2 * latency,
                  "async-server": max(w + 2 * (v + latency), (n - 1) * v),
                  "dpsgd": w + 2 * v + latency,
                  "adpsgd": w + 2 * (v + latency),
                  "async-ring": max(w, 2 * v)}
        for line in lines:
            self.check_line(line)
            self.assertAlmostEqual(line["round_seconds"] / rounds[line["protocol"]], 1, 9, line)
            self.assertAlmostEqual(line["seconds_until_mixed"] / (line["round_seconds"] * line["t_mix"]["rounds"]), 1, 9)
            sent = {"async-server": 62, "server": 62, "periodic": 62 / 25, "allreduce": 62}.get(line["protocol"], 64)
            self.assertAlmostEqual(line["bytes_per_round"] / (sent * 1.1e6), 1, 9)

    def test_slow_networks_and_periods(self):
        """The other sides of the maxima, and the share of a period."""
        lines = self.run_json("mix", "--compare", "async-server,adpsgd,async-ring,dpsgd,server", "--workers", "16",
                              "--model-bytes", "2MB", "--compute", "1ms", "--network", "1MB,1s", "--period", "4",
                              "--topology", "complete", "--precision", "0.2")
        rounds = {"async-server": max(0.001 + 2 * 3 / 4, 15 * 2 / 4), "adpsgd": 0.001 + 2 * 3 / 4, "async-ring": 15 * 2 / 4,
                  "dpsgd": 0.001 + (15 * 2 + 1) / 4, "server": 0.001 + (16 * 2 + 2 * 1) / 4}
        self.assertEqual({line["protocol"] for line in lines}, set(rounds))
        for line in lines:
            self.assertAlmostEqual(line["round_seconds"], rounds[line["protocol"]], 9, line)
        line, = self.run_json("mix", "--protocol", "dpsgd", "--topology", "star", "--workers", "5", "--model-bytes", "1k",
                              "--compute", "1h30m", "--network", "8kbit,0s")
        self.assertEqual(line["round_seconds"], 5400 + 4)  # the hub has four neighbours' models to take


class Graphs(Mix):
    def test_files_are_the_graphs_that_they_list(self):
        write_ring("ring.edges", 12)
        write_ring("ring.mtx", 12, market=True)
        for more in ((), ("--slack", "0.3", "--period", "5"), ("--weights", "uniform"), ("--kind", "bound"),
                     ("--protocol", "adpsgd", "--precision", "0.05"),
                     ("--protocol", "async-ring", "--delay", "1", "--precision", "0.05")):
            expected, = self.run_json("mix", "--topology", "ring", "--workers", "12", *more)
            expected["topology"] = "file"
            for graph in ("ring.edges", "ring.mtx"):
                line, = self.run_json("mix", "--graph", graph, *more)
                for key in expected:
                    if key == "spectral_gap":  # a formula there, eigenvalues here
                        self.assertAlmostEqual(line.pop(key), expected[key], 9)
                    elif key != "t_mix":
                        self.assertEqual(line.pop(key), expected[key], (key, more))
                for key, value in expected["t_mix"].items():
                    if isinstance(value, float):
                        self.assertAlmostEqual(line["t_mix"][key], value, 6)
                    else:
                        self.assertEqual(line["t_mix"][key], value)

    def test_weights_of_a_file(self):
        with open("lazy.edges", "w") as file:
            file.write("0 1 0.1\n")  # (1 - .2)^t / 2 <= 1/4: 4 rounds
        self.assertEqual(self.run_json("mix", "--graph", "lazy.edges", "--weights", "file")[0]["t_mix"]["rounds"], 4)
        self.assertEqual(self.run_json("mix", "--graph", "lazy.edges")[0]["t_mix"]["rounds"], 1)

    def test_all_protocols_have_as_many_workers_as_the_graph(self):
        write_ring("ring.edges", 7)
        lines = self.run_json("mix", "--compare", "all", "--graph", "ring.edges", "--precision", "0.2")
        self.assertEqual([line["workers"] for line in lines], [7] * len(PROTOCOLS))

    def test_never(self):
        with open("parts.edges", "w") as file:
            file.write("0 1\n2 3\n")
        with open("swing.edges", "w") as file:
            file.write("0 1 1\n")
        for graph, word in (("parts.edges", "2 parts"), ("swing.edges", "bipartite")):
            for kind in ("auto", "bound"):
                asked = ("mix", "--graph", graph, "--weights", "metropolis" if graph == "parts.edges" else "file",
                         "--kind", kind)
                line, = self.run_json(*asked)
                self.assertEqual([line["t_mix"][key] for key in ("rounds", "updates", "lower", "upper")], [None] * 4)
                self.assertEqual(line["spectral_gap"], 0)
                self.assertIn(word, line["never"])
                text = self.run_ok(*asked)
                self.assertRegex(text, rf"mixing time +never: .*{word}")
        done = self.run_program("mix", "--graph", "parts.edges", "--compare", "dpsgd,allreduce,adpsgd")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.count("dpsgd, 4 workers: never mixes: the topology falls into 2 parts") +
                         done.stderr.count("dpsgd, 4 workers: never mixes: the topology falls into 2 parts"), 2)
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("allreduce ", "dpsgd ", "adpsgd "))]
        self.assertEqual([row[0] for row in rows], ["allreduce", "dpsgd", "adpsgd"])  # those that never do are last

    def test_plot_of_what_never_mixes(self):
        with open("parts.edges", "w") as file:
            file.write("0 1\n2 3\n")
        self.run_ok("mix", "--graph", "parts.edges", "--plot", "p.svg")
        xml.etree.ElementTree.parse("p.svg")


class Numbers(Mix):
    def test_seeds(self):
        asked = ("mix", "--protocol", "adpsgd", "--workers", "16", "--precision", "0.05")
        first = self.run_json(*asked)
        self.assertEqual(self.run_json(*asked, "--seed", "0"), first)
        self.assertNotEqual(self.run_json(*asked, "--seed", "1")[0]["t_mix"]["updates"], first[0]["t_mix"]["updates"])

    def test_lists_of_sizes(self):
        for text, sizes in (("3", [3]), ("3,5,8", [3, 5, 8]), ("4:16:x2", [4, 8, 16]), ("4:17:x2", [4, 8, 16]),
                            ("4:10:3", [4, 7, 10]), ("5:5:1", [5])):
            lines = self.run_json("mix", "--protocol", "allreduce", "--workers", text)
            self.assertEqual([line["workers"] for line in lines if "workers" in line], sizes)
            self.assertEqual(len(lines), len(sizes) + (len(sizes) > 1))

    def test_exponents_of_constants(self):
        *lines, growth = self.run_json("mix", "--protocol", "allreduce", "--workers", "2:32:x2")
        self.assertEqual([line["t_mix"]["rounds"] for line in lines], [1] * 5)
        self.assertAlmostEqual(growth["exponent"]["rounds"], 0, 9)
        self.assertAlmostEqual(growth["exponent"]["updates"], 1, 9)

    def test_quantities(self):
        def bytes_of(text):
            return self.run_json("mix", "--protocol", "server", "--workers", "2", "--model-bytes", text)[0]["bytes_per_round"]

        for text, size in (("4096", 4096), ("64k", 64e3), ("1.1M", 1.1e6), ("2GB", 2e9), ("1T", 1e12), ("1B", 1),
                           ("7kB", 7e3)):
            self.assertAlmostEqual(bytes_of(text) / 2 / size, 1, 12)

        def seconds(compute, network, size="1M"):
            return self.run_json("mix", "--protocol", "server", "--workers", "2", "--model-bytes", size, "--compute",
                                 compute, "--network", network)[0]["round_seconds"]

        for text, value in (("2h", 7200), ("1h30m", 5400), ("90m", 5400), ("45s", 45), ("20ms", 0.02), ("50us", 5e-5),
                            ("3", 3), ("1m30s500ms", 90.5), ("1d", 86400), ("10ns", 1e-8)):
            self.assertAlmostEqual(seconds(text, "1e9GB,0", "1") / value, 1, 6)
        for text, value in (("1Gbit,50us", 2 * (8e-3 + 5e-5)), ("100Mbit,1ms", 2 * 0.081), ("12.5MB,0s", 2 * 0.08),
                            ("1kbit,1s", 2 * 8001), ("1e6B,0", 2), ("500kB,2m", 2 * 122), ("8000000bit,0s", 2)):
            self.assertAlmostEqual(seconds("1ns", text) / value, 1, 6)


class BadInput(Mix):
    def test_options(self):
        for text in ("0", "-1", "1.5", "nan", "inf", "x"):
            self.run_bad("mix", "--slack", text, names=["--slack", text])
        for text in ("0", "-3", "1.5"):
            self.run_bad("mix", "--period", text, names=["--period", text])
        self.run_bad("mix", "--protocol", "adpsdg", names=["--protocol", "adpsdg", "did you mean adpsgd?"])
        self.run_bad("mix", "--topology", "rinng", names=["--topology", "rinng", "did you mean ring?"])
        self.run_bad("mix", "operand", names=["operand", "usage"])
        for text in ("dpsgd,", "", "all,dpsgd", "dpsgd,dpsgd", "ring", "dpsg"):
            self.run_bad("mix", "--compare", text, names=["--compare", "allreduce", "periodic"])
        self.run_bad("mix", "--delay", "1", names=["--delay", "dpsgd", "async-ring"])
        self.run_bad("mix", "--protocol", "async-ring", "--delay", "-1", names=["--delay", "-1"])
        self.run_bad("mix", "--kind", "exact", "--protocol", "adpsgd", names=["--kind", "exact", "adpsgd", "realised"])
        self.run_bad("mix", "--kind", "realised", names=["--kind", "realised", "dpsgd", "exact"])
        self.run_bad("mix", "--kind", "exact", "--dense-limit", "8", names=["--dense-limit", "16", "8"])
        self.run_bad("mix", "--weights", "file", names=["--weights", "--graph"])

    def test_sizes(self):
        self.run_bad("mix", "--topology", "hypercube", "--workers", "12", names=["12", "hypercube", "8 or 16"])
        self.run_bad("mix", "--topology", "hypercube", "--workers", "8,12", names=["12", "hypercube", "8 or 16"])
        self.run_bad("mix", "--topology", "torus", "--workers", "7", names=["7", "torus"])
        self.run_bad("mix", "--topology", "random-regular", "--workers", "7", "--degree", "3", names=["7", "6 or 8"])
        for text in ("", "0", "-4", "x", "4,", "4,4", "8,4", "4;8", "8:4:x2", "8:64", "8:64:", "8:64:x1", "8:64:0",
                     "8:64:2x", "8:64:x2,128", "99999999999999999999", "1:1000:1", "16 ", " 16", "0x10", "1e2"):
            self.run_bad("mix", "--workers", text, names=["--workers", f"'{text}'", "8:128:x2"])

    def test_quantities(self):
        for text in ("", "0", "0.5", "-1M", "1X", "M", "1.1 M", "nan", "inf", "1e30", "0x10", "1MM", "1Mi"):
            self.run_bad("mix", "--model-bytes", text, names=["--model-bytes", f"'{text}'", "1.1M"])
        for text in ("", "0", "0s", "-1s", "20 ms", "ms", "20mss", "nan", "1e30s", "0x10s"):
            self.run_bad("mix", "--network", "1Gbit,0s", "--compute", text, names=["--compute", f"'{text}'", "20ms"])
        for text in ("", "1Gbit", "1Gbit,", ",50us", "50us,1Gbit", "0bit,1us", "1G,1us", "1Gbit,1us,2", "1Gbit;1us",
                     "-1Gbit,1us", "1Gbit,-1us", "1e300GB,0s", "infGbit,0s", "1Gbit,1e300s", "0x1Gbit,0s"):
            self.run_bad("mix", "--compute", "1s", "--network", text, names=["--network", f"'{text}'", "1Gbit,50us"])
        self.run_bad("mix", "--compute", "20ms", names=["--compute", "--network"])
        self.run_bad("mix", "--network", "1Gbit,50us", names=["--network", "--compute"])

    def test_graphs(self):
        market = "%%MatrixMarket matrix coordinate real general\n"
        for name, text, weights, names in (
                ("a.edges", "0 1 1.5\n0 0 -0.5\n1 1 -0.5\n", "file", ["line 2", "-0.5"]),
                ("a.edges", "0 1 0.8\n1 2 0.8\n", "file", ["a.edges"]),  # row 1 sums to 1.6
                ("a.edges", "0 1 nan\n", "file", ["line 1", "nan"]),
                ("a.edges", "0 1 inf\n", "file", ["line 1", "inf"]),
                ("a.edges", "0 1\n1 1\n", "metropolis", ["line 2", "itself"]),
                ("a.edges", "0 1\n1 2\n1 0\n", "metropolis", ["line 3", "line 1"]),
                ("a.edges", "0 1\n3 1\n", "metropolis", ["line 2", "vertex 2"]),  # isolated
                ("a.edges", "0 1\nx 1\n", "metropolis", ["line 2"]),
                ("a.edges", "", "metropolis", ["a.edges"]),
                ("a.mtx", market + "2 2 2\n1 2 1\n3 1 1\n", "file", ["line 4", "3"]),  # unknown
                ("a.mtx", market + "2 3 2\n1 2 1\n2 1 1\n", "file", ["line 2"]),  # not square
                ("a.mtx", market + "2 2 4\n1 1 .5\n1 2 .4\n2 1 .5\n2 2 .5\n", "file", ["a.mtx"])):  # .9
            with open(name, "w") as file:
                file.write(text)
            for protocol in ("dpsgd", "adpsgd"):
                self.run_bad("mix", "--graph", name, "--weights", weights, "--protocol", protocol, "--plot", "p.svg",
                             names=[name, *names])
        write_ring("ring.edges", 4)
        self.run_bad("mix", "--graph", "ring.edges", "--workers", "3", names=["ring.edges"])
        self.run_bad("mix", "--graph", "ring.edges", "--workers", "5", names=["ring.edges"])
        self.run_bad("mix", "--graph", "none.edges", names=["none.edges"])

    def test_plot(self):
        self.run_bad("mix", "--plot", "t.gif", names=["--plot", "t.gif", ".svg"])
        self.run_bad("mix", "--plot", "none/t.svg", names=["none"])
        self.run_bad("mix", "--plot", "t.svg", names=["gnuplot-nox"], env={**os.environ, "PATH": "/nowhere"})
        self.run_bad("mix", "--plot", "t.svg", "--topology", "hypercube", "--workers", "8,12", names=["8 or 16"])
        self.run_bad("mix", "--plot", "t.svg", "--kind", "bound", "--protocol", "adpsgd", names=["bound"])
        write_ring("ring.svg", 4)
        self.run_bad("mix", "--graph", "ring.svg", "--plot", "./ring.svg", names=["--plot", "--graph"])

    def test_what_cannot_be_found_is_said_before_the_work(self):
        """The first sizes alone would take minutes."""
        slow = ("--precision", "0.0001", "--samples", "1000000000")
        self.run_bad("mix", "--protocol", "adpsgd", "--workers", "64,5000", *slow, names=["--dense-limit", "5000", "4096"],
                     timeout=10)
        self.run_bad("mix", "--topology", "hypercube", "--protocol", "async-ring", "--workers", "64,65", *slow,
                     names=["65", "64 or 128"], timeout=10)
        self.run_bad("mix", "--protocol", "adpsgd", "--kind", "averaged", "--period", "2", names=["averaged", "realised"])

    def test_full_disk(self):
        self.run_short("mix", "--workers", "4,8", "--plot", "t.svg", names=["t.svg"])
        self.run_full("mix")
        self.run_full("mix", "--compare", "dpsgd,allreduce", "--json")


class Interrupts(Mix):
    def catches(self, pid, number):
        with open(f"/proc/{pid}/status") as file:
            mask, = [line.split()[1] for line in file if line.startswith("SigCgt:")]
        return int(mask, 16) >> (number - 1) & 1

    def stop(self, *arguments):
        run = subprocess.Popen([LACONIC, "mix", *arguments, "--plot", "t.svg"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, encoding="utf-8")
        while not self.catches(run.pid, signal.SIGINT):
            time.sleep(0.01)
        time.sleep(0.5)
        self.assertIsNone(run.poll(), "it was to take long")
        run.send_signal(signal.SIGINT)
        begin = time.monotonic()
        output, errors = run.communicate(timeout=60)
        self.assertEqual((run.returncode, output), (130, ""))
        self.assertRegex(errors, r"\Alaconic: [^\n]*interrupted[^\n]*\n\Z")
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(self.files(), {})

    def test_sampling(self):
        self.stop("--protocol", "adpsgd", "--workers", "32", "--precision", "0.0001", "--samples", "1000000000")

    def test_squaring(self):
        self.stop("--topology", "ring", "--workers", "4096", "--slack", "1e-6")


if __name__ == "__main__":
    unittest.main()
