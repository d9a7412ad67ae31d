"""Objects of the library that are pickled and copied in the library's own file formats."""

from __future__ import annotations

import ctypes
from typing import Any

from ._library import Handle, InputOutputError, bytes_source, context, lib, path_bytes, saved_bytes

_KINDS = ("features", "machine", "schema")


class Saved(Handle):
    """A feature map, a kernel machine or a schema. It is immutable, so copies share it.

    A machine from a file has the schema of the file, which is pickled with it: without a schema, the library reads rows
    without preprocessing, and estimators subtract the origins of columns.
    """

    __slots__ = ("kind", "schema")

    def __init__(self, kind: str, address: int | None, schema: Saved | None = None) -> None:
        assert kind in _KINDS
        super().__init__(address, getattr(lib, f"bo_{kind}_destroy"))
        self.kind, self.schema = kind, schema

    def tobytes(self, schema: Saved | None = None) -> bytes:
        """The contents of a file. A machine can have a schema, which is stored with it."""
        extra = (schema,) if self.kind == "machine" else ()
        with context() as ctx:
            return saved_bytes(lambda sink: getattr(lib, f"bo_{self.kind}_save")(ctx, self, *extra, sink))

    def __reduce__(self) -> Any:
        return read, (self.kind, self.tobytes(self.schema))

    def __copy__(self) -> Saved:
        return self

    def __deepcopy__(self, memo: Any) -> Saved:
        return self


def read(kind: str, contents: bytes) -> Saved:
    """Restores an object from the contents of a file."""
    return read_machine(contents)[0] if kind == "machine" else Saved(kind, _load(kind, contents))


def read_machine(contents: bytes) -> tuple[Saved, Saved | None]:
    """Restores a machine and the schema that is stored with it."""
    schema = ctypes.c_void_p()
    address = _load("machine", contents, ctypes.byref(schema))
    stored = Saved("schema", schema.value) if schema.value else None
    return Saved("machine", address, stored), stored


def _load(kind: str, contents: bytes, *extra: Any) -> int | None:
    out = ctypes.c_void_p()
    with context() as ctx:
        source = bytes_source(contents)
        getattr(lib, f"bo_{kind}_load")(ctx, ctypes.byref(source), ctypes.byref(out), *extra)
    return out.value


def write_file(path: Any, contents: bytes) -> None:
    """Writes a file atomically: a reader sees either the old or the new contents."""
    with context() as ctx:
        lib.bo_file_save(ctx, path_bytes(path), contents, len(contents))


def read_file(path: Any) -> bytes:
    """Reads a file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InputOutputError(f"{path}: {error.strerror or error}") from error
