"""Read what a model wrote as the JSON document, or the text, that was asked for.

Small models think aloud, wrap JSON in Markdown fences and prose, and change the case of keys; the values must be right.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator

from memoryhub.llm.errors import BadAnswer
from memoryhub.validators import UnusableJSON, parse_json

_THOUGHT: Final = "think|thinking|thought|reasoning|reflection|scratchpad"
_THOUGHTS: Final = re.compile(rf"<({_THOUGHT})>|</({_THOUGHT})>", re.IGNORECASE)
_FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)\w{0,20}[ \t]*$", re.MULTILINE)


def without_thoughts(text: str) -> str:
    """Return a text without the thoughts that it begins with, or without what is before the mark that ends them.

    Thoughts that do not end hold no answer. Marks later in a text are part of it.
    """
    start = text.lstrip()
    first = _THOUGHTS.match(start)
    last = max((match.end() for match in _THOUGHTS.finditer(start) if match[2]), default=0)
    if first is not None and first[1]:
        return start[last:].lstrip() if last else ""
    opened = next((match for match in _THOUGHTS.finditer(start)), None)
    return start[last:].lstrip() if opened is not None and opened[2] else text


def parse_document(text: str, schema: Mapping[str, Any]) -> Any:
    """Return the JSON document in an answer. Raises BadAnswer where it is none, or does not fit the schema."""
    is_json = False
    for candidate in filter(None, _candidates(without_thoughts(text).strip())):
        try:
            document = conformed(parse_json(candidate.encode()), schema)
        except UnusableJSON:  # its message quotes the answer's keys
            continue
        is_json = True
        if Draft202012Validator(schema).is_valid(document):
            return document
    if is_json:
        raise BadAnswer("The provider's answer does not have the form asked for.", code="wrong_schema")
    raise BadAnswer("The provider's answer is no usable JSON.", code="not_json")


def _candidates(text: str) -> Iterator[str]:
    """Yield what may be the document: all, the text in the last fence, that from the first bracket to the last."""
    yield text
    fences = list(_FENCE.finditer(text))
    if len(fences) > 1:
        yield text[fences[-2].end() : fences[-1].start()].strip()
    elif fences:
        yield text[fences[0].end() :].strip()
    starts = [place for bracket in "{[" if (place := text.find(bracket)) >= 0]
    end = max(text.rfind("}"), text.rfind("]"))
    if starts and end > min(starts):
        yield text[min(starts) : end + 1]


def conformed(document: Any, schema: Mapping[str, Any]) -> Any:
    """Return a document with the schema's keys in place of the same ones in other case, and without unknown ones.

    A key that is missing or null gets its `default`, which no vendor is shown; a list of words in place of a text is
    joined.
    """
    if schema.get("type") == "string" and isinstance(document, list):
        return " ".join(map(str, document))
    if isinstance(document, list):
        return [conformed(each, schema.get("items", {})) for each in document]
    if not isinstance(document, dict) or "properties" not in schema:
        return document
    names = {_plain(name): name for name in schema["properties"]}
    given = {names.get(_plain(key), key): value for key, value in document.items()}
    shapes = {name: shape for name, shape in schema["properties"].items() if name in given or "default" in shape}
    given = {name: value for name, value in given.items() if value is not None or "default" not in shapes.get(name, {})}
    known = {name: conformed(given.get(name, shape.get("default")), shape) for name, shape in shapes.items()}
    keeps_others = schema.get("additionalProperties") is not False
    return known | ({name: value for name, value in given.items() if name not in known} if keeps_others else {})


def _plain(key: str) -> str:
    return key.casefold().replace("-", "_").replace(" ", "_")
