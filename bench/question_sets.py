"""Read question sets into one shape: texts in groups, and questions with the texts that answer them.

Pure: knows nothing of the server. A LoCoMo conversation is a collection whose groups are sessions; a
file of paragraphs is one collection whose groups are articles. What a file gets wrong (evidence ids
that name no turn) is left out and counted, never guessed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

CATEGORIES: Final = {
    1: "1 multi-hop",
    2: "2 temporal",
    3: "3 open-domain",
    4: "4 single-hop",
    5: "5 adversarial",
}
SESSION_TIME: Final = "%I:%M %p on %d %B, %Y"
PARAGRAPHS_AT: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Paragraphs carry no date; one for all of them, so that age ranks none before another."""

_SESSION = re.compile(r"session_(\d+)")
_BETWEEN_IDS = re.compile(r"[\s;,\[\]()'\"]+")
_TURN_ID = re.compile(r"[Dd]:?(\d+):(\d+)")
_KANA = re.compile(r"[\u3041-\u30ff]")


class DataProblem(ValueError):
    """A file that cannot be measured with; the message names it and says why."""


@dataclass(frozen=True)
class Text:
    """One text that a search can find; `id` is unique in its collection."""

    id: str
    content: str
    at: datetime
    role: str = "user"
    author: str = ""


@dataclass(frozen=True)
class Group:
    """Texts that belong together, in order: a session, or an article."""

    name: str
    texts: tuple[Text, ...]


@dataclass(frozen=True)
class Question:
    """A question and the ids of the texts that answer it, at least one; the category may be empty."""

    text: str
    evidence: frozenset[str]
    category: str = ""


@dataclass(frozen=True)
class Collection:
    """What one actor remembers, and what it is asked."""

    name: str
    groups: tuple[Group, ...]
    questions: tuple[Question, ...]

    @property
    def texts(self) -> list[Text]:
        """Return all texts in order."""
        return [text for group in self.groups for text in group.texts]


@dataclass(frozen=True)
class Dataset:
    """A file's collections, and how many evidence ids and whole questions were left out of it."""

    path: Path
    is_conversations: bool
    collections: tuple[Collection, ...]
    evidence_left_out: int
    questions_left_out: int

    @property
    def is_japanese(self) -> bool:
        """Whether most of the texts have kana in them."""
        texts = [text.content for collection in self.collections for text in collection.texts]
        return sum(map(is_japanese, texts)) * 2 > len(texts)


def is_japanese(text: str) -> bool:
    """Return whether a text has hiragana or katakana in it."""
    return _KANA.search(text) is not None


def read_dataset(path: Path, *, captions: bool = False, limit: int | None = None) -> Dataset:
    """Read a file of either kind; at most `limit` questions per collection. Raises DataProblem."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataProblem(f"{path} cannot be read as JSON: {error}") from error
    dataset = _recognised(data, path=path, captions=captions, limit=limit)
    if not any(collection.questions for collection in dataset.collections):
        raise DataProblem(f"{path} has no question whose evidence names one of its texts.")
    return dataset


def _recognised(data: Any, *, path: Path, captions: bool, limit: int | None) -> Dataset:
    try:
        if _is_locomo(data):
            return locomo_dataset(data, path=path, captions=captions, limit=limit)
        if _is_paragraphs(data):
            return paragraph_dataset(data, path=path, limit=limit)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataProblem(f"{path} is not as expected: {type(error).__name__}: {error}") from error
    raise DataProblem(
        f"{path} is neither a LoCoMo file (a list of objects with `conversation` and `qa`) "
        "nor one of paragraphs (an object with `paragraphs` and `questions`)."
    )


def _is_locomo(data: Any) -> bool:
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(each, dict) and {"conversation", "qa"} <= each.keys() for each in data)
    )


def _is_paragraphs(data: Any) -> bool:
    return isinstance(data, dict) and {"paragraphs", "questions"} <= data.keys()


def locomo_dataset(
    data: Sequence[Mapping[str, Any]], *, path: Path, captions: bool, limit: int | None
) -> Dataset:
    """Return LoCoMo conversations as collections named by their sample ids."""
    collections, ids_left_out, questions_left_out = [], 0, 0
    for place, sample in enumerate(data, start=1):
        groups = tuple(_sessions(sample["conversation"], captions=captions))
        known = {text.id for group in groups for text in group.texts}
        questions = []
        for asked in sample["qa"][:limit]:
            evidence, lost = usable_evidence(asked.get("evidence"), known)
            ids_left_out += lost
            if evidence:
                questions.append(Question(asked["question"], evidence, _category(asked.get("category"))))
            else:
                questions_left_out += 1
        name = str(sample.get("sample_id") or f"{path.stem}-{place}")
        collections.append(Collection(name, groups, tuple(questions)))
    return Dataset(path, True, tuple(collections), ids_left_out, questions_left_out)


def _category(number: Any) -> str:
    return CATEGORIES.get(number, "" if number is None else str(number))


def _sessions(conversation: Mapping[str, Any], *, captions: bool) -> Iterator[Group]:
    """Yield the sessions in the order of their numbers; a date without turns is no session."""
    numbers = sorted(int(found[1]) for name in conversation if (found := _SESSION.fullmatch(name)))
    for number in numbers:
        name = f"session_{number}"
        start = session_time(conversation[f"{name}_date_time"])
        turns = (
            _turn(turn, start + timedelta(minutes=place), conversation["speaker_a"], captions)
            for place, turn in enumerate(conversation[name])
        )
        yield Group(name, tuple(turns))


def _turn(turn: Mapping[str, Any], at: datetime, first_speaker: str, captions: bool) -> Text:
    content = turn["text"]
    if captions and turn.get("blip_caption"):
        content = f"{content} [shares a photo: {turn['blip_caption']}]"
    role = "user" if turn["speaker"] == first_speaker else "assistant"
    return Text(turn_id(turn["dia_id"]) or turn["dia_id"], content, at, role, turn["speaker"])


def session_time(text: str) -> datetime:
    """Return the time of "1:56 pm on 8 May, 2023", taken for UTC; raises ValueError."""
    return datetime.strptime(text, SESSION_TIME).replace(tzinfo=UTC)


def turn_id(text: str) -> str | None:
    """Return a turn's id without colons too many and leading zeros ("D:11:06" is "D11:6"), else None."""
    found = _TURN_ID.fullmatch(text)
    return f"D{int(found[1])}:{int(found[2])}" if found else None


def usable_evidence(evidence: Any, known: set[str]) -> tuple[frozenset[str], int]:
    """Return the turns that evidence names, several in one string included, and how many pieces name none."""
    pieces = [piece for piece in _BETWEEN_IDS.split(_flat(evidence)) if piece]
    found = [turn_id(piece) for piece in pieces]
    usable = [name for name in found if name in known]
    return frozenset(filter(None, usable)), len(found) - len(usable)


def _flat(evidence: Any) -> str:
    if isinstance(evidence, list):
        return " ".join(map(_flat, evidence))
    return "" if evidence is None else str(evidence)


def paragraph_dataset(data: Mapping[str, Any], *, path: Path, limit: int | None) -> Dataset:
    """Return the paragraphs as one collection named by the file, a group per article."""
    articles: dict[str, list[Text]] = {}
    for paragraph in data["paragraphs"]:
        text = Text(str(paragraph["id"]), paragraph["text"], PARAGRAPHS_AT)
        articles.setdefault(str(paragraph.get("title", "")), []).append(text)
    groups = tuple(Group(title, tuple(texts)) for title, texts in articles.items())
    known = {text.id for group in groups for text in group.texts}
    asked = data["questions"][:limit]
    questions = tuple(
        Question(each["question"], frozenset({str(each["paragraph"])}))
        for each in asked
        if str(each["paragraph"]) in known
    )
    lost = len(asked) - len(questions)
    return Dataset(path, False, (Collection(path.stem, groups, questions),), lost, lost)


def check_names(datasets: Sequence[Dataset]) -> None:
    """Raise DataProblem where two collections have one name: they would become one actor."""
    seen: dict[str, Path] = {}
    for dataset in datasets:
        for collection in dataset.collections:
            if collection.name in seen:
                raise DataProblem(
                    f"{collection.name!r} is in {seen[collection.name]} and again in {dataset.path}."
                )
            seen[collection.name] = dataset.path


def read_off_topic(path: Path) -> list[str]:
    """Return a file's questions, one per line; blank lines and those that begin with # are not. Raises DataProblem."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataProblem(f"{path} cannot be read as text: {error}") from error
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
