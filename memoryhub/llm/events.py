"""Server-sent events out of bytes that come in any cut. Pure: no network, no vendor.

The SDKs' own readers keep a line of any length and answer a broken one with an exception of the JSON library.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `name` is "" where the server gave none."""

    name: str
    data: str = field(repr=False)


class EventDecoder:
    """Collects bytes and gives the events that are whole (WHATWG HTML, 9.2.6; without ids and retry times)."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that are complete with these bytes."""
        self._rest += chunk
        if b"\n" not in chunk:  # a line without end must not be searched again with every piece
            return
        *lines, rest = self._rest.replace(b"\r\n", b"\n").split(b"\n")
        self._rest = rest
        for line in lines:
            if event := self._line(line.decode("utf-8", "replace")):
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._finished()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)
        return None  # a comment, or a field that we do not use

    def _finished(self) -> Event | None:
        event = Event(self._name, "\n".join(self._data)) if self._data else None
        self._name, self._data = "", []
        return event
