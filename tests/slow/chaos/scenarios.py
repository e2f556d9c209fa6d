"""Whole stories through HTTP, with a real worker and a model of a few rules: what was said there is known here."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.fakes.llm_server import LLMServer
from tests.slow.chaos.drills import Outcome
from tests.slow.chaos.hub import Hub
from tests.slow.chaos.model import by_rules
from tests.slow.chaos.talking import SHORT_WAITS, Client, drain, must, open_session, say, talking

ROLES: Final = ("user", "assistant")
NO_RECALL: Final = {"include_recall": False}
"""What is known without it was learnt, and not merely found again in what was said."""


def scenarios() -> Outcome:
    """Tell the stories one after the other."""
    outcome = Outcome("stories end to end")
    with LLMServer() as model, talking(model, settings=SHORT_WAITS, BENCH_ATTEMPT_SECONDS="10") as hub:
        model.answer(by_rules)
        for story in (liking, liking_in_japanese, purchase, earlier_talks, long_session, weeks_apart):
            teller = Teller(hub, story.__name__, outcome)
            story(teller)
            outcome.took(drain(hub, teller.agent, 120), f"{story.__name__}: jobs did not end")
    return outcome


class Teller:
    """A client of one agent, and what did not hold of its story."""

    def __init__(self, hub: Hub, name: str, outcome: Outcome) -> None:
        self.hub, self.name, self.outcome = hub, name, outcome
        self.agent = name.replace("_", "-")
        self.client = Client(hub)

    def check(self, holds: bool, words: str) -> None:
        """Note what does not hold."""
        self.outcome.check(holds, f"{self.name}: {words}")

    def agent_is(self, **values: Any) -> None:
        """Make the agent."""
        must(self.client.post("agents", {"agent_id": self.agent, **values}), 201)

    def ask(self, message: str, **values: Any) -> dict[str, Any]:
        """Ask the model and return the answer."""
        return must(self.client.post("chat", {"agent_id": self.agent, "message": message, **values}), 200)

    def context(self, message: str, **values: Any) -> tuple[str, dict[str, Any]]:
        """Return all text of a context, and its metadata."""
        body = {"agent_id": self.agent, "message": message, **values}
        found = must(self.client.post("context", body), 200)
        text = json.dumps([found["system"], found["messages"]], ensure_ascii=False)
        return text, found["metadata"]

    def rest(self) -> None:
        """Let the background work be done."""
        self.check(drain(self.hub, self.agent, 120) is not None, "jobs did not end")

    def memories(self, kind: str, **whose: str) -> list[dict[str, Any]]:
        """Return the user's memories of a kind."""
        query = "&".join(f"{name}={value}" for name, value in {"agent_id": self.agent, "kind": kind, **whose}.items())
        return list(self.client.get(f"memories?{query}").get("results", []))

    def talk(self, session: str, texts: Sequence[str], at: datetime, *, at_once: int = 2) -> None:
        """Write a conversation as it was once, a message a minute, some at a time."""
        said = [
            {"role": ROLES[place % 2], "content": text, "created_at": (at + timedelta(minutes=place)).isoformat()}
            for place, text in enumerate(texts)
        ]
        for place in range(0, len(said), at_once):
            batch = said[place : place + at_once]
            must(self.client.post(f"sessions/{session}/messages", {"messages": batch}), 201)


def liking(teller: Teller) -> None:
    """A liking told on one device answers a question on another, of an agent with one owner."""
    teller.agent_is(fixed_user_id="owner")
    told = teller.ask("I like roasted hojicha tea.", user_id="phone", channel="phone")
    teller.rest()
    known = teller.memories("preference", user_id="desk")
    teller.check(["hojicha" in each["content"] for each in known] == [True], f"{len(known)} likings are known")
    answer = teller.ask("Which tea do I like?", user_id="desk", channel="desk", options=NO_RECALL)
    teller.check("hojicha" in answer["text"], f"the answer was {answer['text']}")
    teller.check(answer["session_id"] != told["session_id"], "it is the same session")
    shown = teller.client.get(f"sessions/{answer['session_id']}")
    teller.check(shown.get("user_id") == "owner", f"the session is filed under {shown.get('user_id')}")


def liking_in_japanese(teller: Teller) -> None:
    """The same in Japanese."""
    teller.agent_is(fixed_user_id="tonari-owner", language="ja")
    teller.ask("抹茶アイスが好きです。", channel="phone")
    teller.rest()
    known = teller.memories("preference")
    teller.check(["抹茶アイス" in each["content"] for each in known] == [True], f"{len(known)} likings are known")
    answer = teller.ask("好きなアイスは何だっけ？", channel="desk", options=NO_RECALL)
    teller.check("抹茶" in answer["text"], f"the answer was {answer['text']}")


def purchase(teller: Teller) -> None:
    """A purchase told in one session is known in the next."""
    teller.agent_is()
    teller.ask("I bought a green Bianchi bicycle.", user_id="mika")
    teller.rest()
    known = teller.memories("fact", user_id="mika")
    teller.check(["Bianchi" in each["content"] for each in known] == [True], f"{len(known)} facts are known")
    answer = teller.ask("What bicycle have I bought?", user_id="mika", options=NO_RECALL)
    teller.check("Bianchi" in answer["text"], f"the answer was {answer['text']}")
    other = teller.ask("What bicycle have I bought?", user_id="somebody-else", options=NO_RECALL)
    teller.check("Bianchi" not in other["text"], "another user was told")


def earlier_talks(teller: Teller) -> None:
    """Earlier talks are found by their summary in a new session."""
    teller.agent_is()
    for subject, result in (("memory store", "pgvector index"), ("garden shed", "roof"), ("sourdough", "starter")):
        session = open_session(teller.client, teller.agent, "mika")
        say(teller.client, session, [f"How is the {subject}?", f"The {result} of the {subject} is finished."] * 2)
        must(teller.client.post(f"sessions/{session}/end"), 200)
        teller.rest()
    summaries = teller.memories("summary", user_id="mika")
    teller.check(len(summaries) == 3, f"{len(summaries)} summaries are remembered")
    question = "How far did we get with the memory store?"
    text, metadata = teller.context(question, user_id="mika", options=NO_RECALL)
    teller.check("pgvector index" in text, "the summary of the first session is not in the context")
    teller.check(metadata["semantic_memory_count"] >= 1, f"metadata: {metadata}")
    answer = teller.ask(question, user_id="mika", options=NO_RECALL)
    teller.check("pgvector" in answer["text"], f"the answer was {answer['text']}")


YESTERDAY: Final = datetime.now(UTC).replace(hour=10, minute=0, second=0, microsecond=0) - timedelta(days=1)
LONG: Final = [
    "Memory Storeの実装を始めたい",
    "Memory Storeの設計から始めましょう",
    *["テーブルはどう分ける？", "用途ごとに分けましょう"] * 9,
    "pgvectorの設定方法は？",
    "pgvectorの設定が完了しました",
    *["次の関数も見てほしい", "見ておきます"] * 13,
    "repository.pyは？",
    "repository.pyが完成し、次はRetrieval Orchestratorの統合です",
]


def long_session(teller: Teller) -> None:
    """A session of 50 messages is gone on with the next day, in itself and in a new one."""
    teller.agent_is(language="ja")
    teller.check(len(LONG) == 50, f"{len(LONG)} messages")
    session = open_session(teller.client, teller.agent, "kana")
    # At once: the summary that 20 messages ask for waits two seconds, in which a busy machine takes only some.
    teller.talk(session, LONG[:24], YESTERDAY, at_once=24)
    teller.rest()
    first = teller.client.get(f"sessions/{session}/summary")
    teller.check(first.get("message_count") == 24, f"after 24 messages: {first.get('message_count')}")
    teller.talk(session, LONG[24:], YESTERDAY + timedelta(minutes=24))
    must(teller.client.post(f"sessions/{session}/end"), 200)
    teller.rest()
    whole = teller.client.get(f"sessions/{session}/summary")
    teller.check(whole.get("message_count") == 50, f"after 50 messages: {whole.get('message_count')}")
    summary = str(whole.get("summary"))
    for words in ("始めたい", "pgvector", "repository.py", "Retrieval Orchestrator"):
        teller.check(words in summary, f"the summary lacks {words}")
    question = {"user_id": "kana", "options": NO_RECALL}
    text, metadata = teller.context("昨日の続きから始めたい", session_id=session, **question)
    teller.check(bool(metadata["has_session_summary"]), f"the session's own summary is missing: {metadata}")
    teller.check(metadata["working_memory_count"] == 10, f"working memory: {metadata['working_memory_count']}")
    teller.check("pgvectorの設定が完了" in text, "what was done early that day is not in the context")
    new = open_session(teller.client, teller.agent, "kana")
    text, metadata = teller.context("昨日の続きから始めたい", session_id=new, **question)
    teller.check(bool(metadata["has_session_summary"]), f"the day's summary is missing: {metadata}")
    teller.check("Retrieval Orchestrator" in text, "what was to come next is not in the context of a new session")
    answer = teller.ask("次は何の統合だっけ？", session_id=new, **question)
    teller.check("Retrieval Orchestrator" in answer["text"], f"the answer was {answer['text']}")


SPRINTS: Final = (
    (18, "Bridge Lite", "Bridge Lite基盤の実装が完了しました"),
    (16, "Memory Store", "Memory Storeの実装が完了し、MessageRepositoryとMemoryRepositoryができました"),
    (14, "Retrieval Orchestrator", "Retrieval Orchestratorの実装が完了しました"),
)


def weeks_apart(teller: Teller) -> None:
    """Three sessions weeks ago; a question about the second finds its summary, not only the latest one."""
    teller.agent_is(language="ja")
    for number, (days, subject, result) in enumerate(SPRINTS, 1):
        session = open_session(teller.client, teller.agent, "kana")
        asked = [
            f"Sprint {number}の{subject}を進めたい",
            f"Sprint {number}: {result}",
            "ありがとう",
            "お疲れさまでした",
        ]
        teller.talk(session, asked, YESTERDAY - timedelta(days=days))
        must(teller.client.post(f"sessions/{session}/end"), 200)
        teller.rest()
    question = "Memory Storeの実装、どうなってたっけ？"
    text, _ = teller.context(question, user_id="kana", options=NO_RECALL)
    teller.check("MessageRepository" in text, "the second session's summary is not in the context")
    answer = teller.ask(question, user_id="kana", options=NO_RECALL)
    teller.check("MessageRepository" in answer["text"], f"the answer was {answer['text']}")
