"""Arrays that callers pass in: NumPy arrays, buffers, lists, and tensors of other packages through DLPack."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from ._library import InvalidArgumentError


def as_array(value: Any, name: str) -> np.ndarray[Any, Any]:
    """The value as an array of real numbers, without a copy if the memory can be shared."""
    if type(value) is not np.ndarray:
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            try:
                value = np.from_dlpack(value)
            except (TypeError, RuntimeError, BufferError, AttributeError, ValueError) as error:
                raise TypeError(f"{name}: this {type(value).__name__} cannot be read as an array: {error}") from error
        else:
            refuse_masked(value, name)
            value = np.asarray(value)
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {value.dtype}; expected real numbers, such as float32 or float64")
    return value if value.flags.aligned else value.copy()  # type: ignore[no-any-return]


def refuse_masked(value: Any, name: str) -> None:
    """Raises an error for a masked array with hidden numbers, because the mask would be ignored."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidArgumentError(f"{name} is a masked array with masked numbers; replace them, for example with .filled(0)")


def as_float32(value: Any, name: str) -> np.ndarray[Any, Any]:
    """The value as a float32 array, in any memory order."""
    array = as_array(value, name)
    return array if array.dtype == np.float32 else array.astype(np.float32)


def as_float64(value: Any, name: str) -> np.ndarray[Any, Any]:
    """The value as a float64 array, in any memory order."""
    array = as_array(value, name)
    return array if array.dtype == np.float64 else array.astype(np.float64)


def as_ids(value: Any, name: str) -> np.ndarray[Any, Any]:
    """Token ids as a contiguous int32 vector."""
    refuse_masked(value, name)
    try:
        array = np.asarray(value) if len(value) else np.zeros(0, np.int32)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{name}: expected a list of token ids, found {type(value).__name__}") from None
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidArgumentError(f"{name}: expected a list of token ids, found an array of {array.dtype} with {array.ndim} dimensions")
    if array.size and (array.min() < 0 or array.max() > 2**31 - 1):
        raise InvalidArgumentError(f"{name}: token ids must be at least 0 and below 2^31")
    return np.require(array, np.int32, ["C", "A"])


def as_bytes(value: Any, name: str) -> bytes:
    """The bytes of a buffer. bytes() would also accept a number n and return n zeros."""
    try:
        return value if isinstance(value, bytes) else memoryview(value).tobytes()
    except TypeError:
        raise TypeError(f"{name}: expected bytes, found {type(value).__name__}") from None


def address(array: np.ndarray[Any, Any]) -> int:
    """The address of the first number."""
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def aligned(size: int) -> np.ndarray[Any, Any]:
    """Bytes that start at a multiple of 64."""
    memory = np.zeros(size + 64, np.uint8)
    start = -address(memory) % 64
    return memory[start : start + size]


# Memory of released results, by size, which later results reuse. The system fills new memory with zeros, page by page,
# which would take a tenth of the time of linear attention.
_spare: dict[int, np.ndarray[Any, Any]] = {}
_SIZES, _SMALLEST, _LARGEST = 4, 1 << 16, 64 << 20


class _Memory:
    """Memory of a result, which NumPy keeps as the base of the array."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, shape: tuple[int, ...], dtype: Any, size: int) -> None:
        memory = _spare.pop(size, None)
        self.memory = np.empty(size, np.uint8) if memory is None else memory
        self.__array_interface__ = {"shape": shape, "typestr": np.dtype(dtype).str, "data": (address(self.memory), False), "version": 3}

    def __del__(self, spare: dict[int, np.ndarray[Any, Any]] = _spare) -> None:
        while len(spare) >= _SIZES and self.memory.size not in spare:
            with contextlib.suppress(KeyError):  # another thread took the last block
                spare.popitem()
        spare[self.memory.size] = self.memory


def new_array(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An array for a result. It reuses the memory of an earlier result of the same size."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return np.asarray(_Memory(shape, dtype, size)) if _SMALLEST <= size <= _LARGEST else np.empty(shape, dtype)
