"""The link to the library: declarations, threads, forks, the end of the process, Ctrl-C, errors."""

import ctypes
import keyword
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import bochner
from bochner import _bindings, _library


def test_declared_structs_have_the_layout_of_the_headers(source):
    struct, checked = None, 0
    for line in (source / "tests" / "house" / "layout.txt").read_text().splitlines():
        name, number = line.split()
        if line.startswith(" "):
            member = getattr(struct, name + "_" * keyword.iskeyword(name))
            assert member.offset == int(number), f"{struct.__name__}.{name}"
            checked += 1
        else:
            struct = getattr(_bindings, name)
            assert ctypes.sizeof(struct) == int(number), name
    assert checked > 500


def test_a_library_is_named_by_an_absolute_path(tmp_path):
    for name in ["libbochner.so", "./libbochner.so", "directory/libbochner.so"]:
        done = subprocess.run([sys.executable, "-c", "import bochner"], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "BOCHNER_LIBRARY": name})
        assert done.returncode == 1
        assert f"BOCHNER_LIBRARY must be an absolute path, found {name}" in done.stderr
    done = subprocess.run([sys.executable, "-c", "import bochner"], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "BOCHNER_LIBRARY": _library.lib._library._name})
    assert done.returncode == 0, done.stderr


def test_every_declared_function_is_in_the_library():
    for name in _bindings.FUNCTIONS:
        assert getattr(_library.lib, name)
    with pytest.raises(AttributeError):
        _library.lib.bo_nothing


def test_errors_carry_the_message_of_the_library():
    with pytest.raises(bochner.InvalidArgumentError, match="heads") as info:
        bochner.Attention("softmax", heads=0, dim=4)
    assert isinstance(info.value, ValueError)
    for error, base in [(bochner.OutOfMemoryError, MemoryError), (bochner.InputOutputError, OSError),
                        (bochner.FormatError, ValueError), (bochner.NumericError, ArithmeticError)]:  # fmt: skip
        assert issubclass(error, base) and issubclass(error, bochner.BochnerError)


def test_devices_are_named():
    fitted = bochner.features.RandomFeatures(features=8, device="gpu").fit(np.ones((2, 3)))
    idle = {key: len(contexts) for key, contexts in _library._idle.items()}
    with pytest.raises(bochner.InvalidArgumentError, match="gpu.*expected cpu, cuda, cuda:N or auto"):
        fitted.transform(np.ones((2, 3)))
    with pytest.raises(bochner.InvalidArgumentError, match="gpu.*expected cpu, cuda, cuda:N or auto"):
        bochner.attention(np.ones((4, 2)), np.ones((4, 2)), np.ones((4, 2)), device="gpu")
    with pytest.raises(bochner.InvalidArgumentError, match="device: expected 'cpu'.*found 0"):
        bochner.Attention("softmax", heads=1, dim=2, device=0)
    with pytest.raises(TypeError, match="unknown setting 'device'"):
        bochner.features.kernel([[1.0]], device="cpu")
    assert {key: len(contexts) for key, contexts in _library._idle.items()} == idle
    fitted.set_params(device="cpu").transform(np.ones((2, 3)))


def test_threads_share_an_attention_and_a_state(rng):
    q, k, v = rng.standard_normal((3, 4, 200, 16), np.float32)
    fitted = bochner.Attention("favor", heads=4, dim=16, causal=True, features=32)
    expected, shared, failures = fitted(q, k, v), bochner.State(fitted), []

    def work():
        try:
            for _ in range(20):
                np.testing.assert_array_equal(fitted(q, k, v), expected)
                shared.extend(q, k, v)
                with pytest.raises(ValueError):
                    fitted(q * np.nan, k, v)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert shared.tokens == 6 * 20 * 200


def test_the_interpreter_runs_during_a_call(rng):
    """Another thread makes progress while the library computes."""
    q, k, v = rng.standard_normal((3, 4, 6000, 64), np.float32)
    counted, running = 0, True

    def work():
        bochner.attention(q, k, v)
        nonlocal running
        running = False

    thread = threading.Thread(target=work)
    thread.start()
    while running:
        counted += 1
    thread.join()
    assert counted > 1000


SETUP = """
import os, sys, threading, numpy as np, bochner
q, k, v = np.random.default_rng(0).standard_normal((3, 4, 300, 16), np.float32)
made = bochner.Attention("favor", heads=4, dim=16, causal=True)
expected = made(q, k, v)
"""


def test_a_forked_process_works(run):
    code = """
for _ in range(3):
    child = os.fork()
    if child == 0:
        same = np.array_equal(made(q, k, v), expected) and np.array_equal(bochner.attention(q, k, v, kind="favor", causal=True), expected)
        os._exit(0 if same else 3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(np.array_equal(made(q, k, v), expected))
"""
    assert run(SETUP + code) == "0\n0\n0\nTrue\n"


def test_a_fork_while_another_thread_computes(run):
    code = """
state = bochner.State(made)
stop = False
def work():
    while not stop:
        state.extend(q, k, v)
thread = threading.Thread(target=work)
thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        other = bochner.State(made)
        other.extend(q, k, v)
        state.tokens, state.copy(), made(q, k, v)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop = True
thread.join()
print("done")
"""
    assert run(SETUP + code) == "done\n"


def test_the_process_ends_with_live_objects_and_busy_threads(run):
    code = """
state = bochner.State(made)
class Cycle: pass
cycle = Cycle(); cycle.self = cycle; cycle.state = state; cycle.made = made
def work():
    while True:
        made(q, k, v); state.extend(q, k, v)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
sys.modules["keep"] = made
print("end")
"""
    assert run(SETUP + code) == "end\n"


def test_contexts_of_other_settings_are_destroyed(run):
    code = """
def threads():
    return len(os.listdir("/proc/self/task"))
for count in range(1, 30):
    bochner.set_threads(count)
    made(q, k, v)
bochner.set_threads(1)
made(q, k, v)
print(threads() < 8)
workers = [threading.Thread(target=lambda: [made(q, k, v) for _ in range(20)]) for _ in range(40)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(threads() < 20)
"""
    assert run(SETUP + code) == "True\nTrue\n"


def test_objects_are_destroyed(monkeypatch):
    destroyed = []
    handle = _library.Handle(1, destroyed.append, "kept")
    del handle
    assert destroyed == [1]


def test_memory_does_not_grow(run):
    code = """
import resource
def use(times):
    for seed in range(times):
        one = bochner.Attention("favor", heads=4, dim=64, causal=True, features=512, seed=seed)
        bochner.State(one).step(*np.zeros((3, 4, 64), np.float32))
use(50); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
use(200); after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(after - before < 20000, after - before)
"""
    assert run(SETUP + code).startswith("True")


def test_ctrl_c_stops_a_long_call(run):
    code = """
import signal, time
q, k, v = np.random.default_rng(0).standard_normal((3, 1, 300_000, 64), np.float32)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    bochner.attention(q, k, v)
    print("not stopped")
except KeyboardInterrupt:
    print("stopped", time.monotonic() - begin < 20)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, np.array_equal(made(*[x[:, :300, :16] for x in (expected,)*3]), made(expected, expected, expected)))
"""
    assert run(SETUP + code).splitlines() == ["stopped True", "True True"]


def test_callbacks_pass_their_exceptions_on():
    class Stop(Exception):
        pass

    def progress(what, done, total):
        raise Stop

    with pytest.raises(Stop):
        with _library.long_context(progress) as ctx:
            ctx.error = None
            if _library._pass_progress(id(ctx), b"testing", 1.0, 2.0) is False:
                raise ctx.error


def test_log_messages_reach_logging(caplog):
    with caplog.at_level("DEBUG", logger="bochner"):
        _library._pass_message(None, _bindings.BO_LOG_WARNING, "attention: μ".encode())
    assert caplog.records[0].levelname == "WARNING" and "μ" in caplog.text


def test_settings_of_the_process():
    assert bochner.get_isa() in ("amx", "avx512bf16", "avx512", "avx2", "neon", "ref")
    assert bochner.get_threads() >= 1
    for bad in (-1, 1.5, "two", None):
        with pytest.raises(ValueError, match="threads"):
            bochner.set_threads(bad)
    with pytest.raises(ValueError, match="precision"):
        bochner.set_precision("half")
    assert bochner.__version__.count(".") == 2
