"""What talking costs in time: from the model's first word to the client's, and a message with its follow-up work."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bench.drills import Outcome
from bench.harness import percentiles
from bench.hub import CHECKOUT, Hub
from bench.talking_hub import ALONE, OURS, Client, Event, at_once, drain, must, open_session, talking
from bench.talking_model import ModelApart, by_rules, model_apart
from tests.fakes.llm_server import LLMServer

WHOLE = "One answer, in five pieces."


def streams(count: int, at_a_time: int) -> Outcome:
    """Stream answers one after the other, then many at once; all must come whole and be stored."""
    outcome = Outcome(f"{count} streams one by one, then {at_a_time} at once")
    with model_apart(piece_delay_seconds=0.02) as model, talking(model) as hub:
        _stream_all(hub, model, "warm", 3, 1, outcome)
        outcome.seconds.clear()
        _stream_all(hub, model, "one", count, 1, outcome)
        _stream_all(hub, model, "many", at_a_time, at_a_time, outcome)
    outcome.notes.pop("warm")
    return outcome


def _stream_all(hub: Hub, model: ModelApart, name: str, count: int, threads: int, outcome: Outcome) -> None:
    client, agent = Client(hub), f"streams-{name}"
    must(client.post("agents", {"agent_id": agent}), 201)

    def ask(number: int) -> tuple[str, list[Event]]:
        mark = f"{name}{number}"
        body = {"agent_id": agent, "user_id": mark, "message": f"What do you say to mark-{mark}?"}
        return mark, client.stream(body)

    began = time.monotonic()
    answers = at_once(ask, range(count), threads=threads)
    outcome.took(time.monotonic() - began, "")
    outcome.wrong += [f"{mark}: {_told(events)}" for mark, events in answers if not _is_whole(events)][:5]
    first = {mark: event.at for mark, events in answers for event in events[::-1] if event.name == "delta"}
    noted = model.noted()
    lags = [(at - noted[mark]) * 1000 for mark, at in first.items() if mark in noted]
    outcome.check(len(lags) == count, f"{name}: {len(lags)} of {count} streams began")
    outcome.check(drain(hub, agent, 300) is not None, f"{name}: jobs did not end")
    outcome.check(
        _stored(hub, agent) == count, f"{name}: {_stored(hub, agent)} of {count} answers are stored"
    )
    outcome.notes[name] = {"streams": count, "first_byte_after_models_ms": percentiles(lags)}


def _told(events: list[Event]) -> str:
    return json.dumps(events[-1].data)[:200] if events else "nothing"


def _is_whole(events: list[Event]) -> bool:
    text = "".join(event.data["text"] for event in events if event.name == "delta")
    return text == WHOLE and events[-1].name == "done" and events[-1].data["text"] == WHOLE


def _stored(hub: Hub, agent: str) -> int:
    statement = """
        SELECT count(*) FROM conversations_message AS message JOIN memoryhub_actor AS actor ON actor.id = actor_id
        WHERE actor.agent_id = %s AND role = 'assistant' AND content = %s
    """
    return int(hub.rows(statement, [agent, WHOLE])[0][0])


def turn(rounds: int) -> Outcome:
    """Send the same message to two installations by turns, one of which enqueues nothing; and time the enqueues."""
    outcome = Outcome(f"{rounds} messages with and without what follows them")
    with LLMServer() as model, ExitStack() as hubs:
        model.answer(by_rules)
        both = {
            name: hubs.enter_context(talking(model, "--only", "web", settings=settings))
            for name, settings in (("with", OURS), ("without", ALONE))
        }
        clients = {name: Client(hub) for name, hub in both.items()}
        for act in (_a_message, _a_chat):
            outcome.notes[act.__name__.removeprefix("_a_")] = _compare(clients, rounds, act, outcome)
        outcome.notes["enqueue_in_process"] = _following(both["with"], rounds)
    return outcome


Act = Callable[[Client, str, str], Any]


def _compare(clients: dict[str, Client], rounds: int, act: Act, outcome: Outcome) -> dict[str, Any]:
    """Time an act on both by turns, which of them goes first changing; every fifth is in a new session."""
    took: dict[str, list[float]] = {name: [] for name in clients}
    sessions: dict[str, str] = {}
    began = time.monotonic()
    for number in range(rounds + 5):
        names = list(clients) if number % 2 else list(clients)[::-1]
        user = f"user-{number // 5}"
        for name in names:
            if number % 5 == 0:
                sessions[name] = open_session(clients[name], f"turn{act.__name__}", user)
            start = time.perf_counter()
            must(act(clients[name], sessions[name], user), 200, 201)
            took[name].append((time.perf_counter() - start) * 1000)
    outcome.took(time.monotonic() - began, "")
    timed = {name: each[5:] for name, each in took.items()}  # the first are for warming up
    paired = sorted(mine - other for mine, other in zip(timed["with"], timed["without"], strict=True))
    figures = {f"{name}_ms": percentiles(each) for name, each in timed.items()}
    return {**figures, "median_difference_ms": round(paired[len(paired) // 2], 2)}


def _a_message(client: Client, session: str, user: str) -> Any:
    body = {"role": "user", "content": "The boat sails well today."}
    return client.post(f"sessions/{session}/messages", body)


def _a_chat(client: Client, session: str, user: str) -> Any:
    body = {"agent_id": "turn_a_chat", "user_id": user, "session_id": session, "message": "How is the boat?"}
    return client.post("chat", body)


def _following(hub: Hub, rounds: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.following", str(rounds)],
        cwd=CHECKOUT, env=hub.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures
