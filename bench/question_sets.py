"""Read question sets into one shape: texts in groups, and questions with the texts that answer them.

Pure: knows nothing of the server. What a file gets wrong (evidence ids that name no text) is left out and
counted, never guessed. Six shapes are recognised:

- LoCoMo: a list of dialogues of two people; each is a collection whose groups are sessions.
- BEAM: a folder with `chat.json` and `probing_questions/probing_questions.json`, or folders of them below
  (`chats/100K/1` …); each chat of a person with an assistant is a collection.
- REALTALK: a folder of files, each a chat of two people over three weeks (`session_1` …, `qa`); each is a collection.
- FriendsQA: a file of scenes of a television series with their questions; each episode is a collection, its scenes
  are sessions. What is no talk is left out: notes of what is seen, and answers that are a speaker's name.
- Paragraphs with questions, such as JSQuAD: one collection whose groups are articles.
- Chat messages against memories, our own `chat_messages.json`: a data set of the memories alone, and one with
  distractors added. Most messages need one memory or two, some none; some are understood by the turns before.
  One author wrote them and judged what is right; no native speaker has proof-read the Japanese.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

Kind = Literal["conversations", "paragraphs", "chat messages"]

SESSION_TIME: Final = "%I:%M %p on %d %B, %Y"
SENT_TIME: Final = "%d.%m.%Y, %H:%M:%S"
ANCHOR_DAY: Final = "%B-%d-%Y"
UNDATED: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""For texts without a date; one for all of them, so that age ranks none before another."""

CHAT: Final = "chat.json"
PROBES: Final = "probing_questions/probing_questions.json"
ABSTENTION: Final = "abstention"
NOTE: Final = "#NOTE#"
UNANSWERED: Final = "5"
"""LoCoMo's category of questions that ask of one person what the other did; their evidence is where that was said."""

APART: Final = ("paraphrase only", "cross-language")
"""Notes of chat messages that words alone cannot match to their memories; these count as types of their own."""

_SESSION = re.compile(r"session_(\d+)")
_BETWEEN_IDS = re.compile(r"[\s;,.\[\]()'\"]+")
_TURN_ID = re.compile(r"[Dd]:?(\d+):(\d+)")
_PLAN_MARK = re.compile(r"\s*->->.*$", re.DOTALL)
_TORN = re.compile(r" (?=n't\b|'(?:s|re|ll|ve|d|m)\b|[.,!?;:]|(?<=gon |wan )na\b|(?<=got )ta\b)", re.IGNORECASE)
"""The spaces by which a tokeniser has torn "do n't" and "gon na"."""

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
    cues: str = ""
    """Of a memory."""


@dataclass(frozen=True)
class Group:
    """Texts that belong together, in order: a session, or an article."""

    name: str
    texts: tuple[Text, ...]


@dataclass(frozen=True)
class Question:
    """A question and the ids of the texts that answer it, none where it is unanswerable.

    `turns` came before it in its session; `split` is "dev" or "test" where the set has such halves.
    """

    text: str
    evidence: frozenset[str]
    category: str = ""
    turns: tuple[Text, ...] = ()
    split: str = ""


@dataclass(frozen=True)
class Collection:
    """An actor's texts, the questions that they answer, and those of the same set that they do not."""

    name: str
    groups: tuple[Group, ...]
    questions: tuple[Question, ...]
    unanswerable: tuple[Question, ...] = ()

    @property
    def texts(self) -> list[Text]:
        """Return all texts in order."""
        return [text for group in self.groups for text in group.texts]


@dataclass(frozen=True)
class Dataset:
    """Collections of one kind, and how many evidence ids and whole questions were left out."""

    name: str
    kind: Kind
    collections: tuple[Collection, ...]
    evidence_left_out: int = 0
    questions_left_out: int = 0

    @property
    def is_japanese(self) -> bool:
        """Say whether most of the texts have kana in them."""
        texts = [text.content for collection in self.collections for text in collection.texts]
        return sum(map(is_japanese, texts)) * 2 > len(texts)


def is_japanese(text: str) -> bool:
    """Return whether a text has hiragana or katakana in it."""
    return _KANA.search(text) is not None


def read_datasets(path: Path, *, limit: int | None = None) -> list[Dataset]:
    """Read a file or folder of any kind; at most `limit` questions per collection. Raises DataProblem."""
    try:
        datasets = _recognised(path)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, DataProblem):
            raise
        raise DataProblem(f"{path} is not as expected: {type(error).__name__}: {error}") from error
    for dataset in datasets:
        if not any(collection.questions for collection in dataset.collections):
            raise DataProblem(f"{path} has no question whose evidence names one of its texts.")
    return [replace(dataset, collections=_limited(dataset.collections, limit)) for dataset in datasets]


def _recognised(path: Path) -> list[Dataset]:
    if path.is_dir():
        chats = {file: _json(file) for file in sorted(path.glob("*.json"), key=_numbers) if file.name != CHAT}
        return [realtalk_dataset(chats, name=path.name) if chats else beam_dataset(path)]
    data = _json(path)
    if _is_locomo(data):
        return [locomo_dataset(data, name=path.stem)]
    if isinstance(data, dict) and "data" in data:
        return [friends_dataset(data["data"], name=path.stem)]
    if isinstance(data, dict) and {"paragraphs", "questions"} <= data.keys():
        return [paragraph_dataset(data, name=path.stem)]
    if isinstance(data, dict) and {"memories", "distractors", "cases"} <= data.keys():
        return list(message_datasets(data, name=path.stem))
    raise DataProblem(
        f"{path} is neither a LoCoMo file (a list of objects with `conversation` and `qa`), nor one of FriendsQA "
        "(`data`), of paragraphs (`paragraphs`, `questions`) or of chat messages (`memories`, `distractors`, `cases`)."
    )


def with_cues(dataset: Dataset, cues: Mapping[str, str]) -> Dataset:
    """Return the data set with these cues, by the ids of texts."""

    def cued(group: Group) -> Group:
        return replace(group, texts=tuple(replace(text, cues=cues.get(text.id, "")) for text in group.texts))

    collections = (replace(each, groups=tuple(map(cued, each.groups))) for each in dataset.collections)
    return replace(dataset, collections=tuple(collections))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataProblem(f"{path} cannot be read as JSON: {error}") from error


def _is_locomo(data: Any) -> bool:
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(each, dict) and {"conversation", "qa"} <= each.keys() for each in data)
    )


def _limited(collections: Iterable[Collection], limit: int | None) -> tuple[Collection, ...]:
    return tuple(
        replace(each, questions=each.questions[:limit], unanswerable=each.unanswerable[:limit]) for each in collections
    )


def locomo_dataset(data: Sequence[Mapping[str, Any]], *, name: str) -> Dataset:
    """Return LoCoMo conversations as collections named by their sample ids."""
    talks = [
        (str(sample.get("sample_id") or f"{name}-{place}"), tuple(_sessions(sample["conversation"])), sample["qa"])
        for place, sample in enumerate(data, start=1)
    ]
    return _talks(talks, name)


def realtalk_dataset(chats: Mapping[Path, Any], *, name: str) -> Dataset:
    """Return REALTALK's chats as collections named by their files; pictures without words are left out there."""
    talks = []
    for path, chat in chats.items():
        first = chat["name"]["speaker_1"]
        groups = tuple(
            Group(session, tuple(_sent(message, first) for message in chat[session] if message["clean_text"].strip()))
            for session in _session_names(chat)
        )
        talks.append((path.stem, groups, chat["qa"]))
    return _talks(talks, name)


def _sent(message: Mapping[str, Any], first_speaker: str) -> Text:
    role = "user" if message["speaker"] == first_speaker else "assistant"
    at = datetime.strptime(message["date_time"], SENT_TIME).replace(tzinfo=UTC)
    return Text(message["dia_id"], message["clean_text"].strip(), at, role, message["speaker"])


def friends_dataset(scenes: Sequence[Mapping[str, Any]], *, name: str) -> Dataset:
    """Return FriendsQA's episodes as collections; a question that several scenes are asked is about none of them."""
    talks: dict[str, tuple[list[Group], list[dict[str, Any]]]] = {}
    asked = Counter(text for scene in scenes for text in {qa["question"] for qa in _dialogue(scene)["qas"]})
    for scene in sorted(scenes, key=lambda each: _numbers(each["title"])):
        episode, number = re.findall(r"(.+)_c0*(\d+)", scene["title"])[0]
        groups, qa = talks.setdefault(episode, ([], []))
        spoken = (_spoken(each, int(number)) for each in _dialogue(scene)["utterances:"])
        texts = tuple(text for text in spoken if text.content and text.author != NOTE)
        groups.append(Group(scene["title"], texts))
        for question in _dialogue(scene)["qas"]:
            said = [each["utterance_id"] for each in question["answers"] if not each["is_speaker"]]
            evidence = [f"D{number}:{place}" for place in said] if asked[question["question"]] == 1 else []
            qa.append({"question": _whole(question["question"]), "evidence": evidence})
    return _talks([(episode, tuple(groups), qa) for episode, (groups, qa) in talks.items()], name)


def _dialogue(scene: Mapping[str, Any]) -> Any:
    return scene["paragraphs"][0]


def _spoken(utterance: Mapping[str, Any], scene: int) -> Text:
    at = UNDATED + timedelta(hours=scene, minutes=utterance["uid"])
    author = utterance["speakers"][0].replace("#ALL#", "")
    return Text(f"D{scene}:{utterance['uid']}", _whole(utterance["utterance"]), at, author=author)


def _whole(text: str) -> str:
    return _TORN.sub("", text).strip()


def _talks(talks: Iterable[tuple[str, tuple[Group, ...], Sequence[Any]]], name: str) -> Dataset:
    """Return named talks with their sessions and the objects of their questions as a data set."""
    collections, ids_left_out, questions_left_out = [], 0, 0
    for talk, groups, qa in talks:
        known = {text.id for group in groups for text in group.texts}
        questions = []
        for asked in qa:
            evidence, lost = usable_evidence(asked.get("evidence"), known)
            ids_left_out += lost
            if evidence:
                questions.append(Question(asked["question"], evidence, str(asked.get("category", ""))))
            else:
                questions_left_out += 1
        collections.append(Collection(talk, groups, tuple(questions)))
    return Dataset(name, "conversations", tuple(collections), ids_left_out, questions_left_out)


def _session_names(talk: Mapping[str, Any]) -> list[str]:
    return sorted(filter(_SESSION.fullmatch, talk), key=lambda name: int(name.removeprefix("session_")))


def _sessions(conversation: Mapping[str, Any]) -> Iterator[Group]:
    """Yield the sessions in the order of their numbers; a date without turns is no session."""
    for name in _session_names(conversation):
        start = session_time(conversation[f"{name}_date_time"])
        turns = (
            _turn(turn, start + timedelta(minutes=place), conversation["speaker_a"])
            for place, turn in enumerate(conversation[name])
        )
        yield Group(name, tuple(turns))


def _turn(turn: Mapping[str, Any], at: datetime, first_speaker: str) -> Text:
    role = "user" if turn["speaker"] == first_speaker else "assistant"
    return Text(turn_id(turn["dia_id"]) or turn["dia_id"], turn["text"], at, role, turn["speaker"])


def session_time(text: str) -> datetime:
    """Return the time of "1:56 pm on 8 May, 2023", taken for UTC; raises ValueError."""
    return datetime.strptime(text, SESSION_TIME).replace(tzinfo=UTC)


def turn_id(text: str) -> str | None:
    """Return a turn's id without colons too many and leading zeros ("D:11:06" is "D11:6"), else None."""
    found = _TURN_ID.fullmatch(text)
    return f"D{int(found[1])}:{int(found[2])}" if found else None


def usable_evidence(evidence: Any, known: set[str]) -> tuple[frozenset[str], int]:
    """Return the turns that evidence names, several in one string included, and how many pieces name none."""
    pieces = [piece for piece in _BETWEEN_IDS.split(" ".join(_leaves(evidence))) if piece]
    found = [turn_id(piece) for piece in pieces]
    usable = [name for name in found if name in known]
    return frozenset(filter(None, usable)), len(found) - len(usable)


def _leaves(value: Any) -> Iterator[str]:
    """Yield what nested lists and objects hold, as texts."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif value is not None:
        yield str(value)


def beam_dataset(path: Path) -> Dataset:
    """Return the chats in a folder, or in those below it in the order of their numbers, as collections."""
    folders = sorted((chat.parent for chat in path.rglob(CHAT) if (chat.parent / PROBES).is_file()), key=_numbers)
    if not folders:
        raise DataProblem(
            f"{path} holds no BEAM chat (a folder with {CHAT} and {PROBES}) and no file of REALTALK (*.json)."
        )
    collections, ids_left_out, questions_left_out = [], 0, 0
    for folder in folders:
        groups = tuple(_batches(_json(folder / CHAT)))
        known = {text.id for group in groups for text in group.texts}
        questions, unanswerable = [], []
        for category, probes in _json(folder / PROBES).items():
            for probe in probes:
                named = set(_leaves(probe.get("source_chat_ids")))
                question = Question(probe["question"], frozenset(named & known))
                ids_left_out += len(named - known)
                if category == ABSTENTION:
                    unanswerable.append(replace(question, evidence=frozenset()))
                elif question.evidence:
                    questions.append(question)
                else:
                    questions_left_out += 1
        collections.append(Collection(f"beam-{folder.name}", groups, tuple(questions), tuple(unanswerable)))
    name = "beam" if path == folders[0] else path.name
    return Dataset(name, "conversations", tuple(collections), ids_left_out, questions_left_out)


def _numbers(folder: Path | str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(folder))]


def _batches(chat: Sequence[Mapping[str, Any]]) -> Iterator[Group]:
    """Yield a chat's batches as sessions; a message is of the day that one before it, or its own, named last."""
    day = UNDATED
    for batch in chat:
        texts: list[Text] = []
        for message in (message for turn in batch["turns"] for message in turn):
            if message.get("time_anchor"):
                day = datetime.strptime(message["time_anchor"], ANCHOR_DAY).replace(tzinfo=UTC)
            content = _PLAN_MARK.sub("", message["content"]).strip()
            if content:
                at = day + timedelta(minutes=len(texts))
                texts.append(Text(str(message["id"]), content, at, message["role"]))
        yield Group(f"batch_{batch['batch_number']}", tuple(texts))


def paragraph_dataset(data: Mapping[str, Any], *, name: str) -> Dataset:
    """Return the paragraphs as one collection, a group per article."""
    articles: dict[str, list[Text]] = {}
    for paragraph in data["paragraphs"]:
        text = Text(str(paragraph["id"]), paragraph["text"], UNDATED)
        articles.setdefault(str(paragraph.get("title", "")), []).append(text)
    groups = tuple(Group(title, tuple(texts)) for title, texts in articles.items())
    known = {text.id for group in groups for text in group.texts}
    questions = tuple(
        Question(each["question"], frozenset({str(each["paragraph"])}))
        for each in data["questions"]
        if str(each["paragraph"]) in known
    )
    lost = len(data["questions"]) - len(questions)
    return Dataset(name, "paragraphs", (Collection(name, groups, questions),), lost, lost)


def message_datasets(data: Mapping[str, Any], *, name: str) -> Iterator[Dataset]:
    """Yield the chat messages asked of the memories alone, and of these with the distractors."""
    cases = [_case(case) for case in data["cases"]]
    questions = tuple(case for case in cases if case.evidence)
    unanswerable = tuple(case for case in cases if not case.evidence)
    for rows in (data["memories"], [*data["memories"], *data["distractors"]]):
        texts = tuple(Text(row["id"], row["text"], UNDATED) for row in rows)
        full_name = f"{name}-{len(texts)}"
        collection = Collection(full_name, (Group("memories", texts),), questions, unanswerable)
        yield Dataset(full_name, "chat messages", (collection,))


def _case(case: Mapping[str, Any]) -> Question:
    turns = tuple(
        Text(f"{case['id']}-{place}", turn["text"], UNDATED + timedelta(minutes=place), turn["role"])
        for place, turn in enumerate(case["turns"])
    )
    category = case["note"] if case["note"] in APART else case["type"]
    return Question(case["message"], frozenset(case["right"]), category, turns, case["split"])


def check_names(datasets: Sequence[Dataset]) -> None:
    """Raise DataProblem where two collections have one name: they would become one actor."""
    seen: dict[str, str] = {}
    for dataset in datasets:
        for collection in dataset.collections:
            if collection.name in seen:
                raise DataProblem(f"{collection.name!r} is in {seen[collection.name]} and again in {dataset.name}.")
            seen[collection.name] = dataset.name


def read_off_topic(path: Path) -> list[str]:
    """Return a file's questions, one per line, without blank lines and those that begin with #."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
