"""Measure how well searches find what answers a question (SPEC Q1), on several data sets and against baselines.

    python bench/retrieval.py DATA…                            # the embedder that the environment names
    python bench/retrieval.py DATA… --limit-questions 20 --contexts
    python bench/retrieval.py DATA… --json > figures.json

DATA: LoCoMo (two people), REALTALK (the same, and real; its folder `data`), FriendsQA (several), BEAM (an assistant),
paragraphs with questions, or chat messages against memories (`chat_messages.json`, the only set that is part of the
project, and the default); `question_sets.py` has the shapes. All are filled in before the first question is asked,
through the actions that the API uses, and asked through the real search.
Chat messages are also asked for a context, and what its layer of memories holds is counted. `--contexts` counts the
evidence that contexts of several sizes hold.

It is compared with BM25 and with the cosine of the same vectors. Intervals resample conversations, or
questions where a set is one collection. The environment names another embedder (docs/reference/providers.md).
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import harness
import numpy as np
import question_sets
import scoring
from question_sets import Collection, DataProblem, Dataset, Group, Question
from rich.console import Console

AGENT: Final = "bench"
CHANNEL: Final = "web"
BATCH: Final = 100
OURS: Final = "memoryhub"
CANDIDATES: Final = 50
"""As many as the policy looks at before the final score decides."""

TOKEN_LIMITS: Final = (4_000, 8_000, 16_000)
LAST_MESSAGES: Final = "last messages"
OWN_SET: Final = Path(__file__).with_name("chat_messages.json")
OFF_TOPIC: Final = Path(__file__).with_name("off_topic.txt")


@dataclass(frozen=True)
class Filled:
    """A collection as the server holds it: texts' ids by those of their rows, and vectors in the texts' order."""

    dataset: Dataset
    collection: Collection
    actor: Any
    names: Mapping[str, str]
    vectors: np.ndarray

    @property
    def tenant(self) -> Any:
        from memoryhub.auth.access import tenant_for_reading

        return tenant_for_reading(_principal(), AGENT, self.collection.name)

    def search(self, query: Any) -> dict[str, float]:
        """Return the relevances of the DEPTH best texts, best first, and leave no trace of having asked."""
        from conversations.actions.recall import search_messages
        from strength.actions.search import MemorySearch, search_memories

        if self.dataset.kind == "conversations":
            messages = search_messages(actor_id=self.actor.id, query=query, limit=scoring.DEPTH)
            return {self.names[str(each.message.id)]: each.relevance for each in messages}
        found = search_memories(
            tenant=self.tenant,
            search=MemorySearch(query=query, limit=scoring.DEPTH, candidate_limit=CANDIDATES),
            by=_principal(),
            mark=False,
            now=datetime.now(UTC),
        ).found
        return {self.names[str(each.memory.id)]: each.breakdown.relevance for each in found}

    def entered(self, question: Question, session: Any, **options: Any) -> tuple[tuple[str, ...], int]:
        """Return which texts a dry run's context for a new message of the session holds, and its tokens."""
        from conversations.actions.context import ContextRequest, assemble_context

        options = {"include_profile": False, **options}  # of memories that nobody asked for
        request = ContextRequest(message=question.text, session=session, options=options)
        assembly = assemble_context(
            tenant=self.tenant, request=request, by=_principal(), now=datetime.now(UTC), dry_run=True
        ).assembly
        held = dict.fromkeys(item.source_id for item in assembly.items if item.included and item.source_id)
        return tuple(self.names[name] for name in held if name in self.names), assembly.metadata.total_tokens


def fill(dataset: Dataset, collection: Collection) -> Filled:
    """Store a collection as an actor's messages or memories."""
    from conversations.models import MessageIndex
    from memoryhub.auth.access import actor_for_writing
    from strength.models import MemoryIndex

    actor = actor_for_writing(_principal(), AGENT, collection.name, now=datetime.now(UTC))
    actor.policy = {"secrets": "keep"}  # texts are compared with the data set's
    actor.save()
    if dataset.kind == "conversations":
        rows = {}
        for group in collection.groups:
            rows.update(_store_session(actor, collection, group)[1])
    else:
        rows = dict(_store_memories(actor, collection))
    _work()
    index = MessageIndex if dataset.kind == "conversations" else MemoryIndex
    vectors = _stored_vectors(index, actor, collection, rows)
    return Filled(dataset, collection, actor, {str(key): name for key, name in rows.items()}, vectors)


def _work() -> None:
    """Do what workers do: embed what has no vector, measure the space once, count what each actor often says."""
    from memoryhub.embeddings.spaces import active_space, calibrate_when_due, fill
    from memoryhub.search.maintenance import actors_to_count, count_terms

    space = active_space()
    fill(space, source=space, batch_size=BATCH, progress=lambda count: None)
    calibrate_when_due(space)
    for actor_id, texts in actors_to_count().items():
        count_terms(actor_id, texts)


def _store_session(actor: Any, collection: Collection, group: Group) -> tuple[Any, dict[UUID, str]]:
    """Store a group as a session; return it, and the texts' ids by those of their rows. What is there stays."""
    from conversations.actions.messages import add_messages
    from conversations.actions.sessions import open_session
    from conversations.domain.messages import NewMessage, Role

    key = uuid5(NAMESPACE_URL, f"{collection.name}/{group.name}")
    begun = group.texts[0].at if group.texts else datetime.now(UTC)
    session, _ = open_session(actor=actor, session_id=key, channel=CHANNEL, by=_principal(), now=begun)
    rows = {}
    for start in range(0, len(group.texts), BATCH):
        texts = group.texts[start : start + BATCH]
        batch = [
            NewMessage(
                role=Role(text.role),
                content=text.content,
                author=text.author,
                client_message_id=text.id,
                created_at=text.at,
            )
            for text in texts
        ]
        added = add_messages(session=session, batch=batch, by=_principal(), now=texts[-1].at)
        for text, row in zip(texts, added.messages, strict=True):
            if text.content != row.content:
                raise DataProblem(f"The text {text.id} is stored with other words elsewhere.")
            rows[row.id] = text.id
    return session, rows


def _store_memories(actor: Any, collection: Collection) -> Iterator[tuple[UUID, str]]:
    """Store the texts as memories, all of one age and strength, so that relevance alone ranks them."""
    from strength.actions.memories import NewMemory, write_memory
    from strength.domain.memories import Kind

    for text in collection.texts:
        new = NewMemory(content=text.content, kind=Kind.FACT, cues=text.cues)
        memory, _ = write_memory(actor=actor, new=new, by=_principal(), now=text.at)
        yield memory.id, text.id


def _principal() -> Any:
    from memoryhub.auth.principals import command

    return command("bench")


def _stored_vectors(index: type[Any], actor: Any, collection: Collection, rows: Mapping[UUID, str]) -> np.ndarray:
    """Return the vectors [text, dimension] as stored, so that no vendor is asked twice; zeros where there is none."""
    from memoryhub.embeddings.spaces import active_space

    owner, space = f"{index.owner_field}_id", active_space()
    stored = index.objects.filter(actor_id=actor.id, space=space).exclude(vector=None)
    vectors = {rows[key]: list(vector) for key, vector in stored.values_list(owner, "vector") if key in rows}
    return np.array([vectors.get(text.id, [0.0] * space.dimension) for text in collection.texts])


def query_of(filled: Filled, question: Question) -> Any:
    """Return the query that the server builds for a message and the turns before it."""
    from memoryhub.embeddings.spaces import text_query

    turns = [(turn.role, turn.content) for turn in reversed(question.turns)]
    return text_query(question.text, turns=turns or None, payer=filled.tenant.payer)


class Measured:
    """Rankings by method, and the relevances of the best texts of each question."""

    def __init__(self) -> None:
        self.asked: dict[str, list[scoring.Asked]] = defaultdict(list)
        self.best, self.unanswerable, self.off_topic = (list[float]() for _ in range(3))
        self.shown: list[tuple[float, bool]] = []
        """Relevance of each text that we found, and whether it was right."""


def ask_all(filled: Sequence[Filled], off_topic: Sequence[str]) -> Measured:
    """Ask every question of its collection, by every method, and the off-topic ones of all collections."""
    measured = Measured()
    for each in filled:
        scorers = baselines(each)
        for question in each.collection.questions:
            _ask(measured, each, scorers, question)
        strangers = [Question(text, frozenset()) for text in off_topic]
        measured.unanswerable += [_most(each, question) for question in each.collection.unanswerable]
        measured.off_topic += [_most(each, question) for question in strangers]
    return measured


def _most(filled: Filled, question: Question) -> float:
    return max(filled.search(query_of(filled, question)).values(), default=0.0)


def _ask(measured: Measured, filled: Filled, scorers: Mapping[str, scoring.Scorer], question: Question) -> None:
    query, names = query_of(filled, question), [text.id for text in filled.collection.texts]
    relevances = filled.search(query)
    measured.best.append(max(relevances.values(), default=0.0))
    measured.shown += [(value, name in question.evidence) for name, value in relevances.items()]
    # A plain search knows nothing of turns, but whoever asks it may put them before the message.
    text = " ".join([*(turn.content for turn in question.turns), question.text])
    scores = scoring.cosines(filled.vectors, query.vector) if query.vector else np.zeros(len(names))
    plain = {method: scoring.ranked(scorer(text), names) for method, scorer in scorers.items()}
    for method, best in {OURS: tuple(relevances), **plain, "cosine": scoring.ranked(scores, names)}.items():
        measured.asked[method].append(scoring.Asked(filled.collection.name, question.evidence, best))


def baselines(filled: Filled) -> dict[str, scoring.Scorer]:
    """Return the baselines by name that score a collection's texts by their words."""
    texts = filled.collection.texts
    contents = [text.content for text in texts]
    if filled.dataset.kind != "conversations":
        return scoring.paragraph_scorers(contents)
    sizes = [len(group.texts) for group in filled.collection.groups]
    return scoring.conversation_scorers(contents, [text.author for text in texts], sizes)


def ask_contexts(filled: Sequence[Filled]) -> list[dict[str, Any]]:
    """Return, by token limit, the evidence that contexts hold, and that equally many tokens of plain choices hold."""
    from conversations.domain.policy import DEFAULT_POLICY

    asked: dict[int, dict[str, list[scoring.Asked]]] = {limit: {} for limit in TOKEN_LIMITS}
    tokens: dict[int, list[int]] = {limit: [] for limit in TOKEN_LIMITS}
    for each in filled:
        session, _ = _store_session(each.actor, each.collection, Group("asking", ()))
        costs, choices = _costs(each), _choices(each)
        for question in each.collection.questions:
            empty = scoring.Asked(each.collection.name, question.evidence, ())
            orders = {name: choice(question.text) for name, choice in choices.items()}
            for limit in TOKEN_LIMITS:
                max_tokens = round(limit / DEFAULT_POLICY.token_safety_margin)
                found, used = each.entered(question, session, max_tokens=max_tokens)
                tokens[limit].append(used)
                held = {OURS: found, **{name: scoring.fitting(costs, order, limit) for name, order in orders.items()}}
                for method, names in held.items():
                    asked[limit].setdefault(method, []).append(replace(empty, found=names))
    return [
        {
            "limit": limit,
            "our tokens": fmean(tokens[limit]),
            "": method,
            "messages": fmean(len(each.found) for each in questions),
            "evidence": fmean(each.recall(None) for each in questions),
            "behind": None if method == OURS else scoring.paired_difference(asked[limit][OURS], questions, depth=None),
        }
        for limit in TOKEN_LIMITS
        for method, questions in asked[limit].items()
    ]


def _costs(filled: Filled) -> dict[str, int]:
    """Return the tokens of each text with its speaker, by the counter that contexts are counted with."""
    from memoryhub.llm.client import counter_in_use

    count = counter_in_use().count
    return {text.id: count(f"{text.author or text.role}: {text.content}") for text in filled.collection.texts}


def _choices(filled: Filled) -> dict[str, Callable[[str], Sequence[str]]]:
    """Return the plain choices by name: the order in which each takes messages for a question."""
    names = [text.id for text in filled.collection.texts]
    bm25 = baselines(filled)["BM25"]
    return {
        LAST_MESSAGES: lambda query: names[::-1],
        "BM25": lambda query: scoring.ranked(bm25(query), names, depth=None),
    }


def ask_messages(filled: Filled) -> list[dict[str, Any]]:
    """Return, by split and type, how many of a chat message's memories its context holds, and how many others.

    Every message is asked in a session of its own, which holds the turns before it.
    """
    cells: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    collection = filled.collection
    for place, question in enumerate((*collection.questions, *collection.unanswerable)):
        session, _ = _store_session(filled.actor, collection, Group(f"case-{place}", question.turns))
        found, _ = filled.entered(question, session)
        right = len(question.evidence.intersection(found))
        counts = (right, len(question.evidence), len(found) - right)
        types = [question.category]
        if question.evidence:
            types += ["all that need any"] + ["all but those apart"] * (question.category not in question_sets.APART)
        for name in types:
            cells.setdefault((question.split, name), []).append(counts)
    return [
        {
            "split": split,
            "type": name,
            "messages": len(counts),
            "right": sum(each[0] for each in counts) / max(1, sum(each[1] for each in counts)),
            "irrelevant": fmean(each[2] for each in counts),
        }
        for (split, name), counts in sorted(cells.items())
    ]


def report(dataset: Dataset, measured: Measured) -> dict[str, Any]:
    """Return a data set's figures; of each method, how far it is behind ours, with a 95 % interval."""
    asked = _without_worse_baselines(measured.asked)
    return {
        "name": dataset.name,
        "kind": dataset.kind,
        "collections": len(dataset.collections),
        "texts": sum(len(collection.texts) for collection in dataset.collections),
        "questions": sum(len(collection.questions) for collection in dataset.collections),
        "evidence_left_out": dataset.evidence_left_out,
        "questions_left_out": dataset.questions_left_out,
        "methods": {
            method: {
                "overall": scoring.figures(questions),
                "behind": None if method == OURS else scoring.paired_difference(asked[OURS], questions),
            }
            for method, questions in asked.items()
        },
        "most": {
            "unanswerable": max(measured.unanswerable, default=0.0),
            "off-topic": max(measured.off_topic, default=0.0),
        },
        "calibration": scoring.reliability(measured.shown),
        "auc": scoring.auc(measured.best, measured.unanswerable) if measured.unanswerable else None,
    }


def _without_worse_baselines(asked: Mapping[str, list[scoring.Asked]]) -> dict[str, list[scoring.Asked]]:
    """Keep, as BM25, the best of those that differ in their constants alone: the hardest to beat."""
    tried = {name: scoring.figures(each) for name, each in asked.items() if name.startswith("BM25 k1=")}
    best = max(tried, key=lambda name: (tried[name]["recall@1"], tried[name]["mrr"]), default="")
    kept = {name: each for name, each in asked.items() if name not in tried}
    return {**kept, "BM25": asked[best]} if best else kept


def embedder() -> dict[str, Any]:
    """Return what the vectors are made by, and how a cosine is read in their space."""
    from memoryhub.embeddings.spaces import active_space

    names = ("provider", "model", "dimension", "cosine_low", "cosine_high", "vector_weight")
    return {name: getattr(active_space(), name) for name in names}


def show(result: Mapping[str, Any], console: Console) -> None:
    console.print("Embedder:", harness.shown(result["embedder"]))
    for data in result["datasets"]:
        counts = {name: each for name, each in data.items() if isinstance(each, int)}
        console.print(f"\n[bold]{data['name']}[/bold]: {harness.shown(counts)}")
        rows = [
            {"": name, **each["overall"], f"ours − theirs, @{scoring.COMPARED_DEPTH} [95 %]": _interval(each["behind"])}
            for name, each in data["methods"].items()
        ]
        harness.table(console, rows)
        console.print("Most relevant text of a question that is", harness.shown(data["most"]))
        console.print("Chance that an answerable question scores above another:", harness.shown(data["auc"]))
        error = f"Calibration, error {data['calibration']['error']:.3f}"
        harness.table(console, data["calibration"]["bins"], error)
        harness.table(console, data.get("messages", ()), "Memories in contexts of chat messages")
        contexts = [{**each, "behind": _interval(each["behind"])} for each in data.get("contexts", ())]
        harness.table(console, contexts, "Evidence in contexts")


def _interval(difference: Sequence[float] | None) -> str:
    return "" if difference is None else "{:+.3f} [{:+.3f}, {:+.3f}]".format(*difference)


def measure(datasets: Sequence[Dataset], off_topic: Sequence[str], *, contexts: bool) -> dict[str, Any]:
    """Fill in all data sets, then ask all questions; return the figures."""
    from django.db import connection

    filled = []
    for dataset in datasets:
        harness.say(f"{dataset.name}: storing")
        filled.append([fill(dataset, collection) for collection in dataset.collections])
    # What a few minutes bring to a server: before the planner has counted new rows, a search takes 36 ms, not 2.
    connection.cursor().execute("ANALYZE")
    results = []
    for dataset, each in zip(datasets, filled, strict=True):
        harness.say(f"{dataset.name}: asking")
        strangers = [text for text in off_topic if question_sets.is_japanese(text) == dataset.is_japanese]
        result = report(dataset, ask_all(each, strangers))
        if dataset.kind == "chat messages":
            result["messages"] = ask_messages(each[0])
        if contexts and dataset.kind == "conversations":
            harness.say(f"{dataset.name}: asking for contexts")
            result["contexts"] = ask_contexts(each)
        results.append(result)
    return {"embedder": embedder(), "datasets": results}


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("data", nargs="*", type=Path, default=[OWN_SET], help="default: chat messages")
    parser.add_argument("--limit-questions", type=harness.positive, help="of each conversation or file")
    parser.add_argument("--contexts", action="store_true", help="ask for contexts of conversations as well")
    parser.add_argument("--cues", type=Path, help="a file of cues by the ids of memories (chat_cues.json)")
    given = parser.parse_args()
    try:
        datasets = [
            each for path in given.data for each in question_sets.read_datasets(path, limit=given.limit_questions)
        ]
        question_sets.check_names(datasets)
        if given.cues:
            cues = json.loads(given.cues.read_text(encoding="utf-8"))
            datasets = [question_sets.with_cues(each, cues) for each in datasets]
        off_topic = question_sets.read_off_topic(OFF_TOPIC)
        with harness.installation():
            result = measure(datasets, off_topic, contexts=given.contexts)
    except DataProblem as problem:
        raise SystemExit(str(problem)) from problem
    harness.tell(result, given, show)


if __name__ == "__main__":
    main()
