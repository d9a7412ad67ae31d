"""Chat templates: the text that a chat model reads for a conversation."""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from . import _bindings as c
from ._model_core import Core
from ._library import Handle, lib, text_bytes
from ._tokenizer import Array, array_of, ids_buffer

Message = Mapping[str, Any]
"""A message: {"role": "user", "content": "Hello"}."""

_FILES = ("chat_template.jinja", "tokenizer_config.json", "special_tokens_map.json")


def open_template(core: Core, text: str | None) -> Handle:
    """The chat template of a model, from the files that it was loaded with. `text` replaces its template."""
    out = ctypes.c_void_p()
    with tempfile.TemporaryDirectory() as directory, core.reading() as ctx:
        for name in _FILES:
            if found := lib.bo_model_companion(core.handle, name.encode()):
                with open(os.path.join(directory, name), "wb") as file:
                    file.write(found)
        desc = c.bo_chat_template_desc(directory=os.fsencode(directory), text=None if text is None else text_bytes(text, "template"))
        lib.bo_chat_template_create(ctx, ctypes.byref(desc), ctypes.byref(out))
    return Handle(out.value, lib.bo_chat_template_destroy)


def encode(core: Core, template: Handle, messages: Sequence[Message], variables: Mapping[str, Any], parse_special: bool) -> Array:
    """The tokens of the conversation, up to the start of the reply."""
    values = json.dumps({**variables, "messages": list(messages)})
    options = c.bo_chat_options(add_generation_prompt=True, variables=values.encode(), parse_special=bool(parse_special))
    tokenizer = core.require_tokenizer()
    with ids_buffer() as ids, core.reading() as ctx:
        lib.bo_chat_encode(ctx, template, tokenizer._handle, None, 0, ctypes.byref(options), ctypes.byref(ids))
        return array_of(ids)


def end_token(core: Core, template: Handle) -> frozenset[int]:
    """The token that ends a reply, in addition to those that end a text."""
    text = lib.bo_chat_template_token(template, b"eos_token")
    token = core.require_tokenizer().find(text.decode()) if text else None
    return frozenset() if token is None else frozenset((token,))
