"""A small hash model, worked out here by its definition, and data for it; data to train on."""

import random

from support import ProgramTest, clustered_rows, read_safetensors, write_npy, write_safetensors, write_vecs

COLUMNS, BITS = 6, 10

# What is trained on.
TRAIN_ROWS, TRAIN_COLUMNS = 400, 12
TRAIN = ("hash", "train", "base.bvecs", "--bits", "8", "--iterations", "4")


class Model:
    """A linear encoder and a decoder with small binary fractions: exact in float32, whatever the order of adding."""

    def __init__(self, seed, bits=BITS, columns=COLUMNS):
        draw = random.Random(seed)
        self.bits, self.columns = bits, columns
        self.weight = [[draw.randrange(-64, 65) / 32 for _ in range(columns)] for _ in range(bits)]
        self.bias = [draw.randrange(-4000, 4000) / 32 + 1 / 64 for _ in range(bits)]
        self.decoder = [[draw.randrange(-64, 65) / 2 for _ in range(bits)] for _ in range(columns)]
        self.offset = [draw.randrange(0, 255) / 2 for _ in range(columns)]

    def write(self, path):
        flat = lambda rows: [value for row in rows for value in row]
        write_safetensors(path, {"laconic.kind": "hash", "laconic.version": "1", "laconic.method": "ba",
                                 "laconic.encoder": "linear"},
                          {"encoder.weight": ([self.bits, self.columns], flat(self.weight)),
                           "encoder.bias": ([self.bits], self.bias),
                           "decoder.weight": ([self.columns, self.bits], flat(self.decoder)),
                           "decoder.bias": ([self.columns], self.offset)})

    def code(self, x):
        return [int(sum(a * b for a, b in zip(w, x)) + c >= 0) for w, c in zip(self.weight, self.bias)]

    def packed(self, x):
        z = self.code(x)
        return [sum(bit << i for i, bit in enumerate(z[at:at + 8])) for at in range(0, self.bits, 8)]

    def error(self, rows):
        total = 0
        for x in rows:
            z = self.code(x)
            total += sum((v - sum(a * b for a, b in zip(d, z)) - o) ** 2 for v, d, o in zip(x, self.decoder, self.offset))
        return total / len(rows)


def distances(model, base, x):
    z = model.code(x)
    return [sum(a != b for a, b in zip(z, model.code(y))) for y in base]


class Hash(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = Model(1)
        self.model.write("m.safetensors")
        self.base = clustered_rows(120, COLUMNS, 2)
        self.query = clustered_rows(15, COLUMNS, 3)
        write_vecs("base.bvecs", self.base, "B")
        write_npy("query.npy", self.query, "f")


class Train(ProgramTest):
    """base.bvecs holds self.rows."""

    def setUp(self):
        super().setUp()
        self.rows = clustered_rows(TRAIN_ROWS, TRAIN_COLUMNS, 2)
        write_vecs("base.bvecs", self.rows, "B")

    def train(self, *more, output="m.safetensors"):
        """Trains quietly; returns the tensors."""
        self.run_ok(*TRAIN, "-q", "-o", output, *more)
        return read_safetensors(output)[1]
