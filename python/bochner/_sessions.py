"""Sessions of language models, and the texts that they generate."""

from __future__ import annotations

import codecs
import collections
import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import _bindings as c
from ._arrays import address, as_bytes, as_ids
from ._model_core import Core
from ._library import (
    Context, Handle, InvalidArgumentError, NumericError, alone, bytes_source, file_sink, file_source, lib, new_lock,
    saved_bytes, whole,
)  # fmt: skip
from ._settings import Unpack, checks_names, fill, flag, warn_renamed
from ._tokenizer import Array, Path
from .typing import GenerationSettings

_PIECE = 4096  # tokens per call, so that Ctrl-C stops the reading of a long text
_WINDOW = 64  # number of tokens that a repetition penalty applies to
MAX_TOKENS = 256


class Session:
    """A sequence of tokens that a language model reads with a state, from :meth:`Model.session`.

    The state of attention with features does not grow with the number of tokens. Threads may share a session; each call
    finishes before the next call starts. A session keeps its model alive, even after :meth:`Model.close`.

    Examples
    --------
    >>> import bochner
    >>> model = bochner.Model.create(layers=1, width=32, heads=2, attention="favor", features=16)
    >>> session = model.session()
    >>> session.feed("To be, or not").shape                     # the logits of the next token
    (256,)
    >>> branch = session.fork()                                 # both continue from here
    >>> session.generate(max_tokens=5).run()
    Generation(5 tokens, finish_reason='length')
    >>> session.tokens, branch.tokens
    (18, 13)
    """

    def __init__(self, core: Core, capacity: int | None = None, chunk: int | None = None) -> None:
        desc, out = c.bo_session_desc(), ctypes.c_void_p()
        fill(desc, {"capacity": capacity, "chunk": chunk})
        with core.reading() as ctx:
            lib.bo_session_create(ctx, core.handle, ctypes.byref(desc), ctypes.byref(out))
        self._core = core
        self._desc = desc
        self._handle: Handle | None = Handle(out.value, lib.bo_session_destroy, core.handle)
        self._lock = new_lock()
        self._recent: collections.deque[int] = collections.deque(maxlen=_WINDOW)

    @contextlib.contextmanager
    def _use(self) -> Iterator[tuple[Context, Handle]]:
        with alone(self._lock):
            handle = self._open()
            with self._core.reading() as ctx:
                yield ctx, handle

    def _open(self) -> Handle:
        if self._handle is None:
            raise InvalidArgumentError("the session is closed")
        return self._handle

    # ---- reading ----------------------------------------------------------------------------------------------------

    def feed(self, tokens: Any) -> Array:
        """Read tokens and return the logits of the next token.

        Parameters
        ----------
        tokens : str, bytes or array_like of int
            Text or token ids. Text at the start of a session gets the special tokens of the tokenizer's template. No
            ids: only the logits after the last token are returned.

        Returns
        -------
        numpy.ndarray
            One float32 number per id of the vocabulary.
        """
        with self._use() as (ctx, handle):
            self._read(ctx, handle, self._ids(tokens))
            return self._last(ctx, handle)

    def logits(self, tokens: Any) -> Array:
        """Read tokens and return the logits after each of them, as rows."""
        with self._use() as (ctx, handle):
            ids = self._ids(tokens)
            out = np.empty((ids.size, self._core.vocab), np.float32)
            for at in range(0, ids.size, _PIECE):
                part = ids[at : at + _PIECE]
                _read_rows(ctx, handle, part, logits=address(out[at:]))
                self._recent.extend(part[-_WINDOW:].tolist())
        return out

    def score(self, tokens: Any) -> Array:
        """Read tokens and return the log-probability of each of them but the first, given those before it."""
        with self._use() as (ctx, handle):
            ids = self._ids(tokens)
            following = np.append(ids[1:], np.int32(-1))[: ids.size]
            losses = np.empty(ids.size, np.float32)
            for at in range(0, ids.size, _PIECE):
                part, targets = ids[at : at + _PIECE], following[at : at + _PIECE]
                _read_rows(ctx, handle, part, losses=address(losses[at:]), targets=address(targets))
                self._recent.extend(part[-_WINDOW:].tolist())
        return -losses[:-1]

    @checks_names(GenerationSettings)
    def generate(self, prompt: Any = None, **options: Unpack[GenerationSettings]) -> Generation:
        """Read a prompt, if there is one, and continue the sequence. Options are those of :meth:`Model.generate`.

        The session reads the tokens that were generated, so that later calls continue after them, as in one long call.
        """
        return Generation(self, prompt, keeps=True, **options)

    def _ids(self, tokens: Any) -> Array:
        if isinstance(tokens, (str, bytes)):
            starts = lib.bo_session_tokens(self._open()) == 0
            return self._core.require_tokenizer().encode(tokens, template=starts)
        return as_ids(tokens, "tokens")

    def _read(self, ctx: Context, handle: Handle, ids: Array) -> None:
        for at in range(0, ids.size, _PIECE):
            part = ids[at : at + _PIECE]
            lib.bo_session_feed(ctx, handle, address(part), part.size, None)
            self._recent.extend(part[-_WINDOW:].tolist())

    def _last(self, ctx: Context, handle: Handle) -> Array:
        out = np.empty(self._core.vocab, np.float32)
        lib.bo_session_feed(ctx, handle, None, 0, address(out))
        return out

    def reset(self) -> None:
        """Return to the empty sequence."""
        with self._use() as (ctx, handle):
            lib.bo_session_reset(ctx, handle)
            self._recent.clear()

    # ---- facts ------------------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> int:
        """Number of tokens read."""
        return int(lib.bo_session_tokens(self._open()))

    @property
    def remaining(self) -> int:
        """Number of tokens that can still be read."""
        return int(lib.bo_session_remaining(self._open()))

    @property
    def room(self) -> int:  # former name
        """Former name of :attr:`remaining`, which will be removed in the next version."""
        warn_renamed("Session.room", "Session.remaining")
        return self.remaining

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        size = ctypes.c_size_t()
        with self._use() as (ctx, _):
            lib.bo_session_estimate(ctx, self._core.handle, ctypes.byref(self._desc), ctypes.byref(size), None)
        return size.value

    def __repr__(self) -> str:
        closed = self._handle is None
        return "Session(closed)" if closed else f"Session({self.tokens} tokens, state of {self.nbytes:,} bytes)"

    # ---- states -----------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Save the state to a file."""
        with self._use() as (ctx, handle):
            lib.bo_session_save(ctx, handle, ctypes.byref(file_sink(path)))

    def load(self, path: Path) -> None:
        """Load a state. A state of another model or of other weights is refused."""
        with self._use() as (ctx, handle):
            lib.bo_session_load(ctx, handle, ctypes.byref(file_source(path)))
            self._recent.clear()

    def tobytes(self) -> bytes:
        """Return the state as bytes."""
        with self._use() as (ctx, handle):
            return saved_bytes(lambda sink: lib.bo_session_save(ctx, handle, sink))

    def restore(self, data: bytes | bytearray | memoryview) -> None:
        """Load a state from :meth:`tobytes`. A state of another model or of other weights is refused."""
        data = as_bytes(data, "data")
        with self._use() as (ctx, handle):
            lib.bo_session_load(ctx, handle, ctypes.byref(bytes_source(data)))
            self._recent.clear()

    def fork(self) -> Session:
        """Return an independent session with the same state."""
        other = Session(self._core, self._desc.capacity, self._desc.chunk)
        other.restore(self.tobytes())
        other._recent.extend(self._recent)
        return other

    __copy__ = fork

    def __deepcopy__(self, memo: Any) -> Session:
        return self.fork()

    def close(self) -> None:
        """Release the session after running calls in other threads end."""
        self._handle = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read_rows(ctx: Context, handle: Handle, ids: Array, **results: Any) -> None:
    """Read tokens, with a result for each of them."""
    reading = c.bo_session_reading(ids=address(ids), count=ids.size, **results)
    lib.bo_session_read(ctx, handle, ctypes.byref(reading))


# ---- generation -----------------------------------------------------------------------------------------------------


class _TextStream:
    """Complete text: a partial character or a partial stop word is not shown until it is complete."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""

    def add(self, piece: bytes, last: bool = False) -> tuple[str, bool]:
        """The text to show, and whether a stop word follows it."""
        text = self._pending + self._decoder.decode(piece, last)
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self._pending = ""
            self._decoder.reset()
            return text[: min(found)], True
        matched = 0 if last else max((_partial_stop(text, stop) for stop in self._stops), default=0)
        self._pending = text[len(text) - matched :]
        return text[: len(text) - matched], False


def _partial_stop(text: str, stop: str) -> int:
    """Characters at the end of a text that may be the start of a stop word."""
    return next((count for count in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:count])), 0)


class Generation(Iterator[str]):
    """A text during generation: an iterator over its pieces, from :meth:`Model.generate`.

    Attributes
    ----------
    ids : list of int
        The tokens chosen so far. An end token is included here, but it is not part of the text.
    prompt_tokens : int
        Number of tokens of the prompt.
    finish_reason : str or None
        None while the text is not complete; then "length", "end" (an end token), "stop" (a stop word) or "context" (the
        context is full).
    """

    def __init__(
        self, session: Session, prompt: Any = None, *, keeps: bool = False, max_tokens: int = MAX_TOKENS,
        temperature: float | None = None, top_k: int | None = None, top_p: float | None = None, min_p: float | None = None, greedy: bool = False,
        repetition_penalty: float | None = None, seed: int = 0, stop: str | Sequence[str] = (), ignore_end: bool = False,
        drawn: int | None = None, ends: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        self.ids: list[int] = []
        self.finish_reason: str | None = None
        self._session = session
        self._max_tokens = count(max_tokens, "max_tokens")
        self._keeps = keeps
        self._shown: list[str] = []
        self._stream = _TextStream(_stops(stop))
        core = session._core
        self._tokenizer = core.tokenizer
        self._ends = frozenset() if flag("ignore_end", ignore_end) else core.ends() | ends
        random = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
        _sampler(core, greedy, random, repetition_penalty, seed)  # refuses invalid settings before the prompt is read
        self._logits = np.empty(core.vocab, np.float32)
        with session._use() as (ctx, handle):
            ids = prompt_ids(core, prompt, starts=lib.bo_session_tokens(handle) == 0)
            session._read(ctx, handle, ids)
            self._read_logits(ctx, handle)  # refuses a session that cannot be continued
            if drawn is None:
                drawn = int(lib.bo_session_tokens(handle))
        self._sampler = _sampler(core, greedy, random, repetition_penalty, seed, drawn)
        for token in session._recent:
            lib.bo_sampler_remember(self._sampler, token)
        self.prompt_tokens = int(ids.size)
        if not self._max_tokens:
            self.finish_reason = "length"

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> str:
        while self.finish_reason is None:
            if text := self._step():
                self._shown.append(text)
                return text
        raise StopIteration

    def run(self) -> Generation:
        """Generate the rest."""
        for _ in self:
            pass
        return self

    def text(self) -> str:
        """Generate the rest, and return the entire text."""
        return "".join(self.run()._shown)

    def __repr__(self) -> str:
        return f"Generation({len(self.ids)} tokens, finish_reason={self.finish_reason!r})"

    def _read_logits(self, ctx: Context, handle: Handle) -> None:
        lib.bo_session_feed(ctx, handle, None, 0, address(self._logits))

    def _step(self) -> str:
        """Chooses a token and reads it, and returns the text that became complete."""
        with self._session._use() as (ctx, handle):
            if self.finish_reason is not None:  # by another thread
                return ""
            self._read_logits(ctx, handle)
            if np.isnan(self._logits.max(initial=0)):
                raise NumericError("the logits contain NaN or infinity; the weights of the model are too large, or contain NaN or infinity")
            token = lib.bo_sampler_next(self._sampler, address(self._logits), self._logits.size)
            self.ids.append(token)
            if token in self._ends:
                self.finish_reason = "end"
                return self._stream.add(b"", last=True)[0]
            text, stopped = self._stream.add(self._tokenizer.piece(token) if self._tokenizer else b"")
            reason = "stop" if stopped else "length" if len(self.ids) == self._max_tokens else None
            if self._keeps or reason is None:
                if lib.bo_session_remaining(handle):
                    self._session._read(ctx, handle, np.array([token], np.int32))
                else:
                    reason = reason or "context"
            self.finish_reason = reason
        if reason in ("length", "context"):
            text += self._stream.add(b"", last=True)[0]
        return text


def prompt_ids(core: Core, prompt: Any, starts: bool) -> Array:
    """The tokens of a prompt. A text that starts a sequence has the special tokens of the tokenizer's template; an
    empty prompt starts with them, with the token that ends a text, or with a line end."""
    if prompt is not None and not isinstance(prompt, (str, bytes)):
        ids = as_ids(prompt, "prompt")
        if ids.size or not starts:
            return ids
        prompt = None
    if not starts:
        return core.require_tokenizer().encode(prompt) if prompt else np.zeros(0, np.int32)
    tokenizer = core.require_tokenizer()
    ids = tokenizer.encode(prompt or "", template=True)
    return ids if ids.size else tokenizer.encode(b"\n" if tokenizer.end is None else tokenizer.piece(tokenizer.end))


def _sampler(core: Core, greedy: bool, random: dict[str, Any], penalty: float | None, seed: int, drawn: int = 0) -> Handle:
    greedy = flag("greedy", greedy)
    if greedy and (conflicting := [name for name, value in random.items() if value]):
        raise InvalidArgumentError(f"greedy chooses the most likely token; leave out {conflicting[0]}")
    if random["temperature"] == 0:
        greedy, random = True, {}
    desc, out = c.bo_sampler_desc(greedy=greedy), ctypes.c_void_p()
    fill(desc, {**random, "repetition_penalty": penalty, "seed": seed, "drawn": drawn})
    with core.reading() as ctx:
        lib.bo_sampler_create(ctx, ctypes.byref(desc), ctypes.byref(out))
    return Handle(out.value, lib.bo_sampler_destroy)


def _stops(stop: str | Sequence[str]) -> list[str]:
    stops = [stop] if isinstance(stop, str) else list(stop)
    if not all(isinstance(word, str) and word for word in stops):
        raise InvalidArgumentError(f"stop: expected texts that are not empty, found {stop!r}")
    return stops


def count(value: Any, name: str) -> int:
    """A count, at least 0."""
    return whole(value, name)


def session_for(core: Core, prompt: Any, max_tokens: int) -> tuple[Session, Array]:
    """A session with the capacity for a prompt and its continuation, and the tokens of the prompt."""
    ids = prompt_ids(core, prompt, starts=True)
    return Session(core, capacity=max(ids.size + count(max_tokens, "max_tokens"), 1)), ids

