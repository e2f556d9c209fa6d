"""The benchmarks run, from the command line, on data of one's own: tiny here, so that nobody waits."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

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


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark as a person does; its installation is its own, whatever ours is."""
    ours = {"DATABASE_URL", "MEMORYHUB_DATA_DIR", "DJANGO_SETTINGS_MODULE"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(
        [sys.executable, f"bench/{name}.py", *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def figures(name: str, *arguments: str) -> dict[str, Any]:
    done = run(name, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_retrieval_measures_both_kinds_of_data(tmp_path: Path) -> None:
    dialogues, paragraphs = tmp_path / "dialogues.json", tmp_path / "paragraphs.json"
    dialogues.write_text(json.dumps([DIALOGUE]))
    paragraphs.write_text(json.dumps(PARAGRAPHS))

    told = json.dumps(figures("retrieval", str(dialogues), str(paragraphs)))

    assert '"recall@10": 1.0' in told
    assert "hashing" in told


def test_retrieval_refuses_what_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"notes": []}')

    done = run("retrieval", str(tmp_path / "notes.json"))

    assert done.returncode != 0
    assert "notes.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_latency_measures_and_draws(tmp_path: Path) -> None:
    sizes = ["--actors", "2", "--memories", "40", "--messages", "100", "--rounds", "3", "--ingest", "200"]

    found = figures("latency", *sizes, "--png", str(tmp_path / "growth.png"))

    assert [(each["rows"], each["laid"]) for each in found["by_size"]] == [
        (80, "as they came"),
        (80, "gathered"),
    ]
    assert found["ingestion"].keys() == {"plain INSERTs", "action", "HTTP"}
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("arguments", [["--actors", "none"], ["--rounds", "0"], ["--messages", "150"]])
def test_latency_refuses_what_it_cannot_do(arguments: list[str]) -> None:
    done = run("latency", *arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr
