"""A fact in the middle of a long text is found first, and a context quotes it, however long the text is."""

import json
import random
from collections.abc import Callable

import pytest
from django.core.cache import caches
from rest_framework.test import APIClient

API = "/api/v1"
WHO = {"agent_id": "ladder", "user_id": "mika"}
LENGTHS = (300, 1_000, 3_000, 10_000, 30_000, 90_000)
FACTS = (
    ("flowerpot", "The flowerpot is on the left windowsill. ", "Which windowsill is my flowerpot on?"),
    ("kettledrum", "The kettledrum was lent to Ingrid. ", "To whom was our kettledrum lent?"),
    ("passport", "The passport is kept in the green drawer. ", "Where is my passport kept?"),
    ("telescope", "The telescope cost four hundred crowns. ", "How much did our telescope cost?"),
    ("umbrella", "The umbrella was forgotten at the dentist. ", "Where was my umbrella forgotten?"),
    ("snowshoe", "A snowshoe broke on the way to Tromsø. ", "Where was it that my snowshoe broke?"),
)
JAPANESE_FACTS = (
    ("植木鉢", "植木鉢は左の窓辺に置いてある。", "うちの植木鉢はどこ？"),
    ("羅針盤", "羅針盤はイングリッドに貸した。", "私の羅針盤は誰に貸した？"),
    ("万年筆", "万年筆は緑の引き出しにしまった。", "私の万年筆は緑の引き出しにありますか？"),
    ("望遠鏡", "望遠鏡は四万円で買った。", "うちの望遠鏡は四万円でしたか？"),
    ("懐中時計", "懐中時計を歯医者に忘れた。", "私の懐中時計は歯医者に忘れましたか？"),
    ("鍵盤楽器", "鍵盤楽器は祖母から譲り受けた。", "うちの鍵盤楽器は誰から譲り受けた？"),
)
SYLLABLES = [first + vowel for first in "bdfgklmnprstv" for vowel in ("a", "e", "i", "o", "u", "an")]
KANJI = "会議予算課題計画資料担当確認報告来週部長施設改修費用検討委員設備地域交通"


def docs(chance: random.Random) -> str:
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(chance.randint(6, 16))]
    return f"The {' '.join(words)}. "


def log(chance: random.Random) -> str:
    path, code = "/".join(chance.choices(SYLLABLES, k=3)), chance.choice((200, 404, 500))
    return f"2026-05-01T10:{chance.randint(10, 59)}:07Z INFO worker-{chance.randint(1, 9)} GET /{path} {code}\n"


def prose(chance: random.Random) -> str:
    words = ["".join(chance.choices(KANJI, k=2)) for _ in range(6)]
    return f"{words[0]}の{words[1]}は{words[2]}と{words[3]}を{words[4]}に{words[5]}した。"


FILLERS: dict[str, Callable[[random.Random], str]] = {"docs": docs, "log": log, "prose": prose}


def text_around(said: str, filler: str, length: int, chance: random.Random) -> str:
    halves = ["", ""]
    for place in range(2):
        while len(halves[place]) < length / 2:
            halves[place] += FILLERS[filler](chance)
    return f"{halves[0]}{said}{halves[1]}".strip()


def store(client: APIClient, kind: str, texts: list[str]) -> None:
    if kind == "memory":
        for text in texts:
            answer = client.post(f"{API}/memories", {**WHO, "content": text})
            assert answer.status_code == 201, answer.content
        return
    session = client.post(f"{API}/sessions", WHO).json()["id"]
    batch = [{"role": kind, "content": text} for text in texts]
    answer = client.post(f"{API}/sessions/{session}/messages", {"messages": batch})
    assert answer.status_code == 201, answer.content


@pytest.mark.parametrize("kind", ["user", "assistant", "memory"])
@pytest.mark.parametrize("filler", FILLERS)
def test_a_fact_in_the_middle_of_a_text_is_found_first_and_quoted(client: APIClient, filler: str, kind: str) -> None:
    chance = random.Random(44)
    facts = JAPANESE_FACTS if filler == "prose" else FACTS
    texts = [text_around(facts[place][1], filler, length, chance) for place, length in enumerate(LENGTHS)]
    short = [FILLERS[filler](chance) for _ in range(40)]
    store(client, kind, [*short[:20], *texts, *short[20:]])

    missed = []
    for place, length in enumerate(LENGTHS):
        word, fact, sentence = facts[place]
        for question in (word, sentence):
            caches["default"].clear()
            body = {**WHO, "query": question, "include_messages": kind != "memory"}
            results = client.post(f"{API}/memories/search", body).json()["results"]
            first = (results[0].get("memory") or results[0].get("message"))["content"] if results else ""
            options = {"working_memory_limit": 1, "include_profile": False}
            context = client.post(f"{API}/context", {**WHO, "message": question, "options": options})
            shown = json.dumps(context.json(), ensure_ascii=False)
            found = (first == texts[place], fact.strip() in shown)
            if not all(found):
                missed.append((length, question, *found))
    assert not missed
