"""The link to libbochner: loading, contexts, errors and objects.

A context of the library serves one thread at a time and computes on one device. A call leases an idle context and
returns it, so that threads never share a context. Up to eight idle contexts are kept for each device:

    with context() as c:
        lib.bo_features_apply(c, ...)

Every function that returns a status raises the exception of that status, with the library's message. The global
interpreter lock is released during every call.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import logging
import operator
import os
import pathlib
import signal
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

from . import _bindings as c
from .typing import Precision

log = logging.getLogger("bochner")
log.addHandler(logging.NullHandler())


# ---- errors ---------------------------------------------------------------------------------------------------------


class BochnerError(Exception):
    """An error reported by the library, with the library's message."""


class InvalidArgumentError(BochnerError, ValueError):
    """An argument is out of range or contradicts another one."""


class OutOfMemoryError(BochnerError, MemoryError):
    """An allocation failed, or an operation needs more memory than the limit."""


class InputOutputError(BochnerError, OSError):
    """The operating system reported an error: a missing file, a full disk."""


class FormatError(BochnerError, ValueError):
    """The contents of a file or of a memory block are malformed."""


class VersionError(BochnerError, ValueError):
    """A newer version of Bochner wrote the file."""


class UnsupportedError(BochnerError, ValueError):
    """The request is valid, but this build or this combination of settings does not support it."""


class NumericError(BochnerError, ArithmeticError, ValueError):
    """No solution, no convergence, or a NaN or infinity."""


class CanceledError(BochnerError):
    """A callback canceled the operation."""


_ERRORS: dict[int, type[BochnerError]] = {
    c.BO_INVALID: InvalidArgumentError,
    c.BO_MEMORY: OutOfMemoryError,
    c.BO_IO: InputOutputError,
    c.BO_FORMAT: FormatError,
    c.BO_VERSION: VersionError,
    c.BO_UNSUPPORTED: UnsupportedError,
    c.BO_NUMERIC: NumericError,
    c.BO_CANCELED: CanceledError,
}


def _check(status: int, function: Any, arguments: tuple[Any, ...]) -> int:
    """Raises the exception of a status. If a callback raised an exception, the context stores it, and it is raised again."""
    if status == c.BO_OK:
        return status
    message = lib.bo_status_string(status).decode()
    if arguments and isinstance(arguments[0], Context):
        error, arguments[0].error = arguments[0].error, None
        if error is not None:
            raise error
        message = lib.bo_context_error(arguments[0]).decode(errors="replace") or message
    raise _ERRORS.get(status, BochnerError)(message)


@contextlib.contextmanager
def renamed(found: str, name: str) -> Iterator[None]:
    """Replaces a name in messages of the library, such as that of a temporary file, with the name of an argument."""
    try:
        yield
    except BochnerError as error:
        raise type(error)(str(error).replace(found, name)) from None


# ---- loading --------------------------------------------------------------------------------------------------------


class _Library:
    """The functions of libbochner, declared on first use."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def __getattr__(self, name: str) -> Any:
        try:
            result, arguments = c.FUNCTIONS[name]
        except KeyError:
            raise AttributeError(name) from None
        function = getattr(self._library, name)
        function.restype = ctypes.c_int if result is c.bo_status else result
        function.argtypes = arguments
        if result is c.bo_status:
            function.errcheck = _check
        setattr(self, name, function)
        return function


def _library_path() -> str:
    """The library in the package, or another build, such as one with sanitizers, at the path in BOCHNER_LIBRARY."""
    path = os.environ.get("BOCHNER_LIBRARY") or os.path.abspath(pathlib.Path(__file__).parent / "libbochner.so")
    if not os.path.isabs(path):
        raise ImportError(f"BOCHNER_LIBRARY must be an absolute path, found {path}")
    return path


lib = _Library(_library_path())


# ---- contexts -------------------------------------------------------------------------------------------------------

Progress = Callable[[str, float, float], object]
"""A progress callback: phase, amount done, total amount (0 if unknown). It cancels by returning False, or 0."""


class Context:
    """A context of the library. `error` is the exception of a callback; `progress` is the callback of the running call."""

    __slots__ = ("_as_parameter_", "error", "interrupted", "progress")

    def __init__(self, threads: int, precision: int, watched: bool, device: str) -> None:
        self.error: BaseException | None = None
        self.progress: Progress | None = None
        self.interrupted = False
        desc = c.bo_context_desc(threads=threads, precision=precision, log=_log)
        if watched:
            desc.progress = _progress
            desc.user = id(self)
            _watched[id(self)] = self  # for the lifetime of the context
        address = ctypes.c_void_p()
        lib.bo_context_create(ctypes.byref(desc), ctypes.byref(address))
        self._as_parameter_: int | None = address.value
        if device != "cpu":
            try:
                lib.bo_context_use_device(self, text_bytes(device, "device"))
            except BaseException:
                self.destroy()
                raise

    def destroy(self) -> None:
        """Destroys the context and its threads. It must not be in use."""
        _watched.pop(id(self), None)
        lib.bo_context_destroy(self)
        self._as_parameter_ = None


_watched: dict[int, Context] = {}
_collected = threading.local()


@contextlib.contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """The warnings of the library in calls of this thread."""
    _collected.messages = []
    try:
        yield _collected.messages
    finally:
        _collected.messages = None


def _pass_message(user: int | None, level: int, message: bytes) -> None:
    number = {c.BO_LOG_WARNING: logging.WARNING, c.BO_LOG_INFO: logging.INFO}.get(level, logging.DEBUG)
    if log.isEnabledFor(number):
        log.log(number, "%s", message.decode(errors="replace"))
    if level == c.BO_LOG_WARNING and getattr(_collected, "messages", None) is not None:
        _collected.messages.append(message.decode(errors="replace"))


def _pass_progress(user: int, what: bytes, done: float, total: float) -> bool:
    context = _watched[user]
    if context.interrupted or _ending:
        context.error = KeyboardInterrupt() if context.interrupted else SystemExit()
        return False
    if context.progress is None:
        return True
    try:
        return continues(context.progress(what.decode(), done, total))
    except BaseException as error:
        context.error = error
        return False


_log, _progress = c.bo_log_fn(_pass_message), c.bo_progress_fn(_pass_progress)
_Key = tuple[int, int, bool, str]
_idle: dict[_Key, list[Context]] = {}
_MAX_IDLE = 8  # contexts beyond this number are destroyed after use, with their threads
_threads = 0
_precision = c.BO_PRECISION_FLOAT32


class _Lease:
    """Leases an idle context, or a new one, and returns it afterwards."""

    __slots__ = ("key", "ctx")

    def __init__(self, key: _Key) -> None:
        self.key = key

    def __enter__(self) -> Context:
        try:
            self.ctx = _idle[self.key].pop()
        except (KeyError, IndexError):
            self.ctx = Context(*self.key)
        return self.ctx

    def __exit__(self, *_: object) -> None:
        idle = _idle.setdefault(self.key, [])
        if self.key[0] == _threads and len(idle) < _MAX_IDLE:
            idle.append(self.ctx)
        else:
            self.ctx.destroy()


def context(precision: int | None = None, device: str = "cpu") -> _Lease:
    """A context for a short call. `precision` (default: that of set_precision) is used when an object is created."""
    return _Lease((_threads, _precision if precision is None else precision, False, device))


@contextlib.contextmanager
def long_context(
    progress: Progress | None = None, precision: int | None = None, device: str = "cpu"
) -> Iterator[Context]:
    """A context for a call that takes seconds: it reports progress, and Ctrl-C stops it.

    Python runs the handler of a signal only between instructions of the main thread. During the call these are the
    instructions of the progress callback, where an exception would be lost. A handler that only sets a flag replaces
    Python's handler.
    """
    with _Lease((_threads, _precision if precision is None else precision, True, device)) as ctx:
        ctx.error, ctx.progress, ctx.interrupted = None, progress, False

        def interrupt(number: int, frame: types.FrameType | None) -> None:
            ctx.interrupted = True

        handles_interrupt = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if handles_interrupt:
            signal.signal(signal.SIGINT, interrupt)
        _running.add(id(ctx))
        try:
            yield ctx
        finally:
            _running.discard(id(ctx))
            ctx.progress = None
            if handles_interrupt:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        if ctx.interrupted:  # after the last progress report
            raise KeyboardInterrupt


_running: set[int] = set()  # contexts of long calls
_ending = False
_PATIENCE = 10.0  # seconds


def _at_exit() -> None:
    """Stops long calls of daemon threads: their callbacks would call a finalized interpreter."""
    global _ending
    _ending = True
    limit = time.monotonic() + _PATIENCE
    while _running and time.monotonic() < limit:
        time.sleep(0.002)


atexit.register(_at_exit)


def continues(returned: Any) -> bool:
    """Whether the return value of a callback continues the operation: None, or any true value."""
    return returned is None or bool(returned)


def guarded(context: Context, function: Callable[..., Any], fallback: Any) -> Callable[..., Any]:
    """A callback that stores its exception until the end of the call and returns `fallback`, which cancels."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BaseException as error:
            context.error = error
            return fallback

    return call


def set_threads(threads: int) -> None:
    """Set the number of threads of later calls (default: the CPUs available to the process).

    >>> import bochner
    >>> bochner.set_threads(2)
    >>> bochner.get_threads()
    2
    >>> bochner.set_threads(0)      # the default
    """
    global _threads
    _threads = whole(threads, "set_threads", bits=12)
    for key in [key for key in list(_idle) if key[0] != _threads]:
        unused = _idle.pop(key, [])
        with contextlib.suppress(IndexError):
            while True:  # another thread may lease one meanwhile
                unused.pop().destroy()


def get_threads() -> int:
    """Return the number of threads that calls use."""
    with context() as ctx:
        return int(lib.bo_context_describe(ctx).contents.threads)


def set_precision(precision: Precision) -> None:
    """Set the precision of the matrix products of attention and models that are created later: float32 or bfloat16.

    >>> import bochner
    >>> bochner.set_precision("float32")
    """
    global _precision
    _precision = precision_number(precision)


def get_precision() -> Precision:
    """Return the precision of attention and models that are created without one."""
    return cast(Precision, enum_name(c.BO_ENUM_PRECISION, _precision))


def device_name(device: Any) -> str:
    """The value of an argument `device`, which the library checks when it is used."""
    if not isinstance(device, str):
        raise InvalidArgumentError(f"device: expected 'cpu', 'cuda', 'cuda:N' or 'auto', found {device!r}")
    return device


def precision_number(name: str) -> int:
    return parse("precision", name, c.BO_ENUM_PRECISION)


def get_isa() -> str:
    """Return the instruction set of the compute kernels: amx, avx512bf16, avx512, avx2, neon or ref."""
    with context() as ctx:
        return str(lib.bo_context_describe(ctx).contents.isa.decode())


def parse(what: str, name: str, which: int) -> int:
    """The value of an enumeration by its name."""
    number = int(lib.bo_enum_parse(which, text_bytes(name, what))) if isinstance(name, str) else -1
    if number < 0:
        raise InvalidArgumentError(f"{what}: {name!r} is not known; expected one of {', '.join(_names(which))}")
    return number


def enum_name(which: int, value: int) -> str:
    """The name of a value of an enumeration."""
    return str(lib.bo_enum_name(which, value).decode())


def _names(which: int) -> list[str]:
    """The names of an enumeration that can be parsed."""
    found = (lib.bo_enum_name(which, number) for number in range(64))
    return [name.decode() for name in found if name and lib.bo_enum_parse(which, name) >= 0]


def text_bytes(text: str, name: str) -> bytes:
    """A text as a C string for the library."""
    if not isinstance(text, str):
        raise InvalidArgumentError(f"{name}: expected text, found {text!r}")
    data = text.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise InvalidArgumentError(f"{name}: {text!r} contains a NUL character")
    return data


def whole(value: Any, name: str, bits: int = 62) -> int:
    """A nonnegative integer argument of a function."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{name}: expected a whole number, found {value!r}") from None
    if isinstance(value, bool) or not 0 <= number < 1 << bits:
        raise InvalidArgumentError(f"{name}: expected a whole number from 0 to 2^{bits} - 1, found {value!r}")
    return number


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    """A path as a C string for the library."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"expected a path, found {type(path).__name__}")
    name = os.fsencode(path)
    if b"\0" in name:
        raise InvalidArgumentError("a path contains a NUL character")
    return name


def file_source(path: str | os.PathLike[str]) -> c.bo_source:
    """A file or directory to read."""
    return c.bo_source(path=path_bytes(path))


def bytes_source(data: bytes) -> c.bo_source:
    """Bytes to read, which must outlive the call."""
    return c.bo_source(bytes=ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), size=len(data))


def file_sink(path: str | os.PathLike[str]) -> c.bo_sink:
    """A file or directory to write."""
    return c.bo_sink(path=path_bytes(path))


def saved_bytes(save: Callable[[Any], Any]) -> bytes:
    """The bytes that a function writes to its sink argument."""
    out, size = ctypes.c_void_p(), ctypes.c_size_t()
    save(ctypes.byref(c.bo_sink(bytes=ctypes.addressof(out), size=ctypes.addressof(size))))
    return copy_and_free(out, size)


# ---- objects --------------------------------------------------------------------------------------------------------


class Handle:
    """Owns a library object and destroys it when nothing refers to the handle any more.

    It can be passed to functions in place of the object. A thread that runs a call refers to the handle, so that an
    object is never destroyed during a call. `keep_alive` are objects that must outlive this object. Objects that exist
    until the end of the process are not destroyed, because other threads may still use them.
    """

    __slots__ = ("__weakref__", "_as_parameter_", "_finalize")

    def __init__(self, address: int | None, destroy: Callable[[int], Any], *keep_alive: Any) -> None:
        assert address
        self._as_parameter_: int | None = address
        self._finalize = weakref.finalize(self, _destroy, destroy, address, keep_alive)
        self._finalize.atexit = False

    def destroy(self) -> None:
        """Destroys the object now, although an exception may still refer to the handle."""
        self._as_parameter_ = None
        self._finalize()


def _destroy(destroy: Callable[[int], Any], address: int, keep_alive: tuple[Any, ...]) -> None:
    destroy(address)


def copy_and_free(address: ctypes.c_void_p, size: ctypes.c_size_t) -> bytes:
    """Copies memory that the library allocated, and frees it."""
    try:
        return copied_bytes(address.value, size.value)
    finally:
        lib.bo_free(address)


def copied_bytes(address: int | None, size: int) -> bytes:
    """A copy of memory. ctypes.string_at() limits the size to a C int."""
    return bytes((ctypes.c_char * size).from_address(address)) if address and size else b""


_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def free_after_fork(lock: Any) -> None:
    """Unlocks an object with the method `_at_fork_reinit` in a forked process."""
    _locks.add(lock)


def new_lock() -> Any:
    """A lock for an object that only one thread at a time may use, for `alone`. It is unlocked in a forked process."""
    lock = threading.RLock()
    free_after_fork(lock)
    return lock


def alone(lock: Any) -> Any:
    """The lock as a context manager. If the thread already has it, the thread is in a signal handler or a callback and
    would deadlock."""
    if lock._is_owned():
        raise BochnerError("a signal handler or a callback cannot use the object that its caller uses")
    return lock


def _after_fork() -> None:
    """A forked process has no threads of its contexts, and locks of other threads stay locked."""
    _idle.clear()
    _running.clear()
    for lock in list(_locks):
        lock._at_fork_reinit()


os.register_at_fork(after_in_child=_after_fork)
