"""What a model may not store as a summary (SPEC U10)."""

from datetime import UTC, datetime

import pytest

from conversations.domain.statements.languages import Writing
from summaries.domain.faults import Fault, fault_of
from summaries.domain.summaries import Call, SpokenMessage, transcript_line

AT = datetime(2026, 3, 4, 10, tzinfo=UTC)
ENGLISH, JAPANESE = Writing("en", "en"), Writing("ja", "ja")
TALK = [
    "I moved to Otaru last week and I am looking for a dentist who speaks English.",
    "There is a clinic near the canal; shall I book a visit on Friday, 6 March?",
    "Yes please, in the morning, and tell them that I am afraid of needles.",
]
TALK_JA = [
    "先週小樽に引っ越しました。英語の話せる歯医者を探しています。",
    "運河の近くに歯科があります。金曜に予約しますか。",
    "はい、午前中にお願いします。注射が怖いと伝えてください。",
]


def call(*texts: str, previous: str = "") -> Call:
    messages = tuple(
        SpokenMessage(n, "user" if n % 2 else "assistant", "", text, AT) for n, text in enumerate(texts, 1)
    )
    return Call(previous, tuple(transcript_line(message, None) for message in messages), messages)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("The user moved to Otaru and needs an English-speaking dentist. A visit on 6 March was agreed.", None),
        ("They talked.", None),
        ("The two of them settled three points about the dentist.", None),
        (" ".join(TALK), Fault.REPEATS),
        ("user: I moved to Otaru.\nassistant: There is a clinic.", Fault.REPEATS),
        ("[2026-03-04 Wed 10:00] user: Otaru.\n[10:01] assistant: A clinic.", Fault.REPEATS),
        ("As an AI language model I cannot book a dentist.", Fault.INSTRUCTIONS),
        ("The summary has at most 250 words about the dentist.", Fault.INSTRUCTIONS),
        ("The user moved and is looking for a dentist. " * 60, Fault.TOO_LONG),
        ("小樽に引っ越し、歯医者を探している。", Fault.LANGUAGE),
        ("Several topics were covered, and ideas exchanged between both parties.", Fault.EMPTY),
        ("The user moved to Osaka and needs a dentist.", Fault.UNGROUNDED),
        ("The user moved to Otaru; the dentist costs 9,500 yen.", Fault.UNGROUNDED),
        ("A visit to the dentist on 21 April was agreed.", Fault.UNGROUNDED),
    ],
)
def test_faults_of_a_summary(text: str, fault: Fault | None) -> None:
    assert fault_of(text, call(*TALK), most_tokens=500, written=ENGLISH) == fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("小樽に引っ越し、英語の話せる歯医者を探している。金曜の午前に予約する。", None),
        ("".join(TALK_JA), Fault.REPEATS),
        ("ご要望の要約を300字以内でまとめます。", Fault.INSTRUCTIONS),
        ("歯医者を探している。" * 60, Fault.TOO_LONG),
        ("The user moved to the north and is looking for a dentist.", Fault.LANGUAGE),
        ("大阪に引っ越し、歯医者を探している。", Fault.UNGROUNDED),
    ],
)
def test_faults_of_a_japanese_summary(text: str, fault: Fault | None) -> None:
    assert fault_of(text, call(*TALK_JA), most_tokens=500, written=JAPANESE) == fault


def test_what_the_summary_before_says_may_be_kept() -> None:
    before = "The user lived in Nara until 2024 and has a dog that is called Taro, who is afraid of water and of cats."
    assert fault_of(before, call(*TALK, previous=before), most_tokens=500, written=ENGLISH) is None


def test_a_digest_may_repeat_its_summaries() -> None:
    summaries = tuple(SpokenMessage(n, "", "2026-03-04", text, AT) for n, text in enumerate(TALK))
    digest = Call("", tuple(TALK), summaries)
    assert fault_of(" ".join(TALK), digest, most_tokens=500, written=ENGLISH) is None


def test_another_script_is_not_compared() -> None:
    english = Writing("en", "en")
    assert (
        fault_of("The user moved to Osaka and is in the city.", call(*TALK_JA), most_tokens=500, written=english)
        is None
    )


def test_a_language_that_is_not_known_is_not_asked_for() -> None:
    assert fault_of("小樽に引っ越した。", call("Otaru"), most_tokens=500, written=Writing("", "en")) is None
