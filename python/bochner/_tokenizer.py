"""Tokenizers, and text as a corpus of tokens."""

from __future__ import annotations

import contextlib
import ctypes
import numbers
import operator
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Union

import numpy as np

from . import _bindings as c
from ._arrays import address, as_bytes, as_ids
from ._library import (
    Context, Handle, InputOutputError, InvalidArgumentError, bytes_source, context, copied_bytes, copy_and_free, file_sink,
    file_source, lib, long_context, path_bytes, saved_bytes, text_bytes, whole,
)  # fmt: skip
from ._settings import checks_names, fill

Array = np.ndarray[Any, Any]
Path = Union[str, os.PathLike[str]]
Data = Union[str, bytes, Path, Sequence[Path], Sequence[int], Array]
"""Text: a string or bytes; the name of a file, or a list of names; or token ids."""

lib.bo_tokenizer_piece.restype = ctypes.c_void_p  # a piece may contain NUL


@contextlib.contextmanager
def ids_buffer() -> Iterator[c.bo_ids]:
    """A list of ids that a library call fills."""
    ids = c.bo_ids()
    try:
        yield ids
    finally:
        lib.bo_ids_free(ctypes.byref(ids))


def array_of(ids: c.bo_ids) -> Array:
    """A copy of a list of ids."""
    return np.array((ctypes.c_int32 * ids.count).from_address(ids.items or 0) if ids.count else [], np.int32)


class Tokenizer:
    """A tokenizer: text to token ids and back. Immutable; threads may share it.

    `Tokenizer()` has one id per byte. :meth:`train` learns a byte-pair encoding, and :meth:`load` reads tokenizer.json.

    Examples
    --------
    >>> import bochner
    >>> bytewise = bochner.Tokenizer()
    >>> bytewise.encode("Hi!")
    array([ 72, 105,  33], dtype=int32)
    >>> learned = bochner.Tokenizer.train("the cat and the hat and the bat " * 20, vocab=280)
    >>> len(learned.encode("the hat")) < len("the hat")
    True
    >>> learned.decode(learned.encode("the hat"))
    'the hat'
    """

    __slots__ = ("_handle",)

    def __init__(self) -> None:
        out = ctypes.c_void_p()
        with context() as ctx:
            lib.bo_tokenizer_create(ctx, ctypes.byref(out))
        self._handle = Handle(out.value, lib.bo_tokenizer_destroy)

    @classmethod
    def _of(cls, handle: Handle) -> Tokenizer:
        tokenizer = object.__new__(cls)
        tokenizer._handle = handle
        return tokenizer

    @classmethod
    @checks_names()
    def train(
        cls, data: str | bytes | Path | Sequence[Path], vocab: int, *, special: Sequence[str] | None = None,
        pattern: str | None = None, min_frequency: int | None = None,
    ) -> Tokenizer:  # fmt: skip
        """Learn a byte-level byte-pair encoding.

        Parameters
        ----------
        data : str, path or list of paths
            Text, or text files. A string that is the name of a file is a file.
        vocab : int
            Number of ids: 256 bytes, merges and special tokens.
        special : list of str, optional
            Texts that are always one token (default: "``<|endoftext|>``").
        pattern : str, optional
            Regular expression; pairs are merged only inside its matches (default: that of GPT-2).
        min_frequency : int, optional
            Minimum number of occurrences of a pair that is merged (default: 2).
        """
        desc, out = c.bo_tokenizer_desc(), ctypes.c_void_p()
        fill(desc, {"vocab": vocab, "min_frequency": min_frequency}, {"vocab": "vocab", "min_frequency": "min_count"})
        fill(desc, {"pattern": None if pattern is None else text_bytes(pattern, "pattern")})
        if special is not None:
            tokens = _strings([text_bytes(token, "special") for token in ([special] if isinstance(special, str) else special)])
            desc.special, desc.special_count = ctypes.addressof(tokens), len(tokens)
        with _files(data) as paths, long_context() as ctx:
            lib.bo_tokenizer_train(ctx, ctypes.byref(desc), _strings(paths), len(paths), ctypes.byref(out))
            return cls._of(Handle(out.value, lib.bo_tokenizer_destroy))

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Load a tokenizer.json, or that of a model directory."""
        out = ctypes.c_void_p()
        with context() as ctx:
            lib.bo_tokenizer_load(ctx, ctypes.byref(file_source(path)), ctypes.byref(out))
        return cls._of(Handle(out.value, lib.bo_tokenizer_destroy))

    def save(self, path: Path) -> None:
        """Write a tokenizer.json."""
        with context() as ctx:
            lib.bo_tokenizer_save(ctx, self._handle, ctypes.byref(file_sink(path)))

    def tobytes(self) -> bytes:
        """Return the text of tokenizer.json."""
        with context() as ctx:
            return saved_bytes(lambda sink: lib.bo_tokenizer_save(ctx, self._handle, sink))

    @classmethod
    def frombytes(cls, data: bytes | bytearray | memoryview) -> Tokenizer:
        """Restore a tokenizer from :meth:`tobytes`."""
        out, data = ctypes.c_void_p(), as_bytes(data, "data")
        with context() as ctx:
            lib.bo_tokenizer_load(ctx, ctypes.byref(bytes_source(data)), ctypes.byref(out))
        return cls._of(Handle(out.value, lib.bo_tokenizer_destroy))

    def __reduce__(self) -> Any:
        return (Tokenizer, ()) if self.is_bytes else (Tokenizer.frombytes, (self.tobytes(),))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self._fingerprint() == other._fingerprint()

    def __hash__(self) -> int:
        return hash(self._fingerprint())

    def _info(self) -> c.bo_tokenizer_info:
        return lib.bo_tokenizer_describe(self._handle).contents  # type: ignore[no-any-return]

    def _fingerprint(self) -> int:
        return int(self._info().fingerprint)

    def __repr__(self) -> str:
        return f"Tokenizer({'one id per byte' if self.is_bytes else f'vocab={self.vocab}'})"

    @property
    def vocab(self) -> int:
        """Number of ids. All ids are smaller."""
        return int(self._info().vocab)

    def __len__(self) -> int:
        return self.vocab

    @property
    def is_bytes(self) -> bool:
        """Whether ids are bytes."""
        return bool(self._info().bytes)

    @property
    def end(self) -> int | None:
        """The id that ends a document, or None."""
        return _id_or_none(self._info().end)

    def find(self, token: str) -> int | None:
        """Return the id of a token by its text, or None."""
        return _id_or_none(lib.bo_tokenizer_find(self._handle, text_bytes(token, "token")))

    def is_special(self, token: int) -> bool:
        """Return whether an id is a special token, which is not shown by default."""
        return whole(token, "token") < self.vocab and bool(lib.bo_tokenizer_is_special(self._handle, token))

    def piece(self, token: int) -> bytes:
        """Return the bytes of one id inside a text; empty if the id is invalid."""
        token, size = operator.index(token), ctypes.c_size_t()
        if not 0 <= token < self.vocab:
            return b""
        at = lib.bo_tokenizer_piece(self._handle, token, ctypes.byref(size))
        return copied_bytes(at, size.value)

    @checks_names()
    def encode(self, text: str | bytes, *, special: bool = True, template: bool = False) -> Array:
        """Return the ids of a text, as int32.

        Parameters
        ----------
        text : str or bytes
            The text.
        special : bool
            Whether texts of special tokens become these tokens (default), or are plain text.
        template : bool
            Whether to add the special tokens of the tokenizer's template, such as a start token (default: False).
        """
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else as_bytes(text, "text")
        with ids_buffer() as ids, context() as ctx:
            how = (c.BO_ENCODE_SPECIALS if special else 0) | (c.BO_ENCODE_TEMPLATE if template else 0)
            lib.bo_tokenizer_encode(ctx, self._handle, data, len(data), how, ctypes.byref(ids))
            return array_of(ids)

    @checks_names()
    def decode(self, ids: Any, errors: str = "replace") -> str:
        """Return the text of ids. `errors` is as in bytes.decode, for bytes that are not UTF-8."""
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_bytes(self, ids: Any) -> bytes:
        """Return the text of ids as bytes."""
        array, out, size = as_ids(ids, "ids"), ctypes.c_void_p(), ctypes.c_size_t()
        with context() as ctx:
            lib.bo_tokenizer_decode(ctx, self._handle, address(array), array.size, ctypes.byref(out), ctypes.byref(size))
        return copy_and_free(out, size)


def _id_or_none(token: int) -> int | None:
    return None if token < 0 else int(token)


def _strings(items: Sequence[bytes]) -> Any:
    """An array of C strings."""
    return (ctypes.c_char_p * len(items))(*items)


# ---- corpora --------------------------------------------------------------------------------------------------------


def _paths(data: Any) -> list[bytes] | None:
    """The files that `data` names; None if it is text or ids."""
    if isinstance(data, os.PathLike):
        return [path_bytes(data)]
    if isinstance(data, str):
        if len(data) < 4096 and "\0" not in data and os.path.isfile(data):
            return [path_bytes(data)]
        if re.fullmatch(r"\S*(/\S*|\.\w{1,6})", data):
            raise InputOutputError(f"{data}: there is no such file (text that looks like a path can be given as bytes)")
        return None
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], (str, os.PathLike)):
        return [path_bytes(path) for path in data]
    return None


@contextlib.contextmanager
def _files(data: Any) -> Iterator[list[bytes]]:
    """The files of `data`: the files that it names, or a temporary file with its text."""
    paths = _paths(data)
    if paths is not None:
        yield paths
        return
    if not isinstance(data, (str, bytes)):
        raise TypeError(f"data: expected text or the names of files, found {type(data).__name__}")
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape"))
        file.flush()
        yield [os.fsencode(file.name)]


def open_corpus(
    ctx: Context, tokenizer: Tokenizer, data: Any, *, skip: float = 0.0, take: float = 0.0, field: str | None = None,
    separator: str | None = None,
) -> Handle:  # fmt: skip
    """A corpus of text, files or ids. `skip` and `take` are fractions of its tokens."""
    out, paths = ctypes.c_void_p(), _paths(data)
    if paths is None and not isinstance(data, (str, bytes)):
        ids = as_ids(data, "data")
        first = int(skip * ids.size)
        ids = ids[first : first + int(take * ids.size) if take else ids.size]
        desc = c.bo_corpus_desc(tokenizer=tokenizer._handle._as_parameter_, ids=address(ids), id_count=ids.size)
        lib.bo_corpus_open(ctx, ctypes.byref(desc), ctypes.byref(out))
    else:
        desc = c.bo_corpus_desc(tokenizer=tokenizer._handle._as_parameter_, skip=skip, take=take)
        fill(desc, {name: None if text is None else text_bytes(text, name) for name, text in (("field", field), ("separator", separator))})
        if paths is None:
            text = data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")
            desc.memory, desc.memory_bytes = text, len(text)
        else:
            names = _strings(paths)
            desc.paths, desc.path_count = ctypes.addressof(names), len(paths)
        lib.bo_corpus_open(ctx, ctypes.byref(desc), ctypes.byref(out))
    return Handle(out.value, lib.bo_corpus_close, tokenizer._handle)


def open_corpora(
    ctx: Context, tokenizer: Tokenizer, data: Any, validation: Any, field: str | None, separator: str | None
) -> tuple[Handle, Handle | None]:
    """Training and validation text. `validation` is data, or the fraction at the end of `data` that is held out."""
    if validation is not None and not isinstance(validation, numbers.Real):
        held_out = open_corpus(ctx, tokenizer, validation, field=field, separator=separator)
        return open_corpus(ctx, tokenizer, data, field=field, separator=separator), held_out
    share = float(validation or 0)
    if not 0 <= share < 1:
        raise InvalidArgumentError(f"validation: expected a fraction in [0, 1) or text, found {validation!r}")
    if not share:
        return open_corpus(ctx, tokenizer, data, field=field, separator=separator), None
    train = open_corpus(ctx, tokenizer, data, take=1 - share, field=field, separator=separator)
    return train, open_corpus(ctx, tokenizer, data, skip=1 - share, field=field, separator=separator)
