"""laconic plan calibrate: a small calibration and its file, adding to one, ranks, bad input."""

import json
import os
import signal
import subprocess
import time
import unittest

from support import LACONIC, MPIEXEC, ProgramTest

SMALL = ("--dims", "16", "--bits", "8", "--models", "mlp:16-8-4", "--batch", "4")
COSTS = ["begin", "visit", "submodels", "handling", "z", "early_begin", "early_z", "start_point", "start_fixed", "iteration_point",
         "iteration_fixed", "finish_point", "finish_fixed"]
HASH_KEYS = ["columns", "type", "bits", "encoder"]
GRADIENT_KEYS = ["model", "batch", "precision", "backend", "parameters", "flops", "seconds"]
LINK_KEYS = ["backend", "message", "byte"]


def read(path):
    with open(path) as file:
        return json.load(file)


class Calibrate(ProgramTest):
    def check_file(self, path):
        content = read(path)
        self.assertEqual(list(content), ["laconic", "machine", "hash", "gradients", "links"])
        self.assertEqual(list(content["machine"]), ["processor", "cores", "kernels"])
        self.assertEqual(content["machine"]["cores"], os.sysconf("SC_NPROCESSORS_ONLN"))
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        self.assertEqual(content["machine"]["processor"], (names or [os.uname().machine])[0])
        for case in content["hash"]:
            self.assertEqual(list(case), [*HASH_KEYS, "points", *COSTS])
            self.assertEqual(len(case["submodels"]), 2)
            self.assertTrue(all(case[key] >= 0 for key in COSTS if key != "submodels"))
            self.assertGreater(case["z"], 0)
        for case in content["gradients"]:
            self.assertEqual(list(case), GRADIENT_KEYS)
            self.assertGreater(case["seconds"], 0)
        for case in content["links"]:
            self.assertEqual(list(case), LINK_KEYS)
        return content

    def test_small(self):
        lines = self.run_json("plan", "calibrate", "-o", "c.json", *SMALL)
        content = self.check_file("c.json")
        self.assertEqual([line["event"] for line in lines], ["link", "hash", "gradient", "done"])
        link, codes, gradient, done = lines
        self.assertEqual(list(codes), ["event", *HASH_KEYS, *COSTS])
        self.assertEqual(list(gradient), ["event", *GRADIENT_KEYS])
        self.assertEqual(list(link), ["event", *LINK_KEYS])
        self.assertEqual(done, {"event": "done", "output": "c.json", "cases": 2})
        # What is printed is what is in the file.
        for line, kind in (codes, "hash"), (gradient, "gradients"), (link, "links"):
            self.assertEqual(len(content[kind]), 1)
            for key in list(line)[1:]:
                self.assertEqual(line[key], content[kind][0][key], key)
        self.assertEqual(link["backend"], "local")
        self.assertEqual((gradient["model"], gradient["batch"], gradient["parameters"]), ("mlp:16-8-4", 4, 16 * 8 + 8 + 36))

        # Added to: another case beside them, the same ones in their places.
        self.run_ok("plan", "calibrate", "-o", "c.json", "--add", "--dims", "16", "--bits", "4", "--type", "f32",
                    "--models", "mlp:16-8-4", "--batch", "4")
        more = self.check_file("c.json")
        self.assertEqual(more["hash"][0], content["hash"][0])
        self.assertEqual([(case["bits"], case["type"]) for case in more["hash"]], [(8, "u8"), (4, "f32")])
        self.assertEqual([len(more["gradients"]), len(more["links"])], [1, 1])

        # Of another machine or version, or damaged: nothing is mixed, nothing is lost.
        for change, words in (("laconic", "0.0.9"), ("machine", "Abacus")):
            other = {**more, change: "0.0.9" if change == "laconic" else {**more["machine"], "processor": "Abacus"}}
            with open("other.json", "w") as file:
                json.dump(other, file)
            self.run_bad("plan", "calibrate", "-o", "other.json", "--add", *SMALL, names=["other.json", words])
        with open("other.json", "w") as file:
            json.dump({**more, "links": [{"backend": "mpi", "message": -1, "byte": 0}]}, file)
        self.run_bad("plan", "calibrate", "-o", "other.json", "--add", *SMALL,
                     names=["other.json", "links[0].message", "-1", "from 0 to 1e15"])

        # Without --add it is replaced, whatever it was.
        table = self.run_ok("plan", "calibrate", "-o", "other.json", "--dims", "none", "--models", "none")
        self.assertRegex(table, r"\Amessages, local +[0-9.]+ [a-z]+ each, [0-9.]+ ns a byte; as --network [0-9.]+MB,[0-9.]+us\n\Z")
        self.assertEqual([len(self.check_file("other.json")[kind]) for kind in ("hash", "gradients", "links")], [0, 0, 1])

    def test_table(self):
        table = self.run_ok("plan", "calibrate", "-o", "c.json", "--dims", "8", "--bits", "4", "--models", "mlp:16-8-4",
                            "--batch", "4")
        lines = table.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[0], "hash codes, seconds a point +encoder +visit +before W +Z")
        self.assertRegex(lines[1], r"8 columns, u8, 4 bits, linear +([0-9.]+ [mun]?s *){4}")
        self.assertRegex(lines[2], r"mlp:16-8-4, batch 4, f32 .*[0-9.]+ [mun]s a gradient, [0-9.e-]+ GFLOP/s")
        self.assertRegex(lines[3], "messages, local .* a byte")

    def test_ranks(self):
        if not MPIEXEC:
            return
        done = self.run_ranks(2, "plan", "calibrate", "-o", "c.json", "--dims", "8", "--bits", "4", "--models", "none",
                              "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["event"] for line in lines], ["link", "hash", "done"])
        self.assertEqual([link["backend"] for link in self.check_file("c.json")["links"]], ["mpi"])
        # What only rank 0 finds out, all end with.
        done = self.run_ranks(2, "plan", "calibrate", "-o", "none/c.json")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Alaconic: none/c.json: [^\n]+\n\Z")

    def test_bad_options(self):
        with open("c.json", "w") as file:
            file.write("as it was")
        run = ("plan", "calibrate", "-o", "c.json")
        self.run_bad("plan", "calibrate", names=["-o"])
        self.run_bad(*run, "--dims", "0", names=["--dims", "0"])
        self.run_bad(*run, "--dims", "12,x", names=["--dims", "12,x"])
        self.run_bad(*run, "--dims", "10001", names=["--dims", "10001", "10000"])
        self.run_bad(*run, "--type", "u9", names=["--type", "u9", "f32"])
        self.run_bad(*run, "--type", "", names=["--type", "f32"])
        self.run_bad(*run, "--bits", "17", "--dims", "16", names=["--bits", "17", "16 columns"])
        self.run_bad(*run, "--bits", "1025", "--dims", "2000", names=["--bits", "1025", "1024"])
        self.run_bad(*run, "--dims", "8", names=["--bits", "8 columns"])
        self.run_bad(*run, "--encoder", "cubic", names=["--encoder", "cubic", "linear"])
        self.run_bad(*run, "--models", "lenet,resnet21", names=["resnet21"])
        self.run_bad(*run, "--models", "mlp:16", names=["mlp:16"])
        self.run_bad(*run, "--batch", "0", names=["--batch", "0"])
        self.run_bad(*run, "--precision", "f16", names=["--precision", "f16", "bf16"])
        self.run_bad(*run, "more", names=["more"])
        self.run_bad(*run, "--add", *SMALL, names=["c.json", "line 1", "JSON"])
        self.run_bad("plan", "calibrate", "-o", "none/c.json", *SMALL, names=["none"])
        self.run_bad("plan", names=["plan"])

    def test_full_disk(self):
        small = ("--dims", "none", "--models", "none")
        with open("c.json", "w") as file:
            file.write("as it was")
        self.run_short("plan", "calibrate", "-o", "c.json", *small, names=["c.json"])
        self.run_full("plan", "calibrate", "-o", "d.json", *small)

    def test_interrupt(self):
        run = subprocess.Popen([LACONIC, "plan", "calibrate", "-o", "c.json", "--dims", "2000", "--bits", "64"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        time.sleep(2)
        self.assertIsNone(run.poll(), "it was to take long")
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=60)
        self.assertEqual((run.returncode, output), (130, ""))
        self.assertRegex(errors, r"\Alaconic: [^\n]*interrupted[^\n]*\n\Z")
        self.assertEqual(self.files(), {})


if __name__ == "__main__":
    unittest.main()
