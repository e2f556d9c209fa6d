"""Everything of an actor, exported, imported into an empty installation, exported again: byte for byte the same."""

import json
import threading
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError
from django.db import connection, models
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.models import Message, MessageIndex, Session
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import command
from memoryhub.importexport.native import importer
from memoryhub.importexport.native.exporter import Selection, export_lines
from memoryhub.importexport.native.fields import EXCLUDED_TABLES, excluded_tables, exported_tables
from memoryhub.importexport.native.importer import DIFFERS, MISSING_REFERENCE, TargetNames, check, store
from memoryhub.search.models import TermStatistic
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policy import actor_id
from strength.actions.sleep import SleepRequest, sleep
from strength.domain.memories import content_digest
from strength.domain.sleep import Trigger
from strength.models import Memory, MemoryIndex, MemoryNumbers, MemoryRevision
from tests.factories.planting import API, Planted, made, plant, plant_first
from tests.integration.memoryhub.importexport.conftest import (
    empty_the_installation,
    everything,
    exported,
    objects,
    of_lines,
    run,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
Save = Callable[..., Path]


@pytest.fixture
def planted(client: APIClient) -> Planted:
    return plant_first()


def index_rows() -> dict[Any, Any]:
    rows = [*MemoryIndex.objects.all(), *MessageIndex.objects.all()]
    return {row.pk: (row.words.to_text(), row.vector, row.words_version) for row in rows}


def test_what_a_sleep_archived_comes_back_with_its_revisions(planted: Planted, saved: Save) -> None:
    MemoryNumbers.objects.filter(actor_id=planted.actor_id).update(strength=0.01)
    actor = Actor.objects.get(pk=planted.actor_id)
    slept = sleep(actor=actor, request=SleepRequest(Trigger.COMMAND, command("test"), timezone.now()))
    history = MemoryRevision.objects.filter(actor=actor, verb="sleep").order_by("pk").values()
    archived = list(history)
    assert len(archived) == slept.archived_count > 0
    before = exported("kana", "hiroki")
    assert " 0 refused." in run("import", saved(before)) and list(history) == archived
    with connection.cursor() as cursor:  # as at the beginning of a transaction
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    empty_the_installation()
    run("import", saved(before))
    assert exported("kana", "hiroki") == before and list(history) == archived


def test_everything_comes_back_byte_for_byte(planted: Planted, saved: Save) -> None:
    before = exported("kana", "hiroki")
    indexed = index_rows()
    own = {row.pk for row in Memory.objects.exclude(actor_id=planted.actor_id)}
    empty_the_installation()
    told = run("import", saved(before))
    assert exported("kana", "hiroki") == before
    assert "0 here already, 0 refused." in told
    assert index_rows() == {pk: row for pk, row in indexed.items() if pk[2] not in own}
    assert MemoryIndex.repair() == 0


def test_every_exported_table_has_rows_in_the_test(planted: Planted) -> None:
    counts = objects(exported("kana", "hiroki"))[0]["memoryhub"]["counts"]
    missing = {table.name for table in exported_tables()} - counts.keys()
    assert not missing, f"plant() makes no row of {missing}; their round trip would not be tested."


def test_everybody_comes_back(planted: Planted, client: APIClient, saved: Save) -> None:
    plant(client, agent_id="yuno", user_id="青い")
    Agent.objects.create(agent_id="nobody-yet", system_prompt="quiet")
    before = exported()
    empty_the_installation()
    run("import", saved(before))
    assert exported() == before
    assert {line["agent"]["agent_id"] for line in objects(before) if "agent" in line} == {"kana", "nobody-yet", "yuno"}
    assert exported("kana").count(b'{"actor":') == 2


def test_a_second_import_changes_nothing(planted: Planted, saved: Save) -> None:
    file = saved(exported())
    empty_the_installation()
    run("import", file)
    before = everything()
    told = run("import", file)
    assert everything() == before
    assert "Imported: 0 new" in told and "0 refused." in told


def test_what_was_imported_is_found_and_its_words_are_counted(
    planted: Planted, client: APIClient, saved: Save, django_capture_on_commit_callbacks: Any
) -> None:
    file = saved(exported())
    empty_the_installation()
    with django_capture_on_commit_callbacks(execute=True):
        run("import", file)
    found = made(
        client.post(f"{API}/memories/search", {**planted.names, "query": "green tea", "include_messages": True})
    )
    assert planted.ids["memory_id"] in {each["memory"]["id"] for each in found["results"] if "memory" in each}
    assert any("message" in each for each in found["results"])
    indexed = MemoryIndex.objects.filter(status="active").count() + MessageIndex.objects.count()
    assert TermStatistic.objects.get(term=TermStatistic.CORPUS).documents == indexed


def test_others_are_not_touched(planted: Planted, client: APIClient, saved: Save) -> None:
    other = plant(client, agent_id="yuno", user_id="aoi")
    file = saved(exported("kana", "hiroki"))
    Actor.objects.filter(id=planted.actor_id).delete()
    before = exported("yuno"), exported("kana", "")
    run("import", file)
    assert (exported("yuno"), exported("kana", "")) == before
    assert exported("kana", "hiroki") == file.read_bytes()
    assert other.user_mark not in file.read_text()


def test_a_dry_run_tells_the_same_and_changes_nothing(planted: Planted, saved: Save) -> None:
    file = saved(exported("kana", "hiroki"))
    Memory.objects.filter(pk=planted.ids["pending_id"]).delete()
    before = everything()
    would = run("import", file, "--dry-run")
    assert everything() == before
    did = run("import", file)
    assert would.replace("Would be:", "Imported:") == did
    assert "strength_memory: 1 new, " in did
    assert exported("kana", "hiroki") == file.read_bytes()


def test_what_differs_here_is_kept(planted: Planted, saved: Save) -> None:
    file = saved(exported("kana", "hiroki"))
    Memory.objects.filter(pk=planted.ids["memory_id"]).update(channel="slack")
    told = run("import", file)
    assert f"strength_memory: {DIFFERS}" in told
    assert Memory.objects.get(pk=planted.ids["memory_id"]).channel == "slack"


def test_the_import_is_in_the_audit_trail(planted: Planted, saved: Save) -> None:
    file = saved(exported("kana", "hiroki"))
    empty_the_installation()
    run("import", file)
    entry = AuditEntry.objects.get(verb="import", object_kind="actor")
    assert (entry.agent_id, entry.user_id, entry.details["made"]["strength_memory"]) == ("kana", "hiroki", 5)


# Doubles and strangers


def test_the_same_text_under_another_id_is_shown_and_left(planted: Planted, client: APIClient, saved: Save) -> None:
    file = saved(exported("kana", "hiroki"))
    Actor.objects.filter(id=planted.actor_id).delete()
    text = f"{planted.user_mark} loves green tea"
    made(client.post(f"{API}/memories", {**planted.names, "content": text, "kind": "preference"}))
    told = run("import", file)
    assert "strength_memory: conflicts with another row here (memory_text_once)." in told
    assert f"strength_memoryrevision: {MISSING_REFERENCE}" in told
    assert planted.user_mark not in told
    assert Memory.objects.filter(actor_id=planted.actor_id, content=text).count() == 1
    assert Memory.objects.filter(actor_id=planted.actor_id).count() == 5
    before = everything()
    run("import", file)
    assert everything() == before


def test_an_id_of_somebody_else_is_refused(planted: Planted, saved: Save) -> None:
    """A file that names another's row cannot reach it, be it as the row itself or by a reference."""
    stolen = Memory.objects.get(actor_id=actor_id("kana"))
    lines = objects(exported("kana", "hiroki"))
    for line in lines:
        if line.get("table") == "strength_memory" and line["row"]["id"] == planted.ids["pending_id"]:
            line["row"]["id"] = str(stolen.pk)
        if line.get("table") == "strength_memorysource":
            line["row"]["memory_id"] = str(stolen.pk)
            line["row"]["id"] = "01890000-0000-7000-8000-000000000001"
    before = exported("kana", "")
    told = run("import", saved(of_lines(lines)))
    assert "strength_memory: its id belongs to a row of somebody else here." in told
    assert f"strength_memorysource: {MISSING_REFERENCE}" in told
    assert exported("kana", "") == before


# Other names


def test_an_import_under_another_name_stands_beside_the_first(planted: Planted, client: APIClient, saved: Save) -> None:
    before = exported()
    file = saved(exported("kana", "hiroki"))
    told = run("import", file, "--user", "ひろき/2")
    assert "0 refused." in told
    assert exported("kana", "hiroki") == file.read_bytes()
    renamed = exported("kana", "ひろき/2")
    assert objects(renamed)[0]["memoryhub"]["counts"] == objects(file.read_bytes())[0]["memoryhub"]["counts"]
    mark = planted.user_mark.encode()
    assert renamed.count(mark) == file.read_bytes().count(mark)
    for old in (planted.actor_id, *(planted.ids[name] for name in ("memory_id", "session_id", "receipt_id", "run_id"))):
        assert old.encode() not in renamed, "a reference was left behind"
    assert b"/preferences/hiroki/" not in renamed and b"/preferences/%E3%81%B2" in renamed
    copied = objects(renamed)
    ids = {line["row"]["id"] for line in copied if line.get("table") == "strength_memory"}
    receipts = [line["row"] for line in copied if line.get("table") == "conversations_receipt"]
    assert ids & {source for receipt in receipts for source in receipt["source_ids"]}
    again = everything()
    run("import", file, "--user", "ひろき/2")
    assert everything() == again
    with connection.cursor() as cursor:  # what waits for the commit, before the rows go that it refers to
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    Actor.objects.filter(user_id="ひろき/2").delete()
    assert exported() == before


def test_an_agent_with_all_its_users_gets_another_name(planted: Planted, saved: Save) -> None:
    Agent.objects.filter(agent_id="kana").update(fixed_user_id="hiroki")
    file = saved(exported("kana"))
    run("import", file, "--agent", "kana-2")
    assert set(Actor.objects.filter(agent_id="kana-2").values_list("user_id", flat=True)) == {"", "hiroki"}
    assert Memory.objects.get(actor_id=actor_id("kana-2")).namespace == "/notes/kana-2/"
    assert Agent.objects.get(agent_id="kana-2").fixed_user_id == "hiroki"
    assert exported("kana") == file.read_bytes()


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("--user", "a"), "several actors"),
        (("--agent", "not a slug"), "letters, digits"),
        (("--user", "x" * 256), "at most 255"),
    ],
)
def test_names_that_do_not_suit_are_refused(planted: Planted, saved: Save, names: tuple[str, str], why: str) -> None:
    file = saved(exported("kana"))
    with pytest.raises(CommandError, match=why):
        run("import", file, *names)


def test_several_agents_are_not_made_one(planted: Planted, client: APIClient, saved: Save) -> None:
    plant(client, agent_id="yuno", user_id="aoi")
    with pytest.raises(CommandError, match="several agents"):
        run("import", saved(exported()), "--agent", "one")


# Broken files


def broken_files(whole: bytes) -> dict[str, tuple[bytes, str]]:
    """Return broken exports by what is wrong, each with what must be said of it."""
    lines = objects(whole)
    last = len(lines)
    row = next(place for place, line in enumerate(lines) if line.get("table") == "strength_memory")

    def changed(**values: Any) -> bytes:
        return of_lines(
            [*lines[:row], {"table": "strength_memory", "row": {**lines[row]["row"], **values}}, *lines[row + 1 :]]
        )

    def without(name: str) -> bytes:
        rest = {key: value for key, value in lines[row]["row"].items() if key != name}
        return of_lines([*lines[:row], {"table": "strength_memory", "row": rest}, *lines[row + 1 :]])

    def in_place(line: bytes) -> bytes:
        return of_lines([*lines[:row], line, *lines[row + 1 :]])

    at = rf"Line {row + 1}: "
    return {
        "cut in a line": (whole[: len(whole) // 2], r"Line \d+: ends in the middle"),
        "cut between lines": (b"".join(whole.splitlines(keepends=True)[:-3]), rf"Line {last - 2}: .*cut"),
        "no last newline": (whole[:-1], rf"Line {last + 1}: ends in the middle"),
        "a line lost": (b"".join(line for n, line in enumerate(whole.splitlines(keepends=True)) if n != row), r"not those"),
        "a letter changed": (whole.replace(b"green tea", b"green sea", 1), r"Line \d+: .*not those that were exported"),
        "goes on": (whole + b'{"agent":{}}\n', r"ended before"),
        "no header": (of_lines(lines[1:]), r"Line 1: .*header"),
        "two headers": (of_lines([lines[0], *lines]), r"Line 2: .*header"),
        "a newer version": (of_lines([{"memoryhub": {"version": 2, "counts": {}}}, *lines[1:]]), r"Line 1: version '2'"),
        "true for a version": (of_lines([{"memoryhub": {"version": True, "counts": {}}}]), r"Line 1: version"),
        "no JSON": (in_place(b"{nonsense\n"), at + "no JSON"),
        "no UTF-8": (in_place(b'{"table":"\xff"}\n'), at + "no UTF-8"),
        "too deep": (in_place(b"[" * 100_000 + b"\n"), at + "nested too deep"),
        "many digits": (in_place(b"1" * 10_000 + b"\n"), at + "A number has 10000 digits"),
        "1e999": (in_place(b'{"a":1e999}\n'), at + "A number is too large"),
        "NaN": (in_place(b'{"a":NaN}\n'), at + "NaN is not a JSON number"),
        "a key twice": (in_place(b'{"table":"a","row":{"b":1,"b":2}}\n'), at + "the line.row.b: the key is given more than once"),
        "NUL": (changed(content="a\x00b"), at + ".*NUL"),
        "lone surrogate": (in_place(b'{"table":"a","row":{"b":"\\ud800"}}\n'), at + ".*surrogate"),
        "no part": (in_place(b'{"rows":{}}\n'), at + "neither"),
        "a list": (in_place(b"[]\n"), at + "neither"),
        "no object": (in_place(b'{"agent":[]}\n'), at + "holds no object"),
        "unknown table": (in_place(b'{"table":"auth_user","row":{}}\n'), at + "the table 'auth_user' is not known"),
        "unknown column": (changed(colour="red"), at + "strength_memory has no column 'colour'"),
        "actor in the row": (changed(actor_id=str(actor_id("yuno"))), at + "strength_memory has no column 'actor_id'"),
        "missing column": (without("content"), at + "strength_memory.content is missing"),
        "null": (changed(content=None), at + "strength_memory.content is missing"),
        "wrong type": (changed(content=7), at + "strength_memory.content is of the wrong type"),
        "true for a number": (changed(version=True), at + "strength_memory.version is of the wrong type"),
        "unknown word": (changed(kind="rumour"), at + "strength_memory.kind is none of the words"),
        "too long": (changed(channel="x" * 101), at + "strength_memory.channel does not fit"),
        "too large": (changed(version=2**40), at + "strength_memory.version does not fit"),
        "no id": (changed(id="17"), at + "strength_memory.id cannot be read"),
        "no time": (changed(created_at="yesterday"), at + "strength_memory.created_at cannot be read"),
        "no zone": (changed(created_at="2026-01-01T00:00:00"), at + "strength_memory.created_at is a time without"),
        "no bytes": (changed(content_digest="***"), at + "strength_memory.content_digest cannot be read"),
        "no list": (changed(tags="a"), at + "strength_memory.tags is no list"),
        "another's actor": (
            of_lines([{"actor": {**line["actor"], "user_id": "aoi"}} if "actor" in line else line for line in lines]),
            r"Line 3: the actor's id",
        ),
        "no actor": (of_lines([line for line in lines if "actor" not in line]), r"Line 3: .*below no actor's line"),
        "no agent": (of_lines([line for line in lines if "agent" not in line]), r"below another agent's line"),
        "empty": (b"", "it was cut"),
    }  # fmt: skip


def test_a_broken_file_is_named_by_its_line_and_writes_nothing(planted: Planted, saved: Save) -> None:
    files = broken_files(exported("kana", "hiroki"))
    empty_the_installation()
    before = everything()
    for what, (content, why) in files.items():
        with pytest.raises(CommandError, match=why) as error:
            run("import", saved(content), "--format", "memoryhub")
        assert everything() == before, what
        assert planted.user_mark not in str(error.value), what


def test_all_that_is_wrong_is_told_at_once(planted: Planted, saved: Save) -> None:
    lines = objects(exported("kana", "hiroki"))
    for line in lines[3:]:
        line["row"]["colour"] = "red"
    with pytest.raises(CommandError) as error:
        run("import", saved(of_lines(lines)))
    assert str(error.value).count("has no column 'colour'") == 20
    assert "perhaps more" in str(error.value)


def test_older_exports_lack_what_was_added_since(planted: Planted, saved: Save) -> None:
    lines = objects(exported("kana", "hiroki"))
    for line in lines:
        if line.get("table") == "strength_memory":
            del line["row"]["locked"], line["row"]["confidence"]
    empty_the_installation()
    run("import", saved(of_lines(lines)))
    assert set(Memory.objects.values_list("locked", "confidence")) == {(False, None)}


# Breaks


def superseded_chain(actor: Actor, length: int) -> None:
    """Store memories of which each is superseded by the next, but for the last."""
    rows = [
        Memory(
            id=UUID(int=(0x0189 << 112) | (7 << 76) | (2 << 62) | number),
            actor=actor,
            content=f"fact {number}",
            content_digest=content_digest(f"fact {number}"),
            namespace="/facts/hiroki/",
            created_at=NOW,
            updated_at=NOW,
        )
        for number in range(length)
    ]
    for row, newer in pairwise(rows):
        row.superseded_by_id = newer.pk
    Memory.objects.bulk_create(rows)
    MemoryNumbers.objects.bulk_create(MemoryNumbers(memory=row, actor=actor, strength=1.0, mark=0.0) for row in rows)


@pytest.fixture
def chained(db: None) -> Actor:
    agent = Agent.objects.create(agent_id="kana")
    actor = Actor.objects.create(id=actor_id("kana", "hiroki"), agent=agent, user_id="hiroki")
    superseded_chain(actor, 1_300)
    return actor


@pytest.fixture
def chained_in_small_batches(db: None, monkeypatch: pytest.MonkeyPatch) -> Actor:
    """As many batches as of a long chain, of a tenth of the rows."""
    monkeypatch.setattr(importer, "BATCH_ROWS", importer.BATCH_ROWS // 10)
    agent = Agent.objects.create(agent_id="kana")
    actor = Actor.objects.create(id=actor_id("kana", "hiroki"), agent=agent, user_id="hiroki")
    superseded_chain(actor, 130)
    return actor


def test_rows_that_refer_to_later_ones_wait_for_them(chained_in_small_batches: Actor, saved: Save) -> None:
    before = exported()
    empty_the_installation()
    told = run("import", saved(before))
    assert exported() == before
    assert "strength_memory: 130 new, 0 here already, 0 refused" in told


@pytest.mark.slow
def test_rows_that_refer_to_each_other_in_a_circle_come_in(chained: Actor, saved: Save) -> None:
    first, last = Memory.objects.order_by("id").first(), Memory.objects.order_by("id").last()
    assert first is not None and last is not None
    Memory.objects.filter(pk=last.pk).update(superseded_by=first)
    before = exported()
    empty_the_installation()
    run("import", saved(before))
    assert exported() == before


@pytest.mark.slow
def test_one_that_cannot_come_in_keeps_out_what_refers_to_it(chained: Actor, saved: Save) -> None:
    lines = objects(exported())
    rows = [line["row"] for line in lines if line.get("table") == "strength_memory"]
    rows[700]["superseded_by_id"] = "01890000-0000-7000-8000-0000000fffff"
    empty_the_installation()
    told = run("import", saved(of_lines(lines)))
    assert "strength_memory: 599 new, 0 here already, 701 refused" in told
    assert f"1402 × {MISSING_REFERENCE}" in told, "the numbers of those that stay out stay out as well"


class Stopped(Exception):
    """Stands for whatever ends a process."""


def test_a_run_that_was_stopped_has_whole_batches_and_is_gone_on_with(
    chained_in_small_batches: Actor, saved: Save
) -> None:
    before = exported()
    empty_the_installation()
    file = saved(before)
    batches = []

    def stop(rows: int) -> None:
        batches.append(rows)
        if len(batches) == 4:
            raise Stopped

    with file.open("rb") as opened:
        checked = check(opened, TargetNames(), progress=lambda rows: None)
        opened.seek(0)
        with pytest.raises(Stopped):
            store(opened, checked, TargetNames(), by=command("import"), now=NOW, dry_run=False, progress=stop)
    assert 0 < Memory.objects.count() + MemoryNumbers.objects.count() < 260
    assert MemoryIndex.objects.count() == Memory.objects.count()
    run("import", file)
    assert exported() == before


# One moment, and little memory


@pytest.mark.django_db(transaction=True)
def test_an_export_is_of_one_moment() -> None:
    agent = Agent.objects.create(agent_id="kana")
    actor = Actor.objects.create(id=actor_id("kana", "hiroki"), agent=agent, user_id="hiroki")
    lines = export_lines(Selection("kana", "hiroki"))
    counted = json.loads(next(lines))["memoryhub"]["counts"]

    def write() -> None:
        Session.objects.create(actor=actor)
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    writer.join()
    assert Session.objects.count() == 0, "this connection reads its snapshot"
    rest = b"".join(lines)
    assert counted == {"memoryhub_actor": 1, "memoryhub_agent": 1}
    assert b"conversations_session" not in rest
    assert Session.objects.count() == 1


def peak_of(act: Callable[[], Any]) -> int:
    tracemalloc.start()
    act()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.long
@pytest.mark.slow
def test_neither_export_nor_import_holds_what_it_moves(db: None, tmp_path: Path) -> None:
    """24 MB of messages are written and read with less than 12 MB in hand."""
    agent = Agent.objects.create(agent_id="kana")
    actor = Actor.objects.create(id=actor_id("kana", "hiroki"), agent=agent, user_id="hiroki")
    session = Session.objects.create(actor=actor, message_count=6_000)
    for start in range(0, 6_000, 1_000):
        Message.objects.bulk_create(
            Message(
                actor=actor, session=session, seq=seq, role="tool", content="x" * 4_000, token_count=1, created_at=NOW
            )
            for seq in range(start + 1, start + 1_001)
        )
    file = tmp_path / "large.jsonl"
    assert peak_of(lambda: run("export", file)) < 12 * 2**20
    assert file.stat().st_size > 24_000_000
    empty_the_installation()
    assert peak_of(lambda: run("import", file)) < 40 * 2**20
    assert Message.objects.count() == 6_000


# Rules for tables


def test_every_table_of_an_actor_is_exported_or_named_with_a_reason() -> None:
    from memoryhub.auth.erasure import actor_models

    exports = {table.model for table in exported_tables()}
    absent = excluded_tables()
    assert exports.isdisjoint(absent)
    assert exports | absent.keys() == set(actor_models())
    assert all(absent.values())


def test_every_name_in_the_table_of_what_is_left_out_is_a_table() -> None:
    assert set(EXCLUDED_TABLES) <= {model._meta.label for model in excluded_tables()}


@pytest.mark.parametrize("table", exported_tables(), ids=lambda table: table.name)
def test_a_table_can_be_exported_and_comes_back(table: Any) -> None:
    """Each column has a rule; no column changes by being saved; the key is no number that another row may have."""
    assert set(table.codecs) == {field.attname for field in table.fields}
    for field in table.fields:
        assert not getattr(field, "auto_now", False) and not getattr(field, "auto_now_add", False), field
        assert not isinstance(field, models.AutoField), f"{field}: give it ids by memoryhub.ids.new_id"
        assert field.related_model is None or field.target_field.primary_key, field


def test_who_made_a_revision_comes_along(planted: Planted, saved: Save) -> None:
    before = list(MemoryRevision.objects.filter(actor_id=planted.actor_id).order_by("pk").values_list())
    file = saved(exported("kana", "hiroki"))
    empty_the_installation()
    run("import", file)
    assert list(MemoryRevision.objects.order_by("pk").values_list()) == before
