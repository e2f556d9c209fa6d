import json
from collections import Counter
from pathlib import Path

import pytest

from memoryhub.search.need import Wording, wording

WORDINGS = Path(__file__).parents[4] / "bench" / "wordings.json"
PERSONAL = [
    "Why did we push Kestrel back?", "What may I cook tonight?", "when is the dentist again", "Which tyres are on my car?",
    "母の誕生日はいつ?", "あさぎりの画面はどれで作るんだっけ。", "うちのプリンターがつながらない", "来週の会議は何時から?",
    "Write to the hotel in the style I like: 'We arrive late on Friday.'", "Когда у меня встреча?",
]  # fmt: skip
NAMED = [
    "Where does Claire work?",
    "What is the harbour like in Portland?",
    "When does Project Lantern start?",
]
OPEN = ["When does the museum expect the tickets?", "防災訓練は何月?", "Is salmon good for cats?"]
GENERAL = [
    "Thanks!", "おはようございます。", "Who discovered penicillin, and in which year?", "「膝が笑う」ってどういう意味？",
    "What is the difference between an allergy and an intolerance?", "図書館の歴史を教えて。", "なぜ空は青いの?",
    "Translate into French: 'We will meet at my house tomorrow.'", "次の文を英語に訳して。「私の母は来週来ます。」",
    "Tell me in general how bread is made.",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, Wording.PERSONAL) for text in PERSONAL),
        *((text, Wording.NAMED) for text in NAMED),
        *((text, Wording.OPEN) for text in OPEN),
        *((text, Wording.GENERAL) for text in GENERAL),
    ],
)
def test_wording_tells_whose_affairs_a_message_speaks_of(text: str, expected: Wording) -> None:
    assert wording(text) is expected


def test_turns_of_the_user_tell_what_a_message_leaves_open() -> None:
    assert wording("And the other one?") is Wording.GENERAL
    assert wording("And the other one?", [("assistant", "My pleasure."), ("user", "When is my launch?")]) is (
        Wording.PERSONAL
    )
    assert wording("And the other one?", [("assistant", "When is my launch?")]) is Wording.GENERAL


def test_turns_do_not_make_work_on_a_given_text_personal() -> None:
    assert wording("Translate 'the museum is closed'", [("user", "When is my launch?")]) is Wording.GENERAL


def test_code_says_nothing_about_whose_affairs_it_is() -> None:
    assert wording("```\nmy = our\n```\nWhat causes a stack overflow?") is Wording.GENERAL


def test_wording_of_a_list_of_messages() -> None:
    messages = json.loads(WORDINGS.read_text(encoding="utf-8"))
    shares = {name: Counter(map(wording, texts)) for name, texts in messages.items()}

    assert shares["need none"][Wording.PERSONAL] == 0
    assert shares["need none"][Wording.GENERAL] >= 45
    assert shares["need one"][Wording.GENERAL] == shares["in few words"][Wording.GENERAL] == 0
    assert shares["need one"][Wording.PERSONAL] >= 15
