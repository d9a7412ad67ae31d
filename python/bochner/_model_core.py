"""Shared by the parts of a model: the library object, its tokenizer, and its readers-writer lock."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Any

from . import _bindings as c
from ._library import BochnerError, Context, Handle, InvalidArgumentError, context, free_after_fork, lib
from ._tokenizer import Tokenizer


class Gate:
    """A readers-writer lock: any number of threads read a model, or one thread changes it. That thread may also read,
    in a callback.

    Readers wait for a short change. A long change, which has a name, may take hours: other threads get an error. A
    thread that reads repeatedly yields to a waiting change.
    """

    _PATIENCE = 0.1  # seconds for which a reader yields to waiting changes, which may wait for another reader

    def __init__(self) -> None:
        self._at_fork_reinit()
        free_after_fork(self)

    def _at_fork_reinit(self) -> None:
        self._free = threading.Condition()
        self._readers: dict[int, int] = {}
        self._writer: int | None = None
        self._waiting = 0  # waiting changes
        self._work = ""

    def _wait(self) -> None:
        if self._writer is not None and self._work:
            raise BochnerError(f"the model is being {self._work} by another thread; wait for its end, or use a copy")
        self._free.wait()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._free:
            if self._waiting and me not in self._readers:
                self._free.wait_for(lambda: not self._waiting, self._PATIENCE)
            while self._writer not in (None, me):
                self._wait()
            self._readers[me] = self._readers.get(me, 0) + 1
        try:
            yield
        finally:
            with self._free:
                left = self._readers.pop(me, 1) - 1
                if left:
                    self._readers[me] = left
                self._free.notify_all()

    @contextlib.contextmanager
    def changing(self, work: str = "") -> Iterator[None]:
        """`work` names a long change: "trained"."""
        me = threading.get_ident()
        with self._free:
            if me == self._writer or me in self._readers:
                raise BochnerError("a callback cannot change the model that its caller uses")
            self._waiting += 1
            try:
                while self._writer is not None or self._readers:
                    self._wait()
                self._writer, self._work = me, work
            finally:
                self._waiting -= 1
                self._free.notify_all()
        try:
            yield
        finally:
            with self._free:
                self._writer = None
                self._free.notify_all()


class Core:
    """A library model. Objects that use the model refer to this object, so that it outlives them."""

    __slots__ = ("gate", "handle", "precision", "tokenizer")

    def __init__(self, handle: Handle, precision: int, tokenizer: Tokenizer | None = None) -> None:
        self.gate = Gate()
        self.handle = handle
        self.precision = precision
        self.tokenizer = tokenizer
        if tokenizer is None and (tokenizer_handle := lib.bo_model_tokenizer(handle)):
            self.tokenizer = Tokenizer._of(Handle(tokenizer_handle, _no_destroy, handle))

    @contextlib.contextmanager
    def reading(self) -> Iterator[Context]:
        """A context for a call that does not change the model. Graphs compute in the precision of their context."""
        with self.gate.reading(), context(self.precision) as ctx:
            yield ctx

    @property
    def desc(self) -> Any:
        return lib.bo_model_describe(self.handle).contents

    @property
    def vocab(self) -> int:
        return int(self.desc.vocab)

    @property
    def facts(self) -> Any:
        return lib.bo_model_report(self.handle).contents

    def require_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise InvalidArgumentError("the model has no tokenizer, which is required to read text; pass token ids")
        return self.tokenizer

    def ends(self) -> frozenset[int]:
        """The tokens at which a text ends."""
        facts = self.facts
        return frozenset((ctypes.c_int32 * facts.end_count).from_address(facts.end_tokens) if facts.end_count else ())


def network_info(handle: Handle) -> Any:
    """The facts in network.h about a model of the task predict."""
    return c.bo_network_info.from_address(lib.bo_model_report(handle).contents.network)


def _no_destroy(address: int) -> None:
    """Destroys nothing: the object belongs to a model."""
