"""laconic train and compare: what they print and keep, that every way of running gives one model, that a run can be cut
anywhere and taken up again, and what is said of bad input."""

import fcntl
import json
import os
import random
import re
import signal
import struct
import subprocess
import time
import unittest
import xml.etree.ElementTree

from support import LACONIC, MPIEXEC, ProgramTest, read_safetensors, write_safetensors

SIDE, CLASSES, TRAIN, TEST, BATCH = 10, 3, 460, 90, 20
LAYERS = "conv 4 kernel=3\nbatchnorm\nrelu\nmaxpool 2\ndropout 0.1\ndense 12\nrelu\ndense classes\n"
# conv 4 x 9 + 4, batch norm 4 + 4, dense 12 x 64 + 12, dense 3 x 12 + 3
PARAMETERS = 40 + 8 + 780 + 39
EPOCH_KEYS = ["event", "epoch", "passes", "train_loss", "test_error", "seconds", "messages", "bytes", "images_per_second"]
DONE_KEYS = ["event", "method", "model", "workers", "test_error", "seconds", "messages", "bytes"]
FOLDER = ["best.safetensors", "checkpoint.safetensors", "last.safetensors", "metrics.jsonl", "options.json"]


def write_idx(path, shape, data):
    with open(path, "wb") as file:
        file.write(struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(data))


def write_pictures(name, count, seed, classes=CLASSES, side=SIDE):
    """A bright bar whose direction is the class, on noise."""
    draw = random.Random(seed)
    pixels, labels = bytearray(), bytearray()
    for _ in range(count):
        label, at = draw.randrange(classes), draw.randrange(2, side - 2)
        labels.append(label)
        for y in range(side):
            for x in range(side):
                on = (y, x, (x + y) // 2)[label % 3] == at
                pixels.append(min(255, max(0, round(draw.gauss(170 if on else 60, 40)))))
    write_idx(f"{name}.idx", (count, side, side), pixels)
    write_idx(f"{name}-labels.idx", (count,), labels)


class Network(ProgramTest):
    def setUp(self):
        super().setUp()
        write_pictures("train", TRAIN, 1)
        write_pictures("test", TEST, 2)
        with open("net.layers", "w") as file:
            file.write(LAYERS)
        self.data = ["--model", "net.layers", "--data", "train.idx+train-labels.idx", "--test", "test.idx+test-labels.idx",
                     "--batch", BATCH, "--held-out", 60, "--seed", 3]

    def train(self, name, *more):
        return self.run_json("train", *self.data, "-o", f"{name}.safetensors", *more)

    def tensors(self, path):
        return read_safetensors(path)[1]

    def start(self, *arguments):
        """A run that is at most a few epochs ahead of who reads its lines: then its pipe is full."""
        process = subprocess.Popen([LACONIC, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, encoding="utf-8")
        fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, 4096)
        return process


class Report(Network):
    def check_lines(self, lines, method, workers, epochs, steps_per_epoch, gradients_per_step, travels):
        self.assertEqual([line["event"] for line in lines], ["epoch"] * epochs + ["done"])
        for number, line in enumerate(lines[:-1], 1):
            self.assertEqual([key for key in EPOCH_KEYS if key not in line], [])
            steps = number * steps_per_epoch
            self.assertEqual(line["epoch"], number)
            self.assertEqual(line["passes"], number * gradients_per_step)
            self.assertEqual(line["gradients"], steps * gradients_per_step)
            # a ring all-reduce: 2 (n - 1) messages from each of n, 2 (n - 1) vectors in all
            self.assertEqual(line["messages"], steps * 2 * (workers - 1) * workers * travels)
            self.assertEqual(line["bytes"], steps * 2 * (workers - 1) * 4 * PARAMETERS * travels)
            self.assertTrue(0 <= line["test_error"] <= 1 and 0 <= line["held_out_error"] <= 1 and line["train_loss"] > 0)
        done = lines[-1]
        self.assertEqual([key for key in DONE_KEYS if key not in done], [])
        self.assertEqual((done["method"], done["workers"], done["model"]), (method, workers, "net.layers"))
        self.assertEqual((done["messages"], done["bytes"]), (lines[-2]["messages"], lines[-2]["bytes"]))
        best = min(range(epochs), key=lambda i: lines[i]["held_out_error"])
        self.assertEqual((done["epoch"], done["held_out_error"], done["test_error"]),
                         (best + 1, lines[best]["held_out_error"], lines[best]["test_error"]))
        return done

    def test_every_method_learns_and_sends_what_it_should(self):
        pass_of_all = (TRAIN - 60) // BATCH
        for method, workers, epochs, rate, inner, batches in (
                ("sgd", 1, 8, 0.05, 1, pass_of_all), ("sgd", 2, 16, 0.05, 1, pass_of_all // 2),
                ("elastic", 3, 8, 0.03, 1, pass_of_all), ("entropy", 1, 2, 0.05, 5, pass_of_all),
                ("parle", 2, 2, 0.05, 5, pass_of_all)):
            lines = self.train("m", "--method", method, "--workers", workers, "--epochs", epochs, "--learning-rate", rate,
                               "--inner-steps", 5, "--overwrite")
            done = self.check_lines(lines, method, workers, epochs, batches, inner, 0 if method == "entropy" else 1)
            self.assertLess(done["test_error"], 0.2, method)

    def test_folder(self):
        lines = self.train("m", "--epochs", 3, "--run", "here")
        self.assertEqual(sorted(os.listdir("here")), FOLDER)
        with open("here/metrics.jsonl") as file:
            self.assertEqual([json.loads(line) for line in file], lines[:-1])
        with open("here/options.json") as file:
            kept = json.load(file)
        self.assertEqual((kept["options"]["batch"], kept["options"]["seed"], kept["options"]["model"]),
                         (BATCH, 3, "net.layers"))
        self.assertEqual(self.tensors("here/best.safetensors"), self.tensors("m.safetensors"))
        meta, tensors = read_safetensors("here/checkpoint.safetensors")
        self.assertEqual((meta["laconic.kind"], meta["laconic.layers"], meta["laconic.replicas"]), ("checkpoint", LAYERS, "1"))
        self.assertEqual({name: about[:2] for name, about in tensors.items()},
                         {"0.x": ("F32", [PARAMETERS]), "0.outer.0": ("F32", [PARAMETERS])})

    def test_last_is_kept_on_request(self):
        lines = self.train("m", "--epochs", 3, "--keep", "last")
        self.assertEqual(lines[-1]["epoch"], 3)
        self.assertEqual(self.tensors("m.run/last.safetensors"), self.tensors("m.safetensors"))
        lines = self.train("n", "--epochs", 2, "--held-out", 0)
        self.assertEqual((lines[-1]["epoch"], lines[-1]["held_out_error"]), (2, None))
        self.assertEqual(self.tensors("n.run/last.safetensors"), self.tensors("n.safetensors"))

    def test_without_test_pictures(self):
        lines = self.run_json("train", "--model", "net.layers", "--data", "train.idx+train-labels.idx", "--batch", BATCH,
                              "-o", "m.safetensors", "--epochs", 1)
        self.assertIsNone(lines[0]["test_error"])
        self.assertIsNotNone(lines[0]["held_out_error"])
        for more, pattern in (((), r"held-out error \d+\.\d\d %, test error -,"),
                              (("--held-out", 0), r"held-out error -, test error -,")):
            text = self.run_ok("train", "--model", "net.layers", "--data", "train.idx+train-labels.idx", "--batch", BATCH,
                               "-o", "m.safetensors", "--epochs", 1, "--overwrite", *more)
            self.assertRegex(text.splitlines()[0], pattern)
            self.assertIn("test error -,", text.splitlines()[1])

    def test_text_for_people(self):
        text = self.run_ok("train", *self.data, "-o", "m.safetensors", "--epochs", 2)
        self.assertEqual(len(text.splitlines()), 3)
        self.assertIn("test error", text)
        self.assertEqual(self.run_ok("train", *self.data, "-o", "q.safetensors", "--epochs", 1, "-q"), "")

    def test_dry_run_does_nothing(self):
        before = self.files()
        line, = self.train("m", "--method", "parle", "--workers", 3, "--epochs", 2, "--dry-run")
        self.assertEqual((line["parameters"], line["images"], line["held_out"], line["test"]),
                         (PARAMETERS, TRAIN - 60, 60, TEST))
        self.assertEqual((line["steps"], line["gradients"]), (40, 1000))
        self.assertEqual((line["messages"], line["bytes"]), (40 * 2 * 2 * 3, 40 * 2 * 2 * 4 * PARAMETERS))
        self.assertIn("learning-rate      0.1\n", self.run_ok("train", *self.data, "-o", "m.safetensors", "--dry-run"))
        self.assertEqual(self.files(), before)

    def test_builtin_and_augmentation(self):
        for extra in (["--model", "mlp:100-20-3"], ["--model", "mlp:100-40-3", "--width", 0.5],
                      ["--flip", "--crop", 2, "--ahead"], ["--replacement"], ["--prepare", "none", "--learning-rate", 1e-4],
                      ["--optimizer", "adam", "--learning-rate", 0.01], ["--schedule", "cosine", "--warm-up", 0.5]):
            lines = self.train("m", "--epochs", 1, "--overwrite", *extra)
            self.assertEqual(lines[-1]["event"], "done", extra)


class Same(Network):
    WAYS = [["--method", "sgd", "--learning-rate", 0.05], ["--method", "elastic", "--overlap", "--flip"],
            ["--method", "parle", "--inner-steps", 4], ["--method", "parle", "--inner-steps", 4, "--overlap", "--split", 0.6]]

    @unittest.skipUnless(MPIEXEC, "a tree without MPI has nothing of it to test")
    def test_ranks_give_the_bits_of_threads(self):
        for number, way in enumerate(self.WAYS):
            lines = self.train(f"local{number}", *way, "--workers", 2, "--epochs", 2)
            done = self.run_ranks(2, "train", *self.data, "-o", f"mpi{number}.safetensors", *way, "--epochs", 2, "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""), way)
            ranks = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(self.tensors(f"local{number}.safetensors"), self.tensors(f"mpi{number}.safetensors"), way)
            self.assertEqual(self.tensors(f"local{number}.run/checkpoint.safetensors"),
                             self.tensors(f"mpi{number}.run/checkpoint.safetensors"), way)
            for ours, theirs in zip(lines, ranks):
                for line in (ours, theirs):
                    for key in ("seconds", "images_per_second"):
                        line.pop(key, None)
                self.assertEqual(ours, theirs)

    def test_ahead_changes_nothing(self):
        self.train("a", "--epochs", 2, "--crop", 1)
        self.train("b", "--epochs", 2, "--crop", 1, "--ahead")
        self.assertEqual(self.tensors("a.safetensors"), self.tensors("b.safetensors"))


class Resume(Network):
    def resumed_equals_whole(self, way, stop, epochs=6):
        """A run that stop(process) ends, taken up again, is the run that nobody stopped."""
        arguments = [*way, "--workers", 2, "--epochs", epochs]
        self.train("whole", *arguments, "--overwrite")
        process = self.start("train", *self.data, "-o", "cut.safetensors", *arguments, "--overwrite", "--json")
        status = stop(process)
        lines = self.run_json("train", "--resume", "cut.run")
        for name in ("whole.safetensors", "whole.run/last.safetensors", "whole.run/checkpoint.safetensors"):
            self.assertEqual(self.tensors(name), self.tensors(name.replace("whole", "cut")), way)
        with open("whole.run/metrics.jsonl") as whole, open("cut.run/metrics.jsonl") as cut:
            for one, other in zip(map(json.loads, whole), map(json.loads, cut), strict=True):
                for key in ("epoch", "gradients", "messages", "bytes", "test_error", "held_out_error", "spread", "train_loss",
                            "train_error"):
                    self.assertEqual(one[key], other[key], key)
        self.assertEqual(lines[-1]["event"], "done")
        return status

    def after_lines(self, process, count):
        for _ in range(count):
            self.assertTrue(process.stdout.readline())

    def test_killed(self):
        def kill(process):
            self.after_lines(process, 3) # a checkpoint is on disk at the latest when that after it is begun
            process.kill()
            return process.communicate(timeout=60) and process.returncode
        for way in Same.WAYS[1:3]:
            self.resumed_equals_whole(way, kill)

    def test_signals_leave_a_checkpoint(self):
        for number, way in zip((signal.SIGTERM, signal.SIGINT), (Same.WAYS[0], Same.WAYS[3])):
            def stop(process):
                self.after_lines(process, 1)
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
                self.assertRegex(err, r"\Alaconic: interrupted; laconic train --resume cut.run goes on\n\Z")
                self.assertEqual(json.loads(out.splitlines()[-1]),
                                 {"event": "stopped", "reason": "interrupted", "run": "cut.run"})
                return process.returncode
            self.assertEqual(self.resumed_equals_whole(way, stop, epochs=40), 130)

    def test_time_limit(self):
        self.train("whole", "--epochs", 40)
        lines = self.train("cut", "--epochs", 40, "--time-limit", "0.05s")
        self.assertEqual(lines[-1], {"event": "stopped", "reason": "time-limit", "run": "cut.run"})
        self.run_json("train", "--resume", "cut.run", "--time-limit", "1h")
        self.assertEqual(self.tensors("whole.run/last.safetensors"), self.tensors("cut.run/last.safetensors"))

    def test_longer(self):
        """Options beside --resume replace the stored ones: two epochs and two more are four."""
        self.train("whole", "--epochs", 4)
        self.train("cut", "--epochs", 2)
        lines = self.run_json("train", "--resume", "cut.run", "--epochs", 4)
        self.assertEqual([line.get("epoch") for line in lines[:-1]], [3, 4])
        self.assertEqual(self.tensors("whole.run/last.safetensors"), self.tensors("cut.run/last.safetensors"))
        with open("cut.run/options.json") as file:
            self.assertEqual(json.load(file)["options"]["epochs"], 4)

    def test_other_number_of_workers(self):
        """Every replica starts at the mean of the stored ones: with a learning rate of 0 the answer stays what it was."""
        self.train("m", "--method", "parle", "--inner-steps", 2, "--workers", 3, "--epochs", 1)
        _, before = read_safetensors("m.run/checkpoint.safetensors")
        mean = [sum(values) / 3 for values in zip(*(struct.unpack(f"<{PARAMETERS}f", before[f"{r}.x"][2]) for r in range(3)))]
        lines = self.run_json("train", "--resume", "m.run", "--workers", 2, "--epochs", 2, "--learning-rate", 0)
        self.assertEqual(lines[-1]["workers"], 2)
        _, after = read_safetensors("m.run/checkpoint.safetensors")
        self.assertEqual(sorted(after), sorted(f"{r}.{name}" for r in range(2) for name in ("x", "inner.0", "outer.0")))
        for r in range(2):
            for found, expected in zip(struct.unpack(f"<{PARAMETERS}f", after[f"{r}.x"][2]), mean):
                self.assertAlmostEqual(found, expected, delta=1e-5 * (1 + abs(expected)))

    def test_finished_run_is_left_alone(self):
        self.train("m", "--epochs", 1)
        before = self.files()
        lines = self.run_json("train", "--resume", "m.run")
        self.assertEqual([line["event"] for line in lines], ["done"])
        for name in ("./m.safetensors", "./m.run/metrics.jsonl", "./m.run/checkpoint.safetensors"):
            self.assertEqual(self.files()[name], before[name])


    def test_the_output_of_a_resumed_run(self):
        """It is there when the run says so, whatever there was left to train and to save."""
        self.train("m", "--epochs", 2)
        for more in (), ("--epochs", 3, "--learning-rate", 0), ("--keep", "last"):
            for name in "m.safetensors", "other.safetensors":
                if os.path.exists(name):
                    os.remove(name)
                self.run_json("train", "--resume", "m.run", "-o", name, *more)
                kept = "last" if "last" in more else "best"
                self.assertEqual(self.tensors(name), self.tensors(f"m.run/{kept}.safetensors"))

    def test_resumed_with_something_else(self):
        """What a checkpoint cannot go on with: other pictures, another optimiser, steps of another length."""
        self.train("m", "--method", "sgd", "--epochs", 1)
        for more, names in ((("--workers", 2), ("batches a pass", "--split")), (("--batch", 4), ("batches a pass",)),
                            (("--optimizer", "rmsprop"), ("optimizer", "rmsprop")), (("--method", "elastic"), ("method",))):
            self.run_bad("train", "--resume", "m.run", "--epochs", 4, *more, names=("--resume", *names))
        self.run_json("train", "--resume", "m.run", "--epochs", 2, "--workers", 2, "--split", 1)
        with open("train-labels.idx", "r+b") as file:
            content = bytearray(file.read())
            content[8], content[9] = content[9], (content[8] + 1) % 2
            file.seek(0)
            file.write(content)
        self.run_bad("train", "--resume", "m.run", "--epochs", 4, names=("--resume", "pictures"))

    def test_damaged_metrics(self):
        """A line that was cut off goes, and what comes after it can be read."""
        self.train("m", "--epochs", 3)
        with open("m.run/metrics.jsonl", "r+b") as file:
            file.truncate(os.path.getsize("m.run/metrics.jsonl") - 20)
        open("m.run/last.safetensors.part-0123abcd", "w").close()
        open("m.run/mine.part-0123abcd", "w").close()
        done = self.run_program("train", "--resume", "m.run", "--epochs", 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("metrics.jsonl: found 2 whole lines, expected 3", done.stderr)
        with open("m.run/metrics.jsonl") as file:
            self.assertEqual([json.loads(line)["epoch"] for line in file], [1, 2, 4])
        self.run_ok("compare", "m.run")
        self.assertFalse(os.path.exists("m.run/last.safetensors.part-0123abcd"))
        self.assertTrue(os.path.exists("m.run/mine.part-0123abcd"))

    def test_one_run_a_folder(self):
        command = [LACONIC, "train", *self.data, "-o", "m.safetensors", "--epochs", "1000000", "-q"]
        with subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as run:
            deadline = time.monotonic() + 60
            while not os.path.exists("m.run/checkpoint.safetensors") and time.monotonic() < deadline:
                time.sleep(0.05)
            for second in ("--overwrite",), ("--resume", "m.run"):
                done = self.run_program("train", *self.data, "-o", "n.safetensors", "--run", "m.run", *second)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("m.run: found a run going on there", done.stderr)
            run.terminate()
            self.assertEqual(run.wait(60), 130)


class Bad(Network):
    def bad(self, *arguments, names=(), status=2):
        return self.run_bad("train", *self.data, "-o", "m.safetensors", *arguments, names=names, status=status)

    def test_usage(self):
        self.run_bad("train", names=["--model"])
        self.run_bad("train", "--model", "lenet", names=["--data"])
        self.run_bad("train", "--model", "lenet", "--data", "mnist:x", names=["-o"])
        self.bad("--method", "parl", names=["parle"])
        self.bad("--method", "entropy", "--workers", 2, names=["entropy", "parle"])
        self.bad("--model", "lanet", names=["lenet"])
        self.bad("--model", "missing.layers", names=["missing.layers"])
        self.bad("--drops", "3,2", names=["3,2"])
        self.bad("--time-limit", "2x", names=["2x"])
        self.bad("--workers", 0, names=["workers"])
        self.bad("--held-out", TRAIN, names=["--held-out", TRAIN])
        self.bad("--split", 1.5, names=["split"])

    def test_network_that_does_not_fit(self):
        for text, names in (("conv 4 kernel=3\nconf 4\ndense classes\n", ["bad.layers", "2", "conf"]),
                            ("conv 4 kernel=11\ndense classes\n", ["bad.layers", "1"]),
                            ("dense 4\n", ["bad.layers"]), ("", ["bad.layers"]),
                            ("from nowhere\ndense classes\n", ["bad.layers", "nowhere"])):
            with open("bad.layers", "w") as file:
                file.write(text)
            self.bad("--model", "bad.layers", names=names)
        self.bad("--model", "mlp:99-10-3", names=["mlp"])

    def test_pictures_that_do_not_fit(self):
        write_pictures("small", 90, 3, side=8)
        self.bad("--test", "small.idx+small-labels.idx", names=["small.idx", 8, 10])
        write_idx("more-labels.idx", (TEST,), [7] * TEST)
        self.bad("--test", "test.idx+more-labels.idx", names=["more-labels.idx", 7])
        self.bad("--test", "test.idx+train-labels.idx", names=[TEST, TRAIN])
        self.bad("--data", "gone.idx+train-labels.idx", names=["gone.idx"])
        self.bad("--data", "cifar10:gone", names=["gone"])
        with open("cut.idx", "wb") as file:
            file.write(self.files()["./train.idx"][:-5])
        self.bad("--data", "cut.idx+train-labels.idx", names=["cut.idx"])
        self.bad("--batch", 500, names=[500])
        self.bad("--split", 0.04, names=[BATCH])

    def test_pictures_that_nobody_sees(self):
        done = self.run_program("train", *self.data, "-o", "m.safetensors", "--method", "parle", "--inner-steps", 2,
                                "--workers", 2, "--split", 0.25, "--epochs", 1)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\Alaconic: warning: [^\n]*200 of 400[^\n]*\n\Z")

    def test_outputs_in_the_folder(self):
        self.run_json("train", *self.data, "-o", "m.safetensors", "--epochs", 1)
        for name in "options.json", "checkpoint.safetensors", "metrics.jsonl", "last.safetensors":
            self.run_bad("train", *self.data, "-o", f"m.run/{name}", "--run", "m.run", "--overwrite",
                         names=("-o", f"m.run/{name}"))
        self.run_json("train", *self.data, "-o", "z.safetensors", "--epochs", 1, "--prepare", "zca", "--zca-cache", "w")
        self.run_bad("train", *self.data, "-o", "w", "--prepare", "zca", "--zca-cache", "w", names=("-o", "--zca-cache"))

    def test_outputs(self):
        self.run_bad("train", *self.data, "-o", "gone/m.safetensors", names=["gone"])
        os.symlink("test-labels.idx", "link")
        for path, name in (("train.idx", "--data"), ("./train-labels.idx", "--data"), ("test.idx", "--test"),
                           ("link", "--test"), (os.path.abspath("net.layers"), "--model")):
            self.run_bad("train", *self.data, "-o", path, names=[f"-o: found '{path}'", f"also {name}"])
        self.bad("--run", "gone/here", names=["gone"])
        self.bad("--run", "net.layers", names=["net.layers"])
        self.train("m", "--epochs", 1)
        self.bad("--epochs", 2, names=["m.run", "--resume", "--overwrite"])

    @unittest.skipUnless(MPIEXEC, "a tree without MPI has nothing of it to test")
    def test_a_failure_of_one_rank_is_everyones(self):
        """Only the first looks at the outputs; the others must not wait for it."""
        for more in (["-o", "gone/m.safetensors"], ["-o", "gone/m.safetensors", "--dry-run"],
                     ["-o", "m.safetensors", "--batch", 500]):
            done = self.run_ranks(2, "train", *self.data, *more, timeout=60)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done.stderr)

    def test_a_file_that_may_not_grow(self):
        done = subprocess.run(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", LACONIC, "train", *map(str, self.data), "-o",
                               "big.safetensors", "--epochs", "1"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual([name for name in self.files() if ".part-" in name], [])

    def test_full_disk(self):
        self.train("m", "--epochs", 1)
        kept = self.files()
        self.run_short("train", *self.data, "-o", "n.safetensors", "--run", "m.run2", "--epochs", 1)
        del kept

    def test_loss_that_is_no_number(self):
        self.train("m", "--epochs", 1, "--workers", 2)
        kept = self.files()
        done = self.run_program("train", "--resume", "m.run", "--epochs", 30, "--learning-rate", 1e6)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1], r"worker [01]: the loss of gradient \d+, in outer step \d+, is -?(nan|inf)")
        now = self.files()
        for name in ("./m.run/checkpoint.safetensors", "./m.run/best.safetensors", "./m.safetensors"):
            self.assertEqual(now[name], kept[name])

    def test_checkpoints(self):
        self.train("m", "--epochs", 1)
        good = self.files()["./m.run/checkpoint.safetensors"]
        path = "m.run/checkpoint.safetensors"
        meta, tensors = read_safetensors(path)
        values = {name: (about[1], struct.unpack(f"<{PARAMETERS}f", about[2])) for name, about in tensors.items()}

        def with_meta(**changes):
            changed = {key: value for key, value in
                       {**meta, **{f"laconic.{key}": value for key, value in changes.items()}}.items() if value is not None}
            write_safetensors(path, changed, values)
        for change, names in (({"kind": "other"}, ["other"]), ({"version": "99"}, ["99"]), ({"layers": "dense classes"}, ["network"]),
                              ({"step": "-1"}, ["step", "-1"]), ({"step": None}, ["step"]), ({"gradients": "x"}, ["gradients"]),
                              ({"replicas": "0"}, ["replicas"]), ({"pending": "2"}, ["pending"]), ({"totals": "[]"}, ["totals"]),
                              ({"totals": "{}"}, ["totals"]), ({"parameters": "5"}, ["5"]), ({"sums": "1 2 3"}, ["sums"]),
                              ({"sums": "1 2 3 7ff0000000000000"}, ["sums"]), ({"sums": "1 2 3 4,5"}, ["sums"])):
            with_meta(**change)
            self.run_bad("train", "--resume", "m.run", "--epochs", 2, names=[path, *names])
        for content, names in ((good[:-3], []), (good[:7], []), (b"", []), (b"x" * 500, [])):
            with open(path, "wb") as file:
                file.write(content)
            self.run_bad("train", "--resume", "m.run", "--epochs", 2, names=[path, *names])
        write_safetensors(path, meta, {name: value for name, value in values.items() if name != "0.x"})
        self.assertIn("0.x", self.run_bad("train", "--resume", "m.run", "--epochs", 2, names=[path]))
        write_safetensors(path, meta, {**values, "0.x": ([PARAMETERS], [float("nan")] * PARAMETERS)})
        self.run_bad("train", "--resume", "m.run", "--epochs", 2, names=[path, "0.x", "finite"])
        os.remove(path)
        self.run_bad("train", "--resume", "m.run", "--epochs", 2, names=[path, "--overwrite"])
        self.run_bad("train", "--resume", "gone", names=["gone"])
        for text in ("", "{", "[]", '{"command": "hash train", "options": {}}', '{"command": "train"}',
                     '{"command": "train", "options": {"batch": "many"}}'):
            with open("m.run/options.json", "w") as file:
                file.write(text)
            self.run_bad("train", "--resume", "m.run", names=["m.run/options.json"])


class Compare(Network):
    def test_table_and_picture(self):
        self.train("a", "--epochs", 3)
        lines = self.train("b", "--epochs", 2, "--method", "parle", "--inner-steps", 3, "--workers", 2)
        one, two = self.run_json("compare", "a.run", "b.run", "--plot", "curves.svg")
        self.assertEqual((one["run"], one["method"], one["workers"]), ("a.run", "sgd", 1))
        self.assertEqual((two["run"], two["method"], two["workers"]), ("b.run", "parle", 2))
        done = lines[-1]
        for key in ("messages", "bytes", "test_error", "held_out_error", "seconds"):
            self.assertEqual(two[key], done[key], key)
        self.assertEqual(two["gradients"], lines[-2]["gradients"])
        text = xml.etree.ElementTree.tostring(xml.etree.ElementTree.parse("curves.svg").getroot(), encoding="unicode")
        for word in ("a.run", "b.run", "gradients", "seconds", "MB sent"):
            self.assertIn(word, text)
        table = self.run_ok("compare", "a.run", "b.run").splitlines()
        self.assertEqual(len(table), 3)
        self.assertEqual({len(line) for line in table}, {len(table[0])})

    def test_bad_runs(self):
        self.train("a", "--epochs", 1)
        self.run_bad("compare", names=["RUN"])
        self.run_bad("compare", "a.run", "gone", names=["gone"])
        self.run_bad("compare", "a.run", "--plot", "x.pdf", names=["x.pdf"])
        with open("a.run/metrics.jsonl", "a") as file:
            file.write('{"epoch": 2')
        self.run_bad("compare", "a.run", names=["metrics.jsonl", "line 2"])
        with open("a.run/metrics.jsonl", "w") as file:
            file.write("")
        self.run_bad("compare", "a.run", names=["metrics.jsonl"])


if __name__ == "__main__":
    unittest.main()
