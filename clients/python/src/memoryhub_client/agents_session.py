"""Session of the OpenAI Agents SDK on a memoryhub session; needs the extra `[openai-agents]`.

Items are messages, so that what was said is summarised and remembered like other talk; each keeps the item itself as
JSON, which is given back to the letter. Messages are never deleted one by one: what is popped or cleared is marked by a
further message of the role `tool`, which enters no context.

Where the model is asked through an endpoint of memoryhub as well, what that has stored gets the item as metadata.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, TypeVar
from uuid import NAMESPACE_URL, uuid5

from agents.items import TResponseInputItem
from agents.memory.session import SessionABC
from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

from memoryhub_client import types as t
from memoryhub_client.client import Memoryhub
from memoryhub_client.errors import NotFound

MARK: Final = "openai_agents"
BATCH: Final = 500
ROLES: Final = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
TEXTS: Final = ("input_text", "output_text", "text")

Answer = TypeVar("Answer")


class MemoryhubSession(SessionABC):
    """Conversation history of one session of the client's user. The client is synchronous, and used in threads."""

    def __init__(
        self,
        session_id: str,
        hub: Memoryhub,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        channel: str = "openai-agents",
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self._hub = hub
        self._channel = channel
        self._id = str(uuid5(NAMESPACE_URL, json.dumps([MARK, hub.agent_id, hub.user_id, session_id])))
        self._lock = threading.Lock()

    @property
    def headers(self) -> dict[str, str]:
        """Return the header by which the endpoints for chat programs store in this session."""
        return {"X-Session-Id": self._id}

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with a limit the latest so many."""
        most = resolve_session_limit(limit, self.session_settings)
        items = [item for _, item in await self._run(self._items)]
        return items if most is None or most < 0 else items[len(items) - min(most, len(items)) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items, in their order."""
        now = time.time_ns() // 1_000
        await self._run(lambda: self._add([as_message(item, now + place) for place, item in enumerate(items)]))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the latest item and return it; None where there is none."""
        return await self._run(self._pop)

    async def clear_session(self) -> None:
        """Remove all items. What was said stays remembered until the user is erased."""
        await self._run(self._clear)

    async def _run(self, act: Callable[[], Answer]) -> Answer:
        def locked() -> Answer:
            with self._lock:
                return act()

        return await asyncio.to_thread(locked)

    def _items(self) -> list[tuple[int, TResponseInputItem]]:
        """Return the items that were not removed, in the order in which they were added, with their places."""
        items: list[tuple[int, TResponseInputItem]] = []
        try:
            for message in self._hub.messages_list(self._id, limit=BATCH):
                mark = (message.get("metadata") or {}).get(MARK, {})
                if "item" in mark:
                    items.append((mark.get("at", message["seq"]), json.loads(mark["item"])))
                if "removed" in mark:
                    first, last = mark["removed"]
                    items = [(at, item) for at, item in items if not first <= at <= last]
        except NotFound:
            return []
        return sorted(items, key=itemgetter(0))

    def _add(self, messages: Sequence[t.MessageIn]) -> None:
        left = iter(messages)
        while batch := list(islice(left, BATCH)):
            try:
                self._hub.messages_create(self._id, messages=batch)
            except NotFound:
                self._hub.sessions_create(session_id=self._id, channel=self._channel, title=self.session_id[:255])
                self._hub.messages_create(self._id, messages=batch)

    def _pop(self) -> TResponseInputItem | None:
        items = self._items()
        if not items:
            return None
        at, item = items[-1]
        self._add([removal(at, at)])
        return item

    def _clear(self) -> None:
        if items := self._items():
            self._add([removal(items[0][0], items[-1][0])])


def removal(first: int, last: int) -> t.MessageIn:
    """Return the message that marks items as removed, from a place to another."""
    return {"role": "tool", "content": "(removed)", "metadata": {MARK: {"removed": [first, last]}}}


def as_message(item: TResponseInputItem, at: int) -> t.MessageIn:
    """Return an item as a message: its text, if somebody said it, and the whole of it as JSON, with its place."""
    values: Any = item
    text = "\n".join(_texts(values.get("content"))).encode("utf-8", "replace").decode().replace("\0", "")
    role: Any = ROLES.get(values.get("role", ""), "tool") if text.strip() else "tool"
    content = text if role != "tool" else str(values.get("type") or "item")
    metadata = {MARK: {"item": json.dumps(item), "at": at}}
    return {"role": role, "content": content, "metadata": metadata, "merge": role != "tool"}


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") in TEXTS:
            yield str(block.get("text") or "")
