"""The images and labels of MNIST from its IDX files, for the scripts in this directory."""
import gzip, os
import numpy as np


def idx(path):
    path = path if os.path.exists(path) else path[:-3]
    raw = (gzip.open if path.endswith(".gz") else open)(path, "rb").read()
    shape = [int.from_bytes(raw[4 + 4 * i: 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def load(directory, part):
    x = idx(f"{directory}/{part}-images-idx3-ubyte.gz")
    return x.reshape(len(x), -1).astype(np.float32) / 255, idx(f"{directory}/{part}-labels-idx1-ubyte.gz")
