"""What another person said or is, in sentences without a subject (SPEC L6)."""

from datetime import UTC, datetime

import pytest

from conversations.domain.statements.grounding import Evidence
from conversations.domain.statements.kinds import Sentence, Speech, Spoken
from conversations.domain.statements.reports import with_reports

AT = datetime(2026, 3, 4, 10, tzinfo=UTC)


def kinds(*texts: str) -> list[Speech]:
    return [each.speech for each in with_reports(Sentence(text, Speech.OWN) for text in texts)]


@pytest.mark.parametrize(
    "texts",
    [
        ("Mum rang this morning.", "Sold the car, took up judo."),
        ("Just off the phone with my brother.", "New flat, two dogs."),
        ("Met the new colleague.", "Two cats, a boat."),
        ("A client told everybody about her walk.", "Lost a shoe."),
        ("新人に会った。", "猫が二匹。"),
        ("弟から電話があった。", "会社をやめて島に移る。"),
        ("同僚が週末は釣りばかりって。", "船もある。"),
    ],
)
def test_what_follows_the_mention_of_a_call_is_the_callers(texts: tuple[str, ...]) -> None:
    assert kinds(*texts) == [Speech.OTHER_PERSON] * 2
    assert kinds(*texts, "I envy them.", "Rain again.")[2:] == [Speech.OWN] * 2


@pytest.mark.parametrize(
    "heading",
    ["Participant 4.", "Client call notes:", "Intake summary", "相談者3", "面談メモ", "Write a reference for Dana."],
)
def test_a_record_is_material_until_the_writer_speaks(heading: str) -> None:
    assert kinds(heading, "Sleeps badly since May.", "I have two more of these.") == [
        Speech.QUOTATION, Speech.QUOTATION, Speech.OWN
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Lives by the sea and hates wind.",
        "来月から海外に行くらしい。",
        "もう帰ったんだって",
        "瑠美は島に住みたがってる",
    ],
)
def test_hearsay_and_sentences_without_a_subject(text: str) -> None:
    assert kinds(text) == [Speech.OTHER_PERSON]


@pytest.mark.parametrize(
    "text", ["I know she lives by the sea.", "薬を飲まないといけないんだって", "My dog needs a bath."]
)
def test_own_sentences_stay_own(text: str) -> None:
    assert kinds(text) == [Speech.OWN]


def test_other_kinds_are_kept() -> None:
    (found,) = with_reports([Sentence("Dad rang.", Speech.JOKE)])
    assert found.speech is Speech.JOKE


def test_a_relation_of_the_user_is_known_from_hearsay_but_not_from_a_record() -> None:
    heard = Evidence((Spoken("Off the phone with my sister. Sold the house, keeps the boat.", True, AT),))
    assert heard.check("The user sold the house.", [0]).doubt is not None
    assert heard.check("The user's sister sold the house.", [0]).doubt is None
    assert heard.check("The user lost his sister.", [0]).doubt is not None
    record = Evidence((Spoken("Customer call summary: Mrs Orr, husband broke a hip in May.", True, AT),))
    assert record.check("The user's husband broke a hip in May.", [0]).doubt is not None
