"""Let a model decide which messages ask for something to be forgotten, where words alone do not (SPEC C9). Pure.

Only messages with a word of forgetting in them are asked about, a few in a hundred.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from conversations.domain.forget_requests import MAX_LENGTH, MAX_SENTENCE, asks_for_all
from memoryhub.llm.types import array_schema, object_schema

_CUE: Final = re.compile(
    r"\bfo?r?ge?t|\bunlearn|\bun-?remember|\bamnesia|\boff[ -]the[ -]record|\bconfidential"
    r"|\b(?:do not|don't|dont|never) (?:ever |please )?(?:remember|memori|sav|stor|keep|record|note|log)"
    r"|^(?=.*\b(?:i|i'm|i've|i'd|me|my|mine|myself|we|us|our|you|your|u|ur)\b)(?=.*\b(?:"
    r"memor(?:y|ies)|eras|delet|remov|wip(?:e|ing)|purg|scrub|expung|redact|discard|get(?:ting)? rid|nuke|strik"
    r"|scrap|drop|clear|gone|take back|lose|pretend|between us|between you and me|private|un-know|let go|blank|toss"
    r"|throw|vanish|clean slate"
    r"|(?:not|\w*n't|dont|didnt|never|no|stop|quit|without|nothing|avoid)\b.{0,60}\b(?:remember"
    r"|memori[sz]|ke(?:ep|pt)|stor|sav|record|retain|not(?:e|ing)|log|mention|bring|hold|h[ae]ld|hang|know|use|using|refer"
    r"|said|told|say|tell|file)))"
    r"|忘れ|わすれ|忘却|消し|消え|消せ|消去|削除|抹消|破棄|除い|外し|(?:な|無)かったこと|記憶|メモリ|覚え|おぼえ|記録|残さ|残し|保存|控え"
    r"|話題|口にしな|そっとして|まっさら|けして|内緒|内密|秘密|ここだけ|オフレコ|触れ(?:な|ず)|言わない|出さない|蒸し返|リセット|白紙|知らない(?:ふり|こと)|流して"
)
"""Words without which no message is taken for a request."""

FORGET: Final = "forget"
KINDS: Final = (FORGET, "reminder", "statement", "edit", "question", "other")
"""Kinds of messages in the prompt. To choose one keeps small models from finding a request in every message."""

REQUESTS_SCHEMA: Final = object_schema(
    {
        "messages": array_schema(
            object_schema(
                {
                    "message": {"type": "integer"},
                    "kind": {"type": "string", "enum": list(KINDS)},
                    "about": {"type": "string"},
                }
            )
        )
    }
)
_WORD_OF_ALL: Final = re.compile(r"\b(?:everything|anything|all|whole|nothing)\b|全部|ぜんぶ|すべて|全て|一切|何もかも")


def may_ask_to_forget(message: str) -> bool:
    """Return whether a model should decide if a message asks for something to be forgotten."""
    return len(message) <= MAX_LENGTH and _CUE.search(" ".join(message.lower().replace("’", "'").split())) is not None


def question_blocks(messages: Sequence[str]) -> dict[str, str]:
    """Return messages, numbered from 1, one line each, by their heading."""
    lines = (f"{number}. {' '.join(text.split())}" for number, text in enumerate(messages, 1))
    return {"messages": "\n".join(lines)}


def requests_found(answer: Mapping[str, Any], messages: Sequence[str]) -> dict[int, str]:
    """Return what is to be forgotten, by the index of the message, of a model's answer about messages.

    All that is known is forgotten only for a message with a word of all.
    """
    found = {}
    for each in answer["messages"]:
        index, about = each["message"] - 1, each["about"].strip()[:MAX_SENTENCE]
        if each["kind"] == FORGET and about and 0 <= index < len(messages):
            is_said = not asks_for_all(about) or _WORD_OF_ALL.search(messages[index].lower())
            found.update({index: about} if is_said else {})
    return dict(sorted(found.items()))
