"""What goes wrong between the hub and its model: what is stored of it, how long it takes, and how it ends."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from rich.console import Console

from bench.drills import Outcome
from bench.harness import percentiles
from bench.hub import CHECKOUT, Hub, eventually
from bench.talking_hub import (
    SHORT_WAITS,
    SUMMARIZE_SECONDS,
    Client,
    at_once,
    deadlines,
    drain,
    longest_attempts,
    make_due,
    must,
    open_session,
    say,
    talking,
)
from bench.talking_model import by_rules
from tests.fakes.llm_server import Asked, LLMServer, Reply

SHAPES: Final = (
    "429", "529", "retry_after_3600", "timeout", "cut_stream", "dropped", "refusal", "html", "truncated_json",
    "wrong_schema", "overload_in_stream",
)  # fmt: skip
ONLY_WITH_SCHEMA: Final = ("wrong_schema",)
"""Where no form is asked for, any words are an answer."""

CHAT_SECONDS: Final = 5
GRACE_SECONDS: Final = 5.0
WAITS_FOR_MODEL: Final = ("summarize", "extract")
SOON: Final = {"summary_trigger_message_count": 10, "chat_deadline_seconds": CHAT_SECONDS}

TOLD: Final = 2
"""A liking and a fact, by each user who gives background work."""

KEPT: Final = """
SELECT actor.user_id,
    (SELECT count(*) FROM conversations_message WHERE actor_id = actor.id AND role = 'user'),
    (SELECT count(*) FROM conversations_message WHERE actor_id = actor.id AND role = 'assistant'),
    (SELECT count(*) FROM summaries_summary WHERE actor_id = actor.id),
    (SELECT count(*) FROM strength_memory WHERE actor_id = actor.id AND kind <> 'summary'),
    (SELECT count(*) FROM summaries_summarydraft WHERE actor_id = actor.id)
FROM memoryhub_actor AS actor WHERE agent_id = %s
"""
UNSETTLED: Final = """
SELECT count(*) FROM memoryhub_job AS job JOIN memoryhub_actor AS actor ON actor.id = actor_id
WHERE actor.agent_id = %s AND kind = ANY(%s) AND NOT EXISTS (
    SELECT FROM bench_attempt AS noted WHERE noted.job = job.id AND noted.state <> 'running'
)
"""
"""Jobs of which no attempt has ended yet."""

STATES: Final = """
SELECT kind, state, count(*) FROM memoryhub_job JOIN memoryhub_actor AS actor ON actor.id = actor_id
WHERE actor.agent_id = %s AND kind = ANY(%s) GROUP BY kind, state
"""


# Failures


def failures(times: int, *, shapes: tuple[str, ...] = SHAPES, workers: int = 4) -> Outcome:
    """Let the model fail in every way; nothing of a failed answer may be stored, and every attempt must end in time."""
    outcome = Outcome(f"{len(shapes)} ways to fail, {times} times each")
    with (
        LLMServer() as model,
        talking(model, workers=workers, settings=SHORT_WAITS, BENCH_ATTEMPT_SECONDS="1") as hub,
    ):
        warm(hub, model)
        for shape in shapes:
            Failing(hub, model, shape, times, outcome).run()
        _check_attempts(hub, outcome)
    if "timeout" in shapes:
        _late(max(1, times), workers, outcome)
    return outcome


class Failing:
    """One way to fail, told to users of its own, each asking once."""

    def __init__(self, hub: Hub, model: LLMServer, shape: str, times: int, outcome: Outcome) -> None:
        self.hub, self.model, self.shape, self.times, self.outcome = hub, model, shape, times, outcome
        self.client = Client(hub)
        self.agent = f"fails-{shape}"
        self.draws = True
        self.codes: set[str] = set()

    def run(self) -> None:
        """Fail, look what is stored, let the model come back, and look again."""
        must(self.client.post("agents", {"agent_id": self.agent, "policy": SOON}), 201)
        self.model.answer(Reply(failure=self.shape))
        asking = 0 if self.shape in ONLY_WITH_SCHEMA else self.times
        self.cause(asking=asking)
        began = time.monotonic()
        settled = eventually(self._are_settled, 300)
        self.outcome.took(
            settled and time.monotonic() - began, f"{self.shape}: jobs did not end: {self._states()}"
        )
        failed = self._check()
        self._recover(failed)
        Console(stderr=True).print(f"  {self.shape}: {len(self.outcome.wrong)} wrong so far")

    def cause(self, *, asking: int) -> None:
        """Chat, and say what background work is to deal with."""
        users = [f"{way}-{number}" for way in ("plain", "stream") for number in range(asking)]
        at_once(self._chat, users, threads=8)
        at_once(self._talk, [f"works-{number}" for number in range(self.times)], threads=4)

    def _wrong(self, words: str) -> None:
        self.outcome.wrong.append(f"{self.shape}: {words}")

    def _chat(self, user: str) -> None:
        body = {"agent_id": self.agent, "user_id": user, "message": "Which tea is left on the shelf?"}
        began = time.monotonic()
        if user.startswith("plain"):
            status, problem = self.client.post("chat", body)
            is_told = status == 502
        else:
            events = self.client.stream(body)
            problem = events[-1].data if events else {}
            is_told = bool(events) and events[0].name == "session" and events[-1].name == "error"
        took = time.monotonic() - began
        if not is_told or problem.get("code") != "llm_failed" or not problem.get("reason"):
            self._wrong(f"{user} was answered {json.dumps(problem)[:300]}")
        if not {"retryable", "session_id", "message_id", "detail"} <= problem.keys():
            self._wrong(f"{user}: the error lacks something: {sorted(problem)}")
        if took > CHAT_SECONDS + GRACE_SECONDS:
            self._wrong(f"{user} waited {took:.1f} s")
        self.codes.add(f"{user.partition('-')[0]}: {problem.get('reason')}")

    def _talk(self, user: str) -> None:
        session = open_session(self.client, self.agent, user)
        texts = ["I like walnut bread.", "Noted.", "My boat is called Heron.", "A fine name."]
        say(self.client, session, texts * 3)

    def _are_settled(self) -> bool:
        return bool(self.hub.rows(UNSETTLED, [self.agent, list(WAITS_FOR_MODEL)])[0][0] == 0)

    def _states(self) -> dict[str, int]:
        rows = self.hub.rows(STATES, [self.agent, list(WAITS_FOR_MODEL)])
        return {f"{kind} {state}": count for kind, state, count in rows}

    def _check(self) -> set[str]:
        """Look that nothing of a failed answer is stored; return the users whose jobs have failed for good."""
        for user, asked, answers, summaries, memories, drafts in self.hub.rows(KEPT, [self.agent]):
            works = user.startswith("works")
            if (asked, answers) != ((6, 6) if works else (1, 0)):
                self._wrong(f"{user} has {asked} questions and {answers} answers")
            if self.shape in ONLY_WITH_SCHEMA:  # a summary has no form
                summaries, drafts = 0, 0
            stored = (summaries, drafts, memories)
            if any(stored):
                self._wrong(f"{user}: summaries, drafts, memories stored: {stored}")
        notes = self.outcome.notes.setdefault("shapes", {})
        notes[self.shape] = {"chat": sorted(self.codes), "jobs": self._states()}
        statement = """
            SELECT actor.user_id FROM memoryhub_job JOIN memoryhub_actor AS actor ON actor.id = actor_id
            WHERE actor.agent_id = %s AND kind = 'summarize' AND state IN ('failed', 'dead')
        """
        return {user for (user,) in self.hub.rows(statement, [self.agent])}

    def _recover(self, failed: set[str]) -> None:
        """Let the model answer again: what waits is done, once each."""
        self.model.answer(by_rules)
        make_due(self.hub)
        if drain(self.hub, self.agent, 120) is None:
            self._wrong(f"the jobs were not done after the model came back: {self._states()}")
        kept = [row for row in self.hub.rows(KEPT, [self.agent]) if row[0].startswith("works")]
        for user, _, _, summaries, *_ in kept:
            if summaries != (0 if user in failed else 1):
                self._wrong(f"{user} has {summaries} summaries after the model came back")
        self._check_drawn([memories for *_, memories, _ in kept])

    def _check_drawn(self, memories: list[int]) -> None:
        """What was told is drawn once the model is back, unless it has refused to read it."""
        if self.draws and self.shape != "refusal" and set(memories) != {TOLD}:
            lacking = sum(count < TOLD for count in memories)
            self._wrong(
                f"{lacking} of {len(memories)} users lack what they told: {Counter(memories)} of {TOLD}"
            )


def warm(hub: Hub, model: LLMServer) -> None:
    """Answer once: the first call of a process loads what all others find loaded."""
    model.answer(by_rules)
    client, body = Client(hub), {"agent_id": "warm", "user_id": "user", "message": "I like figs. Do you?"}
    at_once(lambda _: must(client.post("chat", body), 200), range(4), threads=2)
    if drain(hub, "warm", 120) is None:
        raise SystemExit("The first jobs did not end.")


def _check_attempts(hub: Hub, outcome: Outcome) -> None:
    longest, allowed = longest_attempts(hub), deadlines(hub)
    outcome.notes["longest_attempt_seconds"] = longest
    for kind, seconds in longest.items():
        outcome.check(seconds <= allowed[kind] + GRACE_SECONDS, f"an attempt of {kind} took {seconds} s")


def _late(times: int, workers: int, outcome: Outcome) -> None:
    """Let the model be silent, or send a byte now and then, for longer than a job or a chat may take at all."""
    with (
        LLMServer() as model,
        talking(model, workers=workers, settings=SHORT_WAITS, BENCH_ATTEMPT_SECONDS="120") as hub,
    ):
        client = Client(hub)
        off = dict.fromkeys(("semantic", "user_preference", "episodic", "reflection"), False)
        warm(hub, model)
        for shape in ("timeout", "trickle"):
            agent = f"late-{shape}"
            must(client.post("agents", {"agent_id": agent, "policy": SOON, "strategies": off}), 201)
            failing = Failing(hub, model, shape, times, outcome)
            failing.agent, failing.draws = agent, False
            model.answer(Reply(failure=shape))
            at_once(
                failing._chat,
                [f"{way}-{number}" for way in ("plain", "stream") for number in range(times)],
                threads=8,
            )
            at_once(failing._talk, [f"works-{number}" for number in range(times)], threads=4)
            settled = eventually(failing._are_settled, 60 + 2 * times * SUMMARIZE_SECONDS)
            outcome.check(settled is not None, f"late {shape}: jobs did not end: {failing._states()}")
            failing.shape = f"late {shape}"
            failing._recover(failing._check())
        longest = longest_attempts(hub)
        outcome.notes["longest_late_attempt_seconds"] = longest.get("summarize")
        bound = SUMMARIZE_SECONDS + GRACE_SECONDS
        outcome.check(longest.get("summarize", 0.0) <= bound, f"a late summary took {longest}")


# Triggers


def triggers(sessions: int, *, threads: int = 8, workers: int = 8) -> Outcome:
    """Ask for one summary from several sides at once: by hand, by messages, and by several jobs."""
    outcome = Outcome(f"{threads} triggers at once, {sessions} sessions")
    with LLMServer() as model:
        model.answer(lambda asked: _slowly(by_rules(asked)))
        with talking(model, workers=workers) as hub:
            for way in (_by_hand, _by_messages, _by_jobs):
                began = time.monotonic()
                way(hub, sessions, threads, outcome)
                outcome.took(time.monotonic() - began, "")
    return outcome


def _slowly(reply: Reply) -> Reply:
    return Reply(reply.text, reply.data, delay_seconds=0.2)


def _by_hand(hub: Hub, sessions: int, threads: int, outcome: Outcome) -> None:
    client, agent = Client(hub), "by-hand"
    for number in range(sessions):
        session = open_session(client, agent, f"user-{number}")
        say(client, session, [f"The {number}th boat is finished.", "Well done."] * 3)
        ready = threading.Barrier(threads)

        def ask(_: int, session: str = session, ready: threading.Barrier = ready) -> int:
            ready.wait()
            return client.post(f"sessions/{session}/summary")[0]

        statuses = at_once(ask, range(threads), threads=threads)
        outcome.check(set(statuses) == {202}, f"asked by hand: {statuses}")
    outcome.check(drain(hub, agent, 300) is not None, "by hand: jobs did not end")
    _count_asked(hub, agent, sessions, outcome)


def _count_asked(hub: Hub, agent: str, sessions: int, outcome: Outcome) -> None:
    """One version for each state of the summary that somebody asked from: later askers ask for another one."""
    statement = """
        SELECT session, triggers, (
            SELECT count(*) FROM summaries_summaryversion AS version
            JOIN summaries_summary AS summary ON summary.id = version.summary_id
            WHERE summary.session_id = session AND version.verb = 'write'
        ) FROM (
            SELECT (payload->>'session_id')::uuid AS session, count(DISTINCT payload->>'written') AS triggers
            FROM memoryhub_job JOIN memoryhub_actor AS actor ON actor.id = actor_id
            WHERE actor.agent_id = %s AND kind = 'summarize' AND payload ? 'written' GROUP BY 1
        ) AS asked
    """
    rows = hub.rows(statement, [agent])
    wrong = [(asked, versions) for _, asked, versions in rows if asked != versions]
    outcome.check(
        not wrong and len(rows) == sessions, f"{agent}: (triggers, versions) {wrong[:5]} of {len(rows)}"
    )
    outcome.notes[agent] = {
        "sessions": len(rows),
        "triggers": sum(row[1] for row in rows),
        "versions": sum(row[2] for row in rows),
    }


def _by_messages(hub: Hub, sessions: int, threads: int, outcome: Outcome) -> None:
    """Write 40 messages from several threads in turns of two: a summary at 20 or more new ones, none missed."""
    client, agent = Client(hub), "by-messages"
    _prepare(client, agent)

    def talk(number: int) -> None:
        session = open_session(client, agent, f"user-{number}")
        at_once(
            lambda _: say(client, session, ["The mast is finished.", "Good."]), range(20), threads=threads
        )

    at_once(talk, range(sessions), threads=2)
    outcome.check(drain(hub, agent, 300) is not None, "by messages: jobs did not end")
    _check_steps(hub, agent, sessions, 40, outcome)


def _prepare(client: Client, agent: str) -> None:
    off = dict.fromkeys(("semantic", "user_preference", "episodic", "reflection"), False)
    must(client.post("agents", {"agent_id": agent, "strategies": off}), 201)


def _check_steps(hub: Hub, agent: str, sessions: int, messages: int, outcome: Outcome) -> None:
    statement = """
        SELECT session.id, session.message_count, COALESCE(array_agg(version.message_count ORDER BY version.number)
            FILTER (WHERE version.verb = 'write'), '{}')
        FROM conversations_session AS session JOIN memoryhub_actor AS actor ON actor.id = session.actor_id
        LEFT JOIN summaries_summary AS summary ON summary.session_id = session.id
        LEFT JOIN summaries_summaryversion AS version ON version.summary_id = summary.id
        WHERE actor.agent_id = %s GROUP BY session.id
    """
    rows = hub.rows(statement, [agent])
    for _, count, covered in rows:
        steps = [after - before for before, after in zip([0, *covered], [*covered, count], strict=True)]
        holds = count == messages and all(step >= 20 for step in steps[:-1]) and steps[-1] < 20
        outcome.check(holds, f"{agent}: {count} messages were summarised at {covered}")
    outcome.check(len(rows) == sessions, f"{agent}: {len(rows)} sessions")
    outcome.notes[agent] = {"sessions": len(rows), "versions": sum(len(row[2]) for row in rows)}


JOB: Final = """
INSERT INTO memoryhub_job (id, actor_id, kind, key, payload, state, attempts, excused, due_at, error)
SELECT gen_random_uuid(), actor_id, 'summarize', 'bench-' || number, json_build_object('session_id', id)::jsonb,
    'queued', 0, 0, now(), ''
FROM conversations_session, generate_series(1, %s) AS number WHERE id = %s::uuid ORDER BY number
"""


def _by_jobs(hub: Hub, sessions: int, threads: int, outcome: Outcome) -> None:
    """Put several jobs about one due session into the queue, so that workers do the same at the same time."""
    client, agent = Client(hub), "by-jobs"
    _prepare(client, agent)
    for number in range(sessions):
        session = open_session(client, agent, f"user-{number}")
        say(client, session, ["The hull is finished.", "Good."] * 10)
        with hub.connection() as connection:
            connection.execute(JOB, [threads, session])
    outcome.check(drain(hub, agent, 600) is not None, "by jobs: jobs did not end")
    _check_steps(hub, agent, sessions, 20, outcome)
    statement = "SELECT count(*) FROM memoryhub_job WHERE starts_with(key, 'bench-') AND state = 'done'"
    outcome.notes[agent]["jobs"] = hub.rows(statement)[0][0]


# A provider that is away


@dataclass
class Load:
    """Users who write and ask for contexts, one call after the other, each timed."""

    client: Client
    agent: str
    pause_seconds: float = 0.1
    stored: dict[str, int] = field(default_factory=dict)
    took: dict[str, list[float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def run(self, phase: str, seconds: float) -> None:
        """Keep on for some time; a new user every 20 messages."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            user = f"user-{uuid4().hex[:12]}"
            session = open_session(self.client, self.agent, user)
            for number in range(10):
                self._timed(phase, "messages", f"sessions/{session}/messages", self._turn(user, number))
                body = {
                    "agent_id": self.agent,
                    "user_id": user,
                    "session_id": session,
                    "message": "What is my boat?",
                }
                self._timed(phase, "context", "context", body)
                time.sleep(self.pause_seconds)
            self.stored[session] = 20

    def _turn(self, user: str, number: int) -> dict[str, Any]:
        told = (
            f"My boat is called {user.replace('-', '')}. It is finished." if number == 0 else "It sails well."
        )
        return {"messages": [{"role": "user", "content": told}, {"role": "assistant", "content": "Good."}]}

    def _timed(self, phase: str, name: str, path: str, body: dict[str, Any]) -> None:
        began = time.perf_counter()
        status, _ = self.client.post(path, body)
        self.took.setdefault(f"{name} {phase}", []).append((time.perf_counter() - began) * 1000)
        if status not in (200, 201):
            self.failed.append(f"{path.rpartition('/')[2]} answered {status} {phase}")


def down(minutes: float, *, before_seconds: float = 60) -> Outcome:
    """Take the model away, go on writing, bring it back, and wait until everything is done."""
    outcome = Outcome(f"the model is away for {minutes:g} min")
    with LLMServer() as model, talking(model) as hub:
        model.answer(by_rules)
        load = Load(Client(hub), "away")
        load.run("warming up", 5)
        load.run("before", before_seconds)
        model.answer(Reply(failure="529"))
        load.run("during", minutes * 60)
        asked = len(model.asked)
        waiting = hub.rows("SELECT count(*) FROM memoryhub_job WHERE state = 'queued' AND attempts > 0")[0][0]
        model.answer(by_rules)
        outcome.took(drain(hub, load.agent, 1500), f"not drained: {_open_jobs(hub)}")
        outcome.wrong += load.failed[:5]
        _check_away(hub, load, outcome)
        _tell_times(load, outcome)
        outcome.notes |= {"sessions": len(load.stored), "asked_by_then": asked, "jobs_waiting": waiting}
    return outcome


def _open_jobs(hub: Hub) -> list[tuple[Any, ...]]:
    return hub.rows("SELECT kind, state, count(*) FROM memoryhub_job GROUP BY 1, 2 ORDER BY 1, 2")


def _tell_times(load: Load, outcome: Outcome) -> None:
    for name in ("messages", "context"):
        before, during = (percentiles(load.took[f"{name} {phase}"]) for phase in ("before", "during"))
        outcome.notes[name] = {
            "before_ms": before, "during_ms": during, "p95_ratio": round(during["p95"] / before["p95"], 2),
        }  # fmt: skip


def _check_away(hub: Hub, load: Load, outcome: Outcome) -> None:
    """Each session has one summary of all its messages, each fact is there once, and no job was given up."""
    statement = """
        SELECT session.id::text, session.message_count, summary.message_count, (
            SELECT count(*) FROM strength_memory AS memory WHERE memory.actor_id = session.actor_id
            AND starts_with(content, 'The user''s boat is')
        ) FROM conversations_session AS session JOIN memoryhub_actor AS actor ON actor.id = session.actor_id
        LEFT JOIN summaries_summary AS summary ON summary.session_id = session.id WHERE actor.agent_id = %s
    """
    rows = hub.rows(statement, [load.agent])
    found = {session: rest for session, *rest in rows}
    wrong = [found.get(session) for session in load.stored if found.get(session) != [20, 20, 1]]
    outcome.check(
        not wrong, f"(messages, summarised, facts) should be (20, 20, 1): {wrong[:5]}, {len(wrong)} in all"
    )
    lost = hub.rows(
        "SELECT kind, error, count(*) FROM memoryhub_job WHERE state IN ('failed', 'dead') GROUP BY 1, 2"
    )
    outcome.check(not lost, f"jobs given up: {lost}")


# A cap


def cap() -> Outcome:
    """Use up an agent's day: background work waits and says so, chat goes on, and the next day everything is done."""
    outcome = Outcome("an agent's daily cap")
    with LLMServer() as model, talking(model, settings=SHORT_WAITS) as hub:
        model.answer(_dearly)
        client, agent = Client(hub), "thrifty"
        must(client.post("agents", {"agent_id": agent, "policy": {"daily_token_cap": 1000}}), 201)
        session = open_session(client, agent, "user")
        must(_chat(client, session), 200)
        say(client, session, ["My boat is called Heron. It is finished.", "Good."] * 3)
        job = must(client.post(f"sessions/{session}/summary"), 202)["job_id"]
        began = time.monotonic()
        _check_paused(client, hub, job, outcome)
        must(_chat(client, session), 200)
        outcome.check(_summaries(hub) == 0, "a summary was written beyond the cap")
        with hub.connection() as connection:
            connection.execute("UPDATE memoryhub_ledgerentry SET created_at = created_at - interval '1 day'")
            connection.execute(
                "UPDATE memoryhub_job SET due_at = due_at - interval '1 day' WHERE state = 'queued'"
            )
        outcome.check(drain(hub, agent, 60) is not None, f"the next day: {_open_jobs(hub)}")
        outcome.took(time.monotonic() - began, "")
        outcome.check(client.get(f"jobs/{job}").get("state") == "done", "the job was not done the next day")
        facts = hub.rows(
            "SELECT count(*) FROM strength_memory WHERE starts_with(content, 'The user''s boat is')"
        )[0][0]
        outcome.check(
            (_summaries(hub), facts) == (1, 1), f"the next day: {_summaries(hub)} summaries, {facts} facts"
        )
    return outcome


def _dearly(asked: Asked) -> Reply:
    """Answer; a chat uses more than the cap."""
    reply = by_rules(asked)
    is_chat = asked.schema is None and reply.text.startswith("I ")
    return Reply(reply.text, reply.data, input_tokens=5000) if is_chat else reply


def _chat(client: Client, session: str) -> tuple[int, dict[str, Any]]:
    body = {
        "agent_id": "thrifty",
        "user_id": "user",
        "session_id": session,
        "message": "What is my boat called?",
    }
    return client.post("chat", body)


def _check_paused(client: Client, hub: Hub, job: str, outcome: Outcome) -> None:
    def waits() -> bool:
        return "daily_token_cap" in str(client.get(f"jobs/{job}").get("error"))

    outcome.check(
        eventually(waits, 60) is not None, f"the job does not say why it waits: {client.get(f'jobs/{job}')}"
    )
    shown = client.get(f"jobs/{job}")
    outcome.notes["job"] = {name: shown.get(name) for name in ("state", "attempts", "error")}
    outcome.check(shown.get("state") == "queued", f"the job is {shown.get('state')}")
    today = client.get("usage?agent_id=thrifty").get("today", {})
    outcome.notes["usage"] = today
    outcome.check(bool(today.get("is_paused") and today.get("paused_until")), f"GET usage says {today}")
    said = subprocess.run(
        [sys.executable, "manage.py", "doctor"],
        cwd=CHECKOUT, env=hub.environment, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    told = [line for line in said.splitlines() if "thrifty" in line]
    outcome.notes["doctor"] = told
    outcome.check(bool(told), "doctor does not tell of the cap")


def _summaries(hub: Hub) -> int:
    return int(hub.rows("SELECT count(*) FROM summaries_summary")[0][0])
