"""Kinds of speech in messages, sentence by sentence (SPEC L6)."""

from datetime import UTC, datetime

import pytest

from conversations.domain.statements.kinds import Speech, Spoken
from conversations.domain.statements.persons import is_of_relation, spoken_about
from conversations.domain.statements.plays import is_of_fiction
from conversations.domain.statements.speech import is_hedged, sentences_of
from conversations.domain.statements.talk import agrees, asks_for_detail, reports_talk

AT = datetime(2026, 3, 4, 10, tzinfo=UTC)


def kinds(*texts: str) -> list[list[tuple[str, Speech]]]:
    said = [Spoken(text.removeprefix("a:"), not text.startswith("a:"), AT) for text in texts]
    return [[(each.text, each.speech) for each in message] for message in sentences_of(said)]


@pytest.mark.parametrize(
    ("text", "speech"),
    [
        ("I live in Otaru.", Speech.OWN), ("京都に住んでいます。", Speech.OWN), ("If I ask for code, use Python.", Speech.OWN),
        ("If I ever move, I want a dog.", Speech.HYPOTHESIS), ("もし引っ越したら犬を飼いたい。", Speech.HYPOTHESIS),
        ("Is it far to Nara?", Speech.QUESTION), ("Should I get a cat?", Speech.QUESTION), ("奈良は遠いですか", Speech.QUESTION),
        ("Is there a shop near my office in Nara?", Speech.OWN), ("奈良の自宅の近くに店はありますか", Speech.OWN),
        ("The hero lives in Prague.", Speech.FICTION), ("主人公はパリに住む。", Speech.FICTION),
        ("I won a million. Just kidding.", Speech.JOKE), ("I turn 104 today (in printer years).", Speech.JOKE),
        ("本日104歳です（プリンター年齢で）。", Speech.JOKE), ("ok so scene: a ship, all alarms on.", Speech.ROLE_PLAY),
        ("場面は宇宙船、警報が鳴っている。", Speech.ROLE_PLAY), ("> I moved to Kyoto.", Speech.QUOTATION),
        ("From: Tom", Speech.QUOTATION), ("Let's role-play a king.", Speech.ROLE_PLAY),
    ],
)  # fmt: skip
def test_the_kind_of_a_sentence(text: str, speech: Speech) -> None:
    assert kinds(text)[0][0][1] is speech


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Translate this: I was born in Paris.", [("Translate this:", Speech.OWN), ("I was born in Paris.", Speech.QUOTATION)]),
        ("My novel begins:\nI was born in Paris.", [("My novel begins:", Speech.FICTION), ("I was born in Paris.", Speech.FICTION)]),
        ("My name: Anna", [("My name:", Speech.OWN), ("Anna", Speech.OWN)]),
        ('She says "I was born in Paris" a lot', [("I was born in Paris", Speech.QUOTATION), ("She says a lot", Speech.OWN)]),
        ("「猫を二匹飼っていて海が好き」を訳して", [("猫を二匹飼っていて海が好き", Speech.QUOTATION), ("を訳して", Speech.OWN)]),
        ('I read "Norwegian Wood".', [('I read "Norwegian Wood".', Speech.OWN)]),
        ("In my story a king dies. The castle burns. I write on the bus.", [
            ("In my story a king dies.", Speech.FICTION), ("The castle burns.", Speech.FICTION), ("I write on the bus.", Speech.OWN),
        ]),
        ("Dear all,\nI moved.\nRegards,\nTom\n\nI work on floor 3.", [
            ("Dear all,", Speech.QUOTATION), ("I moved.", Speech.QUOTATION), ("Regards,", Speech.QUOTATION), ("I work on floor 3.", Speech.OWN),
        ]),
        ("Dear all,\nI moved.\nRegards,\nWhat shall I say?", [
            ("Dear all,", Speech.QUOTATION), ("I moved.", Speech.QUOTATION), ("Regards,", Speech.QUOTATION), ("What shall I say?", Speech.QUESTION),
        ]),
    ],
)  # fmt: skip
def test_the_sentences_of_a_message(text: str, found: list[tuple[str, Speech]]) -> None:
    assert kinds(text) == [found]


def test_a_role_play_lasts_until_it_is_over() -> None:
    found = kinds(
        "Let's role-play: I'm the king.",
        "a:Your majesty!",
        "I have twelve horses.",
        "End of role play. I live in Nara.",
        "I sing.",
    )
    assert [[speech for _text, speech in message] for message in found] == [
        [Speech.ROLE_PLAY] * 2, [], [Speech.ROLE_PLAY], [Speech.OWN] * 2, [Speech.OWN]
    ]  # fmt: skip
    again = kinds("Back to reality. Let's role-play a king.", "I have twelve horses.")
    assert [speech for _text, speech in again[1]] == [Speech.ROLE_PLAY]


def test_what_goes_on_about_the_persons_of_a_story_is_of_it() -> None:
    found = kinds(
        "My novel is about 竜馬.",
        "He finds a violin.",
        "竜馬は船に乗る。",
        "昼は雨だった。",
        "Tom lives here.",
        "My hero: Kai.",
        "Kai sings.",
    )
    assert [message[-1][1] for message in found] == [
        Speech.FICTION, Speech.FICTION, Speech.FICTION, Speech.OWN, Speech.OWN, Speech.FICTION, Speech.FICTION
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "person"),
    [
        ("My brother works as a nurse.", "brother"), ("He lives in Nara.", ""), ("Tom said it.", "tom"), ("This works well.", None),
        ("My boss gave me a raise.", None), ("I live in Nara.", None), ("姉は看護師です。", "姉"), ("彼は医者だ。", ""), ("兄が私にくれた。", None),
        ("Today is fine.", None), ("Tom told me he is ill.", ""), ("トムが来ないって言ってた。", ""), ("新しい店の子、ハープを弾く。", "新しい店の子"),
    ],
)  # fmt: skip
def test_whom_a_sentence_is_about(sentence: str, person: str | None) -> None:
    assert spoken_about(sentence) == person


@pytest.mark.parametrize(
    ("text", "reports"),
    [
        ("The user asked about hash maps.", True), ("The user said goodbye.", True), ("The user wants to know how it works.", True),
        ("The user asked for information about tea.", True), ("The user lives in Nara.", False), ("The user wants short answers.", False),
        ("The user requested help, always in short sentences.", False), ("ユーザーは猫について質問した。", True), ("ユーザーはさようならと言った。", True),
        ("ユーザーは猫を飼っている。", False), ("庄司さんになって、優しくしないで。", True), ("返事は短くしてください。", False), ("猫は好きですか？", True), ("The user moved from <city> to <city>.", True), ("ユーザーは〈都市〉に住む。", True),
    ],
)  # fmt: skip
def test_reports_of_the_talk(text: str, reports: bool) -> None:
    assert reports_talk(text) is reports


@pytest.mark.parametrize(
    ("text", "takes_up"),
    [
        ("Yes, let's do that.", True),
        ("はい、お願いします", True),
        ("Yes, but not on Sunday.", False),
        ("Hm.", False),
        ("ok " * 40, False),
    ],
)
def test_agreement(text: str, takes_up: bool) -> None:
    assert agrees(text, "Shall I book it?") is takes_up
    assert not agrees(text, "It costs four euros.")


def test_words_of_statements() -> None:
    assert is_hedged("The user might move.") and not is_hedged("The user moved.")
    assert (
        is_of_fiction("The user writes a novel.")
        and is_of_fiction("ユーザーはロールプレイが好き。")
        and not is_of_fiction("The user sings.")
    )
    assert is_of_relation("The user's brother sings.") and not is_of_relation("The user sings.")
    assert (
        asks_for_detail("Where do you live?")
        and asks_for_detail("Tell me the size.")
        and not asks_for_detail("Do you sing?")
        and not asks_for_detail("I know where.")
    )
