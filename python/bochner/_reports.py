"""Reports: facts about objects, readable as text, as attributes, as a dict and in a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any


def shown(value: Any) -> str:
    """A value as human-readable text."""
    if isinstance(value, float):
        return "unknown" if math.isnan(value) else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def table(title: str, rows: Mapping[str, Any]) -> str:
    """Rows of names and values as an HTML table, for notebooks."""
    body = "".join(
        f"<tr><th style='text-align:left'>{html.escape(str(name))}</th><td>{html.escape(shown(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption style='text-align:left'><b>{html.escape(title)}</b></caption>{body}</table>"


class Report(Mapping[str, Any]):
    """Facts about an object. They are attributes and items; a notebook shows a table."""

    _title = "Report"

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        width = max((len(name) for name in self._values), default=0)
        return "\n".join([self._title, *(f"  {name:{width}}  {shown(value)}" for name, value in self._values.items())])

    def _repr_html_(self) -> str:
        return table(self._title, self._values)
