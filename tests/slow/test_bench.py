"""The benchmarks run, from the command line, on data of one's own: tiny here, so that nobody waits."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from memoryhub.runtime.postgres import EmbeddedCluster
from memoryhub.runtime.processes import wait_until

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"

DIALOGUE = {
    "sample_id": "tea",
    "conversation": {
        "speaker_a": "Aki",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Aki", "dia_id": "D1:1", "text": "Where did you go last week?"},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "I rowed across the lake with my sister."},
            {"speaker": "Aki", "dia_id": "D1:3", "text": "Lovely! I planted a walnut tree."},
        ],
    },
    "qa": [
        {"question": "Who planted a walnut tree?", "answer": "Aki", "evidence": ["D1:3"], "category": 4},
        {"question": "What did Ben do on the lake?", "answer": "row", "evidence": ["D1:2"], "category": 4},
    ],
}
PARAGRAPHS = {
    "paragraphs": [
        {"id": 1, "title": "茶", "text": "煎茶は日本で最もよく飲まれる緑茶である。"},
        {"id": 2, "title": "琵琶湖", "text": "琵琶湖は滋賀県にある日本最大の湖である。"},
    ],
    "questions": [
        {"question": "日本で最もよく飲まれる緑茶は何か", "paragraph": 1},
        {"question": "滋賀県にある湖は", "paragraph": 2},
    ],
}
CHAT = [
    {
        "batch_number": 1,
        "turns": [
            [
                {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "I sold the tandem. ->-> 1,1"},
                {"role": "assistant", "id": 1, "content": "A pity, it was a fine bicycle."},
            ]
        ],
    }
]
PROBES = {
    "abstention": [{"question": "Who won the regatta?"}],
    "information_extraction": [{"question": "Did I sell the tandem?", "source_chat_ids": [0]}],
}
MESSAGES = {
    "memories": [{"id": "m1", "text": "The user's cat Goma is allergic to salmon."}],
    "distractors": [{"id": "d1", "text": "The user's garage door is painted green."}],
    "cases": [
        {
            "id": "c1",
            "split": "dev",
            "type": "follow_up",
            "note": "the cat",
            "right": ["m1"],
            "turns": [{"role": "user", "text": "Which food is Goma the cat allergic to?"}],
            "message": "And why?",
        },
        {"id": "c2", "split": "test", "type": "none", "note": "", "right": [], "turns": [], "message": "Hi!"},
    ],
}


def of_its_own() -> dict[str, str]:
    """Return an environment without our installation, whatever that is."""
    ours = {"DATABASE_URL", "MEMORYHUB_DATA_DIR", "DJANGO_SETTINGS_MODULE"}
    return {name: value for name, value in os.environ.items() if name not in ours}


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark as a person does."""
    return subprocess.run(
        [sys.executable, f"bench/{name}.py", *arguments],
        cwd=ROOT,
        env=of_its_own(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def figures(name: str, *arguments: str) -> Any:
    done = run(name, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_screening_measures_times_and_rates(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text("Tea.\n\nDB_PASSWORD=hunter2x\n")
    done = run("screening", str(file))
    assert done.returncode == 0, done.stderr
    assert "notes.md: 1 of 2 paragraphs changed" in done.stdout
    assert "3000 of 3000 made-up secrets" in done.stdout


def test_retrieval_measures_every_kind_of_data(tmp_path: Path) -> None:
    chat = tmp_path / "chats" / "1"
    (chat / "probing_questions").mkdir(parents=True)
    contents = {
        "dialogues.json": [DIALOGUE],
        "chats/1/chat.json": CHAT,
        "paragraphs.json": PARAGRAPHS,
        "chats/1/probing_questions/probing_questions.json": PROBES,
        "messages.json": MESSAGES,
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(json.dumps(content))
    data = [str(tmp_path / name) for name in ("dialogues.json", "chats", "paragraphs.json", "messages.json")]

    found = figures("retrieval", *data, "--contexts")

    assert found["embedder"]["provider"] == "hashing"
    sets = {each["name"]: each for each in found["datasets"]}
    assert list(sets) == ["dialogues", "chats", "paragraphs", "messages-1", "messages-2"]
    assert [each["methods"]["memoryhub"]["overall"]["recall@10"] for each in sets.values()] == [1.0] * 5
    for name in ("dialogues", "chats"):
        found_in = {each[""]: each["evidence"] for each in sets[name]["contexts"] if each["limit"] == 4000}
        assert found_in == {"memoryhub": 1.0, "last messages": 1.0, "BM25": 1.0}
    follow_up = next(each for each in sets["messages-2"]["messages"] if each["type"] == "follow_up")
    assert (follow_up["right"], follow_up["irrelevant"]) == (1.0, 0.0)


def test_retrieval_refuses_what_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"notes": []}')

    done = run("retrieval", str(tmp_path / "notes.json"))

    assert done.returncode != 0
    assert "notes.json" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_latency_measures() -> None:
    sizes = ["--actors", "2", "--memories", "40", "--messages", "100", "--rounds", "3"]

    found = figures("latency", *sizes)

    assert [(each["rows"], each["laid"]) for each in found] == [(80, "as they came"), (80, "after cluster_tables")]
    tables = found[1]["gathering"]["tables"]
    assert tables["strength_memoryindex"]["rows"] >= 80
    assert tables["conversations_messageindex"]["rows"] == 200
    assert {"search, meanwhile", "write, meanwhile"} <= set(found[1]["gathering"]["waits"])


def test_cost_measures_every_kind_of_request() -> None:
    found = figures("cost", "--rounds", "1")
    assert [each["request"] for each in found] == ["context", "search", "message", "memory", "100 messages"]
    assert all(each["calls"] > 1_000 and each["statements"] > 1 for each in found)


def test_cost_draws_a_flame_graph(tmp_path: Path) -> None:
    drawn = tmp_path / "search.svg"
    done = run("cost", "--profile", "search", "--rounds", "20", "--flame-graph", str(drawn))
    assert done.returncode == 0, done.stderr
    names = [title.text for title in ElementTree.fromstring(drawn.read_text()).iter(f"{SVG}title")]
    assert any(name and name.startswith("strength/actions/search.py: ") for name in names)


def test_cost_compares_batches_with_plain_inserts() -> None:
    found = figures("cost", "--ingestion", "--rounds", "2")
    assert found["INSERTs / HTTP"]["p50"] == found["plain INSERTs"]["p50"] / found["HTTP"]["p50"]


@pytest.mark.parametrize("arguments", [["--actors", "none"], ["--rounds", "0"], ["--messages", "150"]])
def test_latency_refuses_what_it_cannot_do(arguments: list[str]) -> None:
    done = run("latency", *arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGHUP])
def test_signal_leaves_nothing_running(tmp_path: Path, ended_by: signal.Signals) -> None:
    tmp_path.chmod(0o711)
    run = subprocess.Popen(
        [sys.executable, "bench/latency.py"],
        cwd=ROOT,
        env={**of_its_own(), "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup is not what is tested
    )
    try:
        assert wait_until(lambda: any(cluster.is_running() for cluster in clusters(tmp_path)), timeout_seconds=120)
        (cluster,) = clusters(tmp_path)
        run.send_signal(ended_by)
        _, said = run.communicate(timeout=300)
        assert not cluster.is_alive()
    finally:
        run.kill()
        for cluster in clusters(tmp_path):
            cluster.destroy()
    assert run.returncode == 128 + ended_by
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def clusters(folder: Path) -> list[EmbeddedCluster]:
    """Return the servers of the installations in a folder."""
    return [EmbeddedCluster(each / "data") for each in folder.glob("memoryhub-bench-*")]


@pytest.mark.long
def test_shares_measures_another_keys_search_and_summary() -> None:
    found = figures("shares", "--seconds", "3", "--sessions", "8")
    assert found["requests"]["attacked"]["statuses"].keys() == {"200"}
    kinds = {name.split()[0] for name in found["requests"]["attacker"]}
    assert kinds == {"breaks", "repeats", "lists", "bodies", "streams", "heads"}
    assert found["orders"]["seconds"] is not None


def test_first_byte_measures_what_memory_adds() -> None:
    found = figures("first_byte", "--memories", "50", "--questions", "3")
    assert found["with memory, ms"]["p50"] > found["the vendor alone, ms"]["p50"] > 0


def test_tracing_measures_searches_by_the_share_that_is_recorded() -> None:
    found = figures("tracing", "--memories", "50", "--searches", "5")
    assert list(found) == ["off", "on, none recorded", "on, a tenth", "on, all"]
    assert all(each["p50"] > 0 for each in found.values())


def test_what_if_measures_contexts_that_are_assembled_again() -> None:
    found = figures("what_if", "--memories", "50", "--expectations", "5")
    assert {name.split(",")[0] for name in found} == {"what-if of 5 contexts", "check of 5 expectations"}
