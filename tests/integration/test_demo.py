"""The demo: what is there after it was loaded, and what is found in it."""

from collections import Counter
from datetime import timedelta

import pytest

from conversations.actions.context import ContextRequest, assemble_context
from conversations.models import Message, Receipt, Session
from memoryhub.auth.access import tenant_for_reading
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import command
from memoryhub.embeddings.spaces import text_query
from memoryhub.importexport.demo import DEMO, load_demo
from memoryhub.importexport.native.exporter import Selection, export
from memoryhub.importexport.native.importer import TargetNames, check, store
from memoryhub.tenancy.models import Actor, Agent
from strength.actions.search import FoundMemory, MemorySearch, search_memories
from strength.models import Memory, MemoryNumbers, MemoryRevision, MemorySource, PerspectiveStrength
from summaries.domain.routing import reason_parts
from summaries.models import RoutingDecision
from tests.conftest import NOW

BY = command("demo")

pytestmark = pytest.mark.django_db(transaction=True)


def _counts(field: str) -> dict[str, int]:
    return dict(Counter(Memory.objects.values_list(field, flat=True)))


def _best(agent_id: str, user_id: str, query: str, most: int = 1) -> list[FoundMemory]:
    tenant = tenant_for_reading(BY, agent_id, user_id)
    search = MemorySearch(query=text_query(query))
    return search_memories(tenant=tenant, search=search, by=BY, mark=False, now=NOW).found[:most]


def test_loading_twice_loads_once() -> None:
    load_demo(by=BY, now=NOW)
    tables = (Session, Message, Memory, MemoryRevision, Receipt, AuditEntry)
    before = [table.objects.count() for table in tables]
    load_demo(by=BY, now=NOW)
    assert [table.objects.count() for table in tables] == before


def test_demo_file_round_trips_byte_equal() -> None:
    with DEMO.open("rb") as file:
        checked = check(file, TargetNames(), progress=print)
        file.seek(0)
        report = store(file, checked, TargetNames(), by=BY, now=NOW, dry_run=False, progress=print)
    assert not report.refused
    assert b"".join(export(Selection())) == DEMO.read_bytes()


def test_an_agent_of_that_name_keeps_the_demo_away() -> None:
    Agent.objects.create(agent_id="yuno")
    load_demo(by=BY, now=NOW)
    assert not Agent.objects.filter(agent_id="release-assistant").exists()
    assert not Memory.objects.exists()


def test_demo_is_loaded_as_a_whole() -> None:
    load_demo(by=BY, now=NOW)
    _check_conversations()
    _check_memories()
    _check_numbers()
    _check_curation()
    _check_searches()
    _check_receipts()


def _check_conversations() -> None:
    assert dict(Counter(Session.objects.values_list("channel", flat=True))) == {
        "api": 4,
        "web": 4,
        "slack": 3,
        "slack-thread": 2,
        "github": 1,
    }
    assert Session.objects.filter(ended_at=None).count() == 2
    assert Message.objects.count() == 148
    by_language = Counter(Message.objects.values_list("actor__agent__language", flat=True))
    assert by_language == {"en": 87, "ja": 61}
    assert Message.objects.filter(role="tool").count() == 1
    actors = Actor.objects.order_by("agent_id", "user_id").values_list("agent_id", "user_id")
    assert list(actors) == [
        ("release-assistant", ""),
        ("release-assistant", "ken"),
        ("release-assistant", "maya"),
        ("yuno", "haruka"),
    ]
    earliest = Session.objects.order_by("started_at")[0]
    assert timedelta(days=41) < NOW - earliest.started_at < timedelta(days=42)
    assert all(message.created_at <= NOW for message in Message.objects.all())


def _check_memories() -> None:
    assert _counts("kind") == {
        "fact": 20,
        "preference": 12,
        "summary": 5,
        "episode": 3,
        "reflection": 4,
        "learning": 5,
        "decision": 9,
        "note": 14,
    }
    assert _counts("status") == {"active": 61, "archived": 5, "pending": 4, "rejected": 2}
    assert _counts("scope_level") == {"project": 67, "domain": 5}, "a new agent would find what is universal"
    assert _counts("actor__agent__language") == {"en": 41, "ja": 31}
    assert _counts("source").keys() == {"education", "task", "manual", "extraction", "import"}
    assert set(Memory.objects.filter(status="pending").values_list("trust", flat=True)) == {"trusted", "untrusted"}
    assert Memory.objects.filter(pinned=True).count() == 2
    assert MemorySource.objects.filter(trust="untrusted", channel="github").count() == 4
    sources = set(MemorySource.objects.values_list("message_id", flat=True))
    assert sources <= set(Message.objects.values_list("id", flat=True))
    assert Memory.objects.exclude(valid_to=None).get().content == "はるかさんは大阪に住んでいる。"


def _check_numbers() -> None:
    strengths = sorted(MemoryNumbers.objects.with_strength().values_list("strength_now", flat=True))
    assert strengths[0] < 0.2
    assert strengths[-1] > 3
    assert set(MemoryNumbers.objects.values_list("consolidation_level", flat=True)) == {0, 1, 2, 3}
    assert MemoryNumbers.objects.filter(candidate_count__gt=0).exists()
    assert set(PerspectiveStrength.objects.values_list("perspective", flat=True)) >= {"planner", "料理"}
    assert Memory.objects.exclude(learnings={}).count() >= 8


def _check_curation() -> None:
    decisions = MemoryRevision.objects.exclude(verb="create")
    assert Counter(decisions.values_list("verb", flat=True)) == {
        "reject": 2,
        "archive": 5,
        "sleep": 1,
        "edit": 4,
        "reactivate": 1,
        "approve": 1,
        "pin": 3,
        "unpin": 1,
        "restore": 1,
    }
    assert not decisions.filter(reason="").exists()
    assert Memory.objects.get(content__contains="雨の日はバス").version == 3
    reactivated_and_used_once = 0.5 + 0.1
    gallery = MemoryNumbers.objects.get(memory__content="The theme gallery moves to 1.1.")
    assert gallery.strength == pytest.approx(reactivated_and_used_once)


def _check_searches() -> None:
    episode, fact = _best("release-assistant", "maya", "Which licence do we use?", most=2)
    assert "licence debate" in episode.memory.content
    assert fact.memory.content.startswith("Tidepool is licensed under Apache-2.0")
    disks = _best("release-assistant", "ken", "How much free disk does the migration need?", most=2)
    disk = max(disks, key=lambda found: found.breakdown.relevance)  # the other is stronger, and not about free space
    assert disk.memory.content.startswith("The migration to 1.0 needs about 3 GB")
    (sweet,) = _best("yuno", "haruka", "好きな甘いものは何？")
    assert "抹茶アイス" in sweet.memory.content
    (home,) = _best("yuno", "haruka", "どこに住んでいる？")
    assert "出町柳" in home.memory.content


def _check_receipts() -> None:
    assert Receipt.objects.count() == 8
    squeezed = Receipt.objects.get(query__contains="restore from backup")
    assert squeezed.metadata["compression_applied"]
    context = assemble_context(
        tenant=tenant_for_reading(BY, "yuno", "haruka"),
        request=ContextRequest(message="甘いものは何が好き？", options={}),
        by=BY,
        now=NOW,
    )
    block = str(context.assembly.messages)
    assert "宇治の濃い抹茶アイス" in block
    assert "そばアレルギー" in block  # pinned
    assert "大阪に住んでいる" not in block  # no longer valid
    assert "転職" not in block  # waits for a curator
    assert context.assembly.system is not None
    assert "ゆの" in str(context.assembly.system)


def test_reasons_of_the_word_router_are_those_of_this_version_and_so_translated() -> None:
    load_demo(by=BY, now=NOW)
    reasons = RoutingDecision.objects.values_list("reason", flat=True)
    own = [reason for reason in reasons if reason.startswith(("Its words", "Some of its words"))]
    assert own and all(map(reason_parts, own))
