"""DeepSeek's export: the zip as downloaded, or its `conversations.json`. Pure.

Its conversations look like ChatGPT's, but messages are made of fragments that tell questions, answers, thoughts and
searches apart, and no node is marked as the current one.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from memoryhub.importexport.foreign.archives import Archive, first_values, json_files, records_of
from memoryhub.importexport.foreign.records import (
    FILES,
    NO_OBJECTS,
    SESSIONS,
    THOUGHTS,
    TOOLS,
    ImportedMessage,
    ImportedSession,
    LocatedRecord,
    Record,
    UnreadableElement,
    checked_id,
    checked_title,
    lenient_time,
    mapping,
    new_message,
    objects,
    sort_time,
)
from memoryhub.importexport.foreign.trees import branch_records, node_parents

_LEFT_OUT: Final = {"THINK": THOUGHTS}

SIGN: Final = "conversations with `inserted_at`, or with messages in `fragments`"


def recognises(archive: Archive) -> bool:
    return any(map(is_conversation, first_values(archive, _files(archive))))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    yield from records_of(archive, _files(archive), read_conversation, record_name=SESSIONS)


def _files(archive: Archive) -> list[str]:
    return archive.named("conversations.json") or json_files(archive)


def is_conversation(value: Any) -> bool:
    """Return whether a value is a conversation with DeepSeek's names of times or of the parts of messages."""
    if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
        return False
    messages = (mapping(mapping(node).get("message")) for node in value["mapping"].values())
    return "inserted_at" in value or any("fragments" in message for message in messages)


def read_conversation(value: Any) -> Iterator[Record]:
    """Yield a conversation along its newest branch. Raises UnreadableElement."""
    if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
        raise UnreadableElement("it is no conversation: it has no `mapping` of messages.")
    nodes = {key: node for key, node in value["mapping"].items() if isinstance(node, dict)}
    messages = {key: node["message"] for key, node in nodes.items() if isinstance(node.get("message"), dict)}
    session = ImportedSession(
        checked_id(value.get("id"), "id"), checked_title(value.get("title")), lenient_time(value.get("inserted_at"))
    )
    roles = {key: _role(message) for key, message in messages.items()}
    parents = node_parents(nodes)

    def read_node(node: tuple[str, Mapping[str, Any]]) -> ImportedMessage:
        key, message = node
        # Older exports name no role: questions and answers take turns.
        before = roles.get(str(parents[key]), "assistant")
        roles[key] = roles[key] or ("user" if before == "assistant" else "assistant")
        return _read_message(key, roles[key], message)

    yield from branch_records(
        session,
        messages,
        read_node,
        parents=parents,
        times={key: sort_time(message.get("inserted_at")) for key, message in messages.items()},
        left_out={NO_OBJECTS: len(value["mapping"]) - len(nodes)},
    )


def _role(message: Mapping[str, Any]) -> str:
    if fragments := objects(message.get("fragments")):
        return "user" if any(fragment.get("type") == "REQUEST" for fragment in fragments) else "assistant"
    role = message.get("role")
    return role.lower() if isinstance(role, str) else ""


def _read_message(key: str, role: str, message: Mapping[str, Any]) -> ImportedMessage:
    left_out = [FILES for _ in objects(message.get("files"))]
    texts: list[str] = []
    for fragment in objects(message.get("fragments")):
        if fragment.get("type") in ("REQUEST", "RESPONSE") and isinstance(fragment.get("content"), str):
            texts.append(fragment["content"])
        else:
            left_out.append(_LEFT_OUT.get(str(fragment.get("type")), TOOLS))
    if isinstance(message.get("content"), str):
        texts.append(message["content"])
    if message.get("reasoning_content"):
        left_out.append(THOUGHTS)
    text, time = "\n".join(texts), message.get("inserted_at")
    return new_message("user" if role == "user" else "assistant", text, id=key, created_at=time, left_out=left_out)
