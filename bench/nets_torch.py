"""Training of the built-in networks beside PyTorch in one run: images per CPU-second, one thread, medians of alternating
steps, a Markdown table of ratios.

    nets_torch.py build/bench/nets [--repeats 9] [--nets lenet,allcnn,resnet20] [--ways direct,auto,bf16,reference]

A step is the gradient of a batch of 128 and a Nesterov update, on random pictures. PyTorch is python3-torch with its
oneDNN, and with malloc told to keep what it has: as it comes it gives every large activation back to the system and pays
for its pages again, which costs it up to a factor of three. Its bf16 is torch.autocast. The networks are the same, number
for number of parameters, which is checked.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import blas  # noqa: F401 first: it sets what the libraries read when they are loaded

MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36), "MALLOC_TOP_PAD_": str(1 << 28)}
if any(os.environ.get(name) != value for name, value in MALLOC.items()):
    os.environ.update(MALLOC)  # read when a program starts
    os.execv(sys.executable, [sys.executable, *sys.argv])

import torch  # noqa: E402
from torch import nn  # noqa: E402

BATCH = 128
SHAPES = {"lenet": (1, 28, 28), "allcnn": (3, 32, 32), "resnet20": (3, 32, 32)}
PARAMETERS = {"lenet": 132220, "allcnn": 1667166, "resnet20": 272474}


def conv(channels, width, kernel, stride=1, pad=0, bias=True):
    return [nn.Conv2d(channels, width, kernel, stride, pad, bias=bias), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]


class Block(nn.Module):
    """He et al. 2016, with a convolution as shortcut where the shape changes."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.body = nn.Sequential(*conv(channels, width, 3, stride, 1, False), *conv(width, width, 3, 1, 1, False)[:2])
        self.shortcut = nn.Identity()
        if channels != width:
            self.shortcut = nn.Sequential(*conv(channels, width, 1, stride, 0, False)[:2])
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


def lenet():
    return [*conv(1, 20, 5), nn.MaxPool2d(3), nn.Dropout(0.25), *conv(20, 50, 5), nn.MaxPool2d(2), nn.Dropout(0.25),
            nn.Flatten(), nn.Linear(200, 500), nn.BatchNorm1d(500), nn.ReLU(inplace=True), nn.Dropout(0.25),
            nn.Linear(500, 10)]


def allcnn():
    return [nn.Dropout(0.2), *conv(3, 96, 3, 1, 1), *conv(96, 96, 3, 1, 1), *conv(96, 96, 3, 2, 1), nn.Dropout(0.5),
            *conv(96, 192, 3, 1, 1), *conv(192, 192, 3, 1, 1), *conv(192, 192, 3, 2, 1), nn.Dropout(0.5),
            *conv(192, 192, 3, 1, 1), *conv(192, 192, 3, 1, 1), *conv(192, 10, 1), nn.AvgPool2d(8), nn.Flatten()]


def resnet20():
    blocks, channels = [], 16
    for width in (16, 32, 64):
        for _ in range(3):
            blocks.append(Block(channels, width, 1 if width == channels else 2))
            channels = width
    return [*conv(3, 16, 3, 1, 1, False), *blocks, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10)]


class Torch:
    def __init__(self, name, bf16):
        torch.manual_seed(0)
        self.net = nn.Sequential(*globals()[name]())
        count = sum(values.numel() for values in self.net.parameters())
        if count != PARAMETERS[name]:
            sys.exit(f"{name}: found {count} parameters, expected {PARAMETERS[name]}")
        self.pictures, self.labels = torch.randn(BATCH, *SHAPES[name]), torch.randint(0, 10, (BATCH,))
        self.loss = nn.CrossEntropyLoss()
        self.step = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9, nesterov=True)
        self.bf16 = bf16

    def seconds(self):
        start = time.process_time()
        self.step.zero_grad(set_to_none=False)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            loss = self.loss(self.net(self.pictures), self.labels)
        loss.backward()
        self.step.step()
        return time.process_time() - start

    def close(self):
        pass


class Laconic:
    def __init__(self, program, name, way):
        self.process = subprocess.Popen([program, name, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("nets has ended, its message is above")
        return float(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def rates(runners, repeats):
    """The median of images per second of each, its lowest and highest; what this machine cannot run is left out."""
    for name, runner in list(runners.items()):
        try:
            runner.seconds()  # warms up
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
            del runners[name]
    found = {name: [] for name in runners}
    for _ in range(repeats):
        for name, runner in runners.items():
            found[name].append(BATCH / runner.seconds())
    return {name: (statistics.median(values), min(values), max(values)) for name, values in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--nets", default="lenet,allcnn,resnet20")
    parser.add_argument("--ways", default="direct,auto,bf16,reference")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, batch {BATCH}, gradient and update, one thread, images per CPU-second, "
          f"median (lowest to highest) of {options.repeats}\n")
    print("| net | way | images/s | of PyTorch f32 | of PyTorch bf16 |\n| --- | --- | --- | --- | --- |")
    for net in options.nets.split(","):
        runners = {"PyTorch f32": Torch(net, False), "PyTorch bf16": Torch(net, True)}
        for way in options.ways.split(","):
            runners[way] = Laconic(options.program, net, way)
        found = rates(dict(runners), options.repeats)
        for way, (median, low, high) in found.items():
            print(f"| {net} | {way} | {median:.0f} ({low:.0f} to {high:.0f}) | {median / found['PyTorch f32'][0]:.2f} | "
                  f"{median / found['PyTorch bf16'][0]:.2f} |", flush=True)
        for runner in runners.values():
            runner.close()
    print(f"\nload {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
