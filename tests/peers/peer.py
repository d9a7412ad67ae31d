"""Shared by the comparisons in this directory: the program, its output, and skipping.

A test imports its packages with `need`, which skips the test (status 77) if one is missing. `fail` ends it with a
message."""
import atexit, importlib, json, os, pathlib, shutil, subprocess, sys, tempfile

PROGRAM = os.environ.get("BOCHNER", "build/bochner")
SOURCE = pathlib.Path(os.environ.get("BOCHNER_SOURCE", "."))
DATA = SOURCE / "tests" / "data"


def need(*names):
    """Imports modules and returns them: one, or a tuple."""
    try:
        modules = tuple(importlib.import_module(name) for name in names)
    except ImportError as error:
        print("skipped: %s (make test-peers installs the packages)" % error)
        sys.exit(77)
    return modules[0] if len(modules) == 1 else modules


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(1)


def directory():
    """A temporary directory, removed at exit."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="bochner-peers-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def bochner(*arguments, text=None, status=0):
    """Runs the program and returns its standard output; `status` is the expected exit status, None: any failure, in
    which case standard error is returned."""
    run = subprocess.run([PROGRAM, *map(str, arguments)], input=text, capture_output=True,
                         text=not isinstance(text, bytes))
    wrong = run.returncode == 0 if status is None else run.returncode != status
    if wrong:
        fail("bochner %s: expected status %s, found %d\n%s" %
             (" ".join(map(str, arguments)), "other than 0" if status is None else status, run.returncode, run.stderr))
    return run.stderr if status is None else run.stdout


def bochner_json(*arguments, text=None):
    return json.loads(bochner(*arguments, "--json", text=text))


def difference(found, expected):
    """The largest difference of two arrays; infinite if their shapes differ or a number is NaN or infinite."""
    import numpy
    found, expected = numpy.asarray(found, dtype="float64"), numpy.asarray(expected, dtype="float64")
    if found.shape != expected.shape or not numpy.isfinite(found).all():
        return float("inf")
    return float(abs(found - expected).max()) if found.size else 0.0
