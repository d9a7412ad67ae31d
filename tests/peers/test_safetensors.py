"""Files that Bochner writes open in the safetensors package, with the same names, shapes and values that NumPy reads from
their bytes; and the package's files open in Bochner."""
import json, struct
from peer import bochner, fail, directory, need

numpy, safetensors_numpy, safetensors = need("numpy", "safetensors.numpy", "safetensors")
work = directory()


def raw(path):
    """The tensors of a file, from its bytes: the header length, the header, the data."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    kinds = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1", "I8": "i1"}
    return {name: numpy.frombuffer(data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]],
                                   kinds[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


def main():
    generator = numpy.random.default_rng(1)
    x = generator.normal(size=(200, 3))
    y = numpy.sin(x[:, 0]) + x[:, 1]
    table = work / "table.csv"
    table.write_text("a,b,c,y\n" + "".join("%r,%r,%r,%r\n" % (*map(float, row), float(t)) for row, t in zip(x, y)))
    model = work / "y.model"
    bochner("fit", table, "--target", "y", "--features", "64", "--out", model, "--seed", "1")
    found, expected = safetensors_numpy.load_file(model), raw(model)
    if not found or set(found) != set(expected):
        fail("%s: the package finds other tensors: %s" % (model, sorted(set(found) ^ set(expected))))
    for name, array in expected.items():
        if found[name].shape != array.shape or (found[name] != array).any():
            fail("%s: tensor %s differs" % (model, name))
    with safetensors.safe_open(model, "numpy") as file:
        metadata = file.metadata()
    # Written by the package without Bochner's checksum and in another order: predictions stay the same.
    again = work / "again.model"
    safetensors_numpy.save_file(found, again, {k: v for k, v in metadata.items() if k != "bochner.checksum"})
    if bochner("predict", model, table) != bochner("predict", again, table):
        fail("predictions change when the safetensors package writes the file")


main()
