"""The exact scan in PostgreSQL: the same formula as `fusion.py`, and nothing missed."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np
import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from numpy.typing import NDArray

from conversations.models import Message, MessageIndex, Session
from memoryhub.ids import new_id
from memoryhub.search.bm25 import WORDS_VERSION, document_weights, query_words, term_id, word_score
from memoryhub.search.fusion import (
    DEFAULT_POLICY,
    SpaceBounds,
    Turn,
    calibrated,
    contextual_relevances,
    odds_by_count,
    odds_by_length,
    odds_by_typical_length,
    relevance,
    usefulness,
)
from memoryhub.search.index import UnusableVector, unit_vector, word_vector
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import Candidate, Conversation, SearchQuery, build_query, build_vector_query, candidates
from memoryhub.search.query_text import QueryText
from memoryhub.tenancy.models import Actor, Agent
from strength.models import Memory, MemoryIndex

pytestmark = pytest.mark.django_db

DIMENSION = 8
BOUNDS = SpaceBounds(cosine_low=-0.1, cosine_high=0.8, vector_weight=0.7)
VOCABULARY = [f"word{number}" for number in range(30)]
EVERYTHING = {"similarity_threshold": -1.0, "word_floor": 0.0, "limit": 100_000}
CONVERSATION = Conversation(session="session_id", sequence="seq", asks="asks", author="author")
AUTHORS = ("", "ann", "bob", "Ann")


@dataclass
class Shelf:
    """One actor's index rows, written without what stands behind a memory."""

    actor: Actor
    space: EmbeddingSpace

    def put(self, vectors: Sequence[object], words: Sequence[Counter[str]]) -> list[UUID]:
        """Store one memory for each vector and its words; return their ids in order."""
        memories = [
            Memory(actor=self.actor, content="-", content_digest=new_id().bytes, namespace="/") for _ in vectors
        ]
        Memory.objects.bulk_create(memories)
        MemoryIndex.objects.bulk_create(
            MemoryIndex(
                actor=self.actor,
                space=self.space,
                memory=memory,
                vector=vector,
                words=word_vector(terms),
                words_version=WORDS_VERSION,
            )
            for memory, vector, terms in zip(memories, vectors, words, strict=True)
        )
        return [memory.pk for memory in memories]

    def scan(self, query: SearchQuery, **floors: float) -> list[Candidate]:
        """Return the candidates among this actor's rows."""
        where = Q(actor_id__in=[self.actor.pk])
        return candidates(MemoryIndex, where, query, **{**EVERYTHING, **floors}).best  # type: ignore[arg-type]


@pytest.fixture
def make_space() -> Callable[..., EmbeddingSpace]:
    def make(dimension: int = DIMENSION, state: str = "active") -> EmbeddingSpace:
        return EmbeddingSpace.objects.create(
            provider="test",
            model="m",
            dimension=dimension,
            state=state,
            cosine_low=-0.1,
            cosine_high=0.8,
            vector_weight=0.7,
        )

    return make


@pytest.fixture
def make_actor() -> Callable[[str], Actor]:
    agent = Agent.objects.create(agent_id="scan")
    return lambda user_id: Actor.objects.create(id=new_id(), agent=agent, user_id=user_id)


@pytest.fixture
def shelf(make_space: Callable[..., EmbeddingSpace], make_actor: Callable[[str], Actor]) -> Shelf:
    return Shelf(make_actor("one"), make_space())


def random_vectors(random: np.random.Generator, count: int, dimension: int) -> NDArray[np.float64]:
    return random.normal(size=(count, dimension))


def random_words(random: np.random.Generator, count: int) -> list[Counter[str]]:
    return [Counter(random.choice(VOCABULARY, size=random.integers(0, 12)).tolist()) for _ in range(count)]


def query_for(shelf: Shelf, vector: Sequence[float] | None, *terms: str) -> SearchQuery:
    words = query_words(terms, {term_id(term): 2.0 for term in terms}, rarest_idf=4.0)
    unit = None if vector is None else tuple(unit_vector(vector, dimension=shelf.space.dimension))
    return SearchQuery(space_id=shelf.space.pk, bounds=BOUNDS, vector=unit, words=words)


def halved(vector: Sequence[float]) -> NDArray[np.float64]:
    """Return the vector as the column keeps it: at half precision."""
    return np.asarray(vector, dtype=np.float16).astype(np.float64)


def cosine(stored: Sequence[float] | None, asked: Sequence[float] | None) -> float | None:
    if stored is None or asked is None:
        return None
    one, other = halved(stored), halved(asked)
    length = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / length) if length else 0.0


def test_sql_and_python_agree_on_random_cases(shelf: Shelf) -> None:
    random = np.random.default_rng(5)
    vectors = [
        None if number % 7 == 0 else vector.tolist()
        for number, vector in enumerate(random_vectors(random, 500, DIMENSION))
    ]
    vectors[1] = [0.0] * DIMENSION
    words = random_words(random, 500)
    place = {owner: number for number, owner in enumerate(shelf.put(vectors, words))}
    compared = 0
    for place_of_query, asked in enumerate([None, *random_vectors(random, 5, DIMENSION).tolist()]):
        query = query_for(shelf, asked, *random.choice(VOCABULARY, size=6))
        policy = replace(query.policy, need_odds=0.2 if place_of_query % 2 else None, short_length=1.0)
        query = replace(query, policy=policy)
        for found in shelf.scan(query):
            number = place[found.owner_id]
            expected_cosine = cosine(vectors[number], query.vector)
            expected_words = word_score(document_weights(words[number]), query.words)  # type: ignore[arg-type]
            assert found.similarity_raw == pytest.approx(expected_cosine, abs=1e-6)
            assert found.word_raw == pytest.approx(expected_words, abs=1e-6)
            assert found.relevance == pytest.approx(
                usefulness(
                    relevance(found.similarity_raw, found.word_raw, BOUNDS),
                    odds_by_count(500, query.words.information, policy),  # type: ignore[union-attr]
                    policy,
                ),
                abs=1e-12,
            )
            compared += 1
    assert compared == 3_000


def test_a_long_text_scores_as_its_whole_or_its_best_passage(shelf: Shelf) -> None:
    random = np.random.default_rng(9)
    words, passages = random_words(random, 200), [random_words(random, int(random.integers(0, 4))) for _ in range(200)]
    place = {owner: number for number, owner in enumerate(shelf.put([None] * 200, words))}
    lengths = random.integers(0, 2_000, size=200).tolist()
    for owner, number in place.items():
        vectors = [word_vector(each) for each in passages[number]]
        MemoryIndex.objects.filter(memory_id=owner).update(passages=vectors or None, length=lengths[number])
    query = query_for(shelf, None, *random.choice(VOCABULARY, size=6))
    query = replace(query, policy=query.policy.of_message(None))

    found = shelf.scan(query)

    assert len(found) == 200
    odds = odds_by_count(200, query.words.information, query.policy)  # type: ignore[union-attr]
    odds *= odds_by_typical_length(lengths, query.policy)
    for each in found:
        number = place[each.owner_id]
        scores = [word_score(document_weights(one), query.words) for one in (words[number], *passages[number])]  # type: ignore[arg-type]
        assert each.word_raw == pytest.approx(max(scores), abs=1e-6)
        own = relevance(None, each.word_raw, BOUNDS)
        assert each.relevance == pytest.approx(
            usefulness(own, odds * odds_by_length(lengths[number], query.policy), query.policy), abs=1e-9
        )


@pytest.mark.parametrize("count", [10, 1_000, pytest.param(5_000, marks=pytest.mark.slow)])
def test_vector_scan_misses_nothing(shelf: Shelf, make_space: Callable[..., EmbeddingSpace], count: int) -> None:
    random = np.random.default_rng(count)
    shelf.space = make_space(dimension=64, state="filling")
    vectors = random_vectors(random, count, 64)
    vectors[count // 2] = vectors[0]
    place = {owner: number for number, owner in enumerate(shelf.put(vectors.tolist(), [Counter()] * count))}
    bounds = SpaceBounds(-1, 1, 1)
    for asked in random_vectors(random, 5, 64):
        query = replace(build_vector_query(asked.tolist(), space=shelf.space), bounds=bounds)
        truth = np.array([cosine(vector, query.vector) for vector in vectors.tolist()])
        found = shelf.scan(query, limit=10)
        assert [truth[place[each.owner_id]] for each in found] == pytest.approx(sorted(truth)[::-1][:10], abs=1e-6)


def test_scan_orders_ties_by_id(shelf: Shelf) -> None:
    ids = shelf.put([[1.0] * DIMENSION] * 20, [Counter(cat=1)] * 20)

    assert [found.owner_id for found in shelf.scan(query_for(shelf, None, "cat"), limit=15)] == sorted(ids)[:15]


def test_scan_keeps_what_either_arm_reaches(shelf: Shelf) -> None:
    axis = np.eye(DIMENSION).tolist()
    close, worded, both, neither = shelf.put(
        [axis[0], axis[1], axis[0], axis[1]], [Counter(dog=1), Counter(cat=1), Counter(cat=1), Counter(dog=1)]
    )
    floors = {"similarity_threshold": 0.3, "word_floor": 0.05}
    query = query_for(shelf, axis[0], "cat")

    found = [each.owner_id for each in shelf.scan(query, **floors)]

    assert found[0] == both
    assert set(found) == {close, worded, both}
    assert neither not in found
    where = Q(actor=shelf.actor)
    first = candidates(MemoryIndex, where, query, similarity_threshold=0.3, word_floor=0.05, limit=1)
    assert (len(first.best), first.count) == (1, 3), "counted before the best are taken"


def test_scan_without_a_vector_answers_from_words(shelf: Shelf) -> None:
    worded, _ = shelf.put([[1.0] * DIMENSION, None], [Counter(cat=1), Counter(dog=1)])

    query = build_query(QueryText.of("cat"), None, space=shelf.space)

    assert query.degraded
    (found,) = shelf.scan(query, similarity_threshold=0.3, word_floor=0.05)
    assert (found.owner_id, found.similarity_raw) == (worded, None)


def test_scan_finds_what_is_not_embedded_yet(shelf: Shelf) -> None:
    (waiting,) = shelf.put([None], [Counter(cat=1)])

    (found,) = shelf.scan(query_for(shelf, [1.0] * DIMENSION, "cat"), word_floor=0.05)

    assert (found.owner_id, found.similarity_raw) == (waiting, None)
    assert found.relevance > 0.5


def test_zero_vectors_are_similar_to_nothing(shelf: Shelf) -> None:
    shelf.put([[0.0] * DIMENSION, [1.0] * DIMENSION], [Counter()] * 2)

    assert {each.similarity_raw for each in shelf.scan(query_for(shelf, [0.0] * DIMENSION, "cat"))} == {0.0}


def test_query_of_stop_words_reaches_nothing_by_words(shelf: Shelf) -> None:
    shelf.put([None], [Counter(cat=1)])

    query = build_query(QueryText.of("is it the"), None, space=shelf.space)

    assert shelf.scan(query, word_floor=0.05) == []


def test_vectors_of_another_space_are_never_compared(shelf: Shelf, make_space: Callable[..., EmbeddingSpace]) -> None:
    elsewhere = Shelf(shelf.actor, make_space(dimension=3, state="filling"))
    (mine,), _ = shelf.put([[1.0] * DIMENSION], [Counter()]), elsewhere.put([[1.0] * 3], [Counter()])
    query = build_vector_query([1.0] * DIMENSION, space=shelf.space)

    assert [found.owner_id for found in shelf.scan(query)] == [mine]


def test_rows_of_another_actor_are_not_scanned(shelf: Shelf, make_actor: Callable[[str], Actor]) -> None:
    Shelf(make_actor("two"), shelf.space).put([[1.0] * DIMENSION], [Counter(cat=1)])

    assert shelf.scan(query_for(shelf, [1.0] * DIMENSION, "cat")) == []


def test_vector_of_the_wrong_dimension_is_refused(shelf: Shelf) -> None:
    with pytest.raises(UnusableVector, match="8 numbers, not 3"):
        build_vector_query([1.0, 2.0, 3.0], space=shelf.space)


def test_word_score_of_a_long_text_fits_the_column(shelf: Shelf) -> None:
    shelf.put([[1.0] * DIMENSION], [Counter({f"w{number}": 1 for number in range(5_000)})])

    (found,) = shelf.scan(query_for(shelf, None, "w1"))

    assert 0 < (found.word_raw or 0) < 0.1


@pytest.mark.parametrize("conversation", [None, CONVERSATION], ids=["memories", "messages"])
def test_scan_is_one_statement_that_computes_the_cosine_once(shelf: Shelf, conversation: Conversation | None) -> None:
    model = MessageIndex if conversation else MemoryIndex
    query = query_for(shelf, [1.0] * DIMENSION, "cat")
    where = Q(actor_id__in=[shelf.actor.pk])

    with CaptureQueriesContext(connection) as captured:
        candidates(model, where, query, similarity_threshold=0.3, word_floor=0.05, limit=10, conversation=conversation)

    (statement,) = captured.captured_queries
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (VERBOSE, COSTS OFF) " + statement["sql"])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert plan.count("<=>") == 1
    assert plan.count("<#>") == 2  # of the whole text, and of the passages, if there are any


@dataclass(frozen=True)
class Said:
    """A message as a search knows it."""

    words: Counter[str]
    asks: bool = False
    author: str = ""
    vector: Sequence[float] | None = None
    length: int = 0


def messages(shelf: Shelf, *sessions: Sequence[Said]) -> list[UUID]:
    """Store sessions, their rows in no order; return the messages' ids, session by session."""
    rows: list[MessageIndex] = []
    for turns in sessions:
        session = Session.objects.create(actor=shelf.actor)
        said = Message.objects.bulk_create(
            Message(
                actor=shelf.actor,
                session=session,
                seq=seq,
                role="user",
                content="-",
                token_count=1,
                created_at=timezone.now(),
            )
            for seq in range(1, len(turns) + 1)
        )
        rows += [
            MessageIndex(
                actor=shelf.actor, space=shelf.space, message=message, session_id=session.pk, seq=message.seq,
                vector=turn.vector, words=word_vector(turn.words), words_version=WORDS_VERSION, asks=turn.asks,
                author=turn.author, length=turn.length,
            )
            for message, turn in zip(said, turns, strict=True)
        ]  # fmt: skip
    shuffled = np.random.default_rng(len(rows)).permutation(len(rows))
    MessageIndex.objects.bulk_create(rows[place] for place in shuffled)
    return [row.message_id for row in rows]


def told(*words: Counter[str]) -> list[Said]:
    return [Said(terms) for terms in words]


def scan_messages(
    shelf: Shelf, query: SearchQuery, word_floor: float = 0.05, about: str | None = None
) -> dict[UUID, float]:
    where = Q(actor_id__in=[shelf.actor.pk])
    found = candidates(
        MessageIndex,
        where,
        query,
        similarity_threshold=0.3,
        word_floor=word_floor,
        limit=10_000,
        conversation=replace(CONVERSATION, named_author=about),
    )
    assert found.count == len(found.best)
    assert [each.relevance for each in found.best] == sorted((each.relevance for each in found.best), reverse=True)
    return {each.owner_id: each.relevance for each in found.best}


def uncalibrated(found: dict[UUID, float]) -> dict[UUID, float]:
    return {owner: value / (value + DEFAULT_POLICY.message_odds * (1 - value)) for owner, value in found.items()}


def test_messages_gain_from_their_neighbours_in_the_session(shelf: Shelf) -> None:
    cat, dog = Counter(cat=1), Counter(dog=1)
    ids = messages(shelf, told(dog, dog, dog, cat, dog), told(dog, dog))

    found = uncalibrated(scan_messages(shelf, query_for(shelf, None, "cat")))

    peak = found[ids[3]]
    assert found == pytest.approx({ids[1]: 0.35 * peak, ids[2]: 0.4 * peak, ids[3]: peak, ids[4]: 0.4 * peak})


def test_reply_to_a_question_gains_more_and_outranks_it(shelf: Shelf) -> None:
    question, reply, told_on = messages(shelf, [Said(Counter(cat=1), asks=True), *told(Counter(dog=1), Counter(dog=1))])

    found = uncalibrated(scan_messages(shelf, query_for(shelf, None, "cat")))

    own = found[question] / 0.65
    assert found == pytest.approx({reply: 0.9 * own, question: 0.65 * own, told_on: 0.35 * own})
    assert list(found) == [reply, question, told_on]


def test_what_follows_a_question_of_ones_own_is_no_reply(shelf: Shelf) -> None:
    cat, dog = Counter(cat=1), Counter(dog=1)
    ids = messages(
        shelf,
        [Said(cat, asks=True, author="ann"), Said(dog, author="ann")],
        [Said(cat, asks=True, author="ann"), Said(dog, author="bob")],
        [Said(cat, asks=True), Said(dog)],
    )

    found = uncalibrated(scan_messages(shelf, query_for(shelf, None, "cat")))

    own = found[ids[0]] / 0.65
    assert [found[each] / own for each in ids[1::2]] == pytest.approx([0.4, 0.9, 0.9])


def test_author_whom_a_query_names_comes_before_others(shelf: Shelf) -> None:
    sessions = [[Said(Counter(cat=1), author=author)] for author in ("ann", "bob", "")]
    ann, bob, nobody = messages(shelf, *sessions)
    query = query_for(shelf, None, "cat")

    everybody, about = map(uncalibrated, (scan_messages(shelf, query), scan_messages(shelf, query, about="ann")))

    assert len(set(everybody.values())) == 1
    own = everybody[ann]
    assert about == pytest.approx({ann: own, nobody: own, bob: 0.75 * own})


def test_messages_below_the_floor_lift_nobody(shelf: Shelf) -> None:
    messages(shelf, told(Counter(cat=1), Counter(dog=1)))

    assert scan_messages(shelf, query_for(shelf, None, "cat"), word_floor=1.1) == {}


def random_sessions(random: np.random.Generator, count: int, longest: int) -> list[list[Said]]:
    return [
        [
            Said(
                words=words,
                asks=bool(random.random() < 0.3),
                author=str(random.choice(AUTHORS)),
                vector=random.normal(size=DIMENSION).tolist() if random.random() < 0.7 else None,
                length=int(random.choice([5, 30, 60, 400])),
            )
            for words in random_words(random, int(random.integers(1, longest + 1)))
        ]
        for _ in range(count)
    ]


def authors_before(session: Sequence[Said]) -> list[str]:
    return ["", *(each.author for each in session[:-1])]


def expected_relevances(
    session: Sequence[Said], query: SearchQuery, *, word_floor: float, about: str | None
) -> list[float | None]:
    """Return `fusion.contextual_relevances`'s answers, None for what neither qualifies nor gains.

    What falls short by itself is silent for its neighbours, and as relevant as it is for itself.
    """
    cosines = [cosine(each.vector, query.vector) for each in session]
    scores = [word_score(document_weights(each.words), query.words) for each in session]  # type: ignore[arg-type]
    turns = [
        Turn(
            relevance(similarity, words, BOUNDS),
            each.asks,
            is_by_other=about is not None and each.author not in ("", about),
            continues=each.author != "" and each.author == before,
            length=each.length,
        )
        for similarity, words, each, before in zip(cosines, scores, session, authors_before(session), strict=True)
    ]
    qualifies = [
        (similarity is not None and similarity >= 0.3) or words >= word_floor
        for similarity, words in zip(cosines, scores, strict=True)
    ]
    heard = [turn if loud else replace(turn, relevance=0.0) for turn, loud in zip(turns, qualifies, strict=True)]
    found: list[float | None] = []
    for at, turn in enumerate(turns):
        own = contextual_relevances([*heard[:at], turn, *heard[at + 1 :]])[at]
        gains = contextual_relevances([*heard[:at], replace(turn, relevance=0.0), *heard[at + 1 :]])[at] > 0
        found.append(calibrated(own, DEFAULT_POLICY.message_odds) if qualifies[at] or gains else None)
    return found


@pytest.mark.parametrize("word_floor", [0.0, 0.4])
def test_sql_and_python_agree_on_conversations(shelf: Shelf, word_floor: float) -> None:
    random = np.random.default_rng(7)
    sessions = random_sessions(random, 60, 30)
    ids = messages(shelf, *sessions)
    compared = left_out = 0
    for about in (None, "ann", "bob", "somebody else"):
        query = query_for(shelf, random.normal(size=DIMENSION).tolist(), *VOCABULARY[:6])
        found = scan_messages(shelf, query, word_floor, about)
        expected = [
            each
            for session in sessions
            for each in expected_relevances(session, query, word_floor=word_floor, about=about)
        ]
        assert found.keys() == {owner for owner, each in zip(ids, expected, strict=True) if each is not None}
        for owner, each in zip(ids, expected, strict=True):
            if each is None:
                left_out += 1
                continue
            assert found[owner] == pytest.approx(each, abs=1e-6)
            compared += 1
    assert compared >= 2_000
    assert (left_out > 0) == (word_floor > 0)


def test_conversation_of_one_session_is_what_python_says(shelf: Shelf) -> None:
    """`contextual_relevances` as it stands, over the whole session, where every message is a candidate."""
    random = np.random.default_rng(8)
    (session,) = random_sessions(random, 1, 200)
    ids = messages(shelf, session)
    query = query_for(shelf, None, *VOCABULARY[:6])
    turns = [
        Turn(
            relevance(None, word_score(document_weights(each.words), query.words), BOUNDS),  # type: ignore[arg-type]
            each.asks,
            is_by_other=each.author not in ("", "bob"),
            continues=each.author != "" and each.author == before,
            length=each.length,
        )
        for each, before in zip(session, authors_before(session), strict=True)
    ]

    found = scan_messages(shelf, query, word_floor=0.0, about="bob")

    assert len(ids) > 20
    assert [found[each] for each in ids] == pytest.approx(
        [calibrated(each, DEFAULT_POLICY.message_odds) for each in contextual_relevances(turns)], abs=1e-6
    )
