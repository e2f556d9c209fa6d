"""Summaries of chosen sentences: two small conversations, and what must hold of any (SPEC U6)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.llm.tokens import count_raw
from summaries.domain.extractive import MAX_SENTENCE_WORDS, MAX_SENTENCES, extract, sentences
from summaries.domain.summaries import GAP, Call, SpokenMessage

AT = datetime(2026, 3, 1, tzinfo=UTC)

LISBON = """\
user: Hi Kana!
assistant: Hello! How can I help you today?
user: I want to plan the offsite in Lisbon for the design team in May.
assistant: Great. How many people will travel to Lisbon, and what is the budget?
user: Twelve people. The budget is 18,000 euros.
assistant: With 18,000 euros a venue near Alfama is possible. I found two: Casa Azul and the Miradouro loft.
user: Casa Azul has no step-free entrance, and Mei uses a wheelchair.
assistant: Then the Miradouro loft is better; it has a lift.
user: OK, we decided: the Miradouro loft, from 12 to 15 May.
assistant: I will ask them for an offer by Friday.
user: Thanks!
assistant: You are welcome.
user: One thing is open: who books the flights, us or the agency?
assistant: Let us settle that in the next call.
user: Bye"""

KYOTO = """\
user: こんにちは。
assistant: こんにちは！今日はどうしましたか？
user: 来月、大阪から京都へ引っ越すことになりました。ペット可の部屋を探しています。
assistant: 猫を飼っているのですね。予算と希望の地域を教えてください。
user: 予算は月八万円で、出町柳の近くがいいです。猫の名前はきなこです。
assistant: 出町柳なら、ペット可で七万五千円の部屋が二つあります。
user: 一つ目は駅から遠いですね。二つ目の部屋にします。
assistant: わかりました。内見は土曜日の十時に予約します。
user: はい。
assistant: 他に心配なことはありますか？
user: きなこを電車で運ぶか、車で運ぶか、まだ決めていません。
assistant: 電車なら二時間以内です。次回、一緒に確認しましょう。
user: ありがとう！"""


def call_of(conversation: str, previous: str = "") -> Call:
    pairs = [line.split(": ", 1) for line in conversation.splitlines()]
    said = tuple(SpokenMessage(seq, role, "", text, AT) for seq, (role, text) in enumerate(pairs, start=1))
    return Call(previous, tuple(f"{each.role}: {each.text}" for each in said), said)


def summary_of(conversation: str, language: str, *, tokens: int = 500, previous: str = "") -> str:
    return extract(call_of(conversation, previous), language=language, most_tokens=tokens, count=count_raw)


@pytest.mark.parametrize(
    ("conversation", "language", "tokens", "told", "left_out"),
    [
        (LISBON, "en", 500,
         ["User: I want to plan the offsite in Lisbon for the design team in May.", "Mei uses a wheelchair",
          "User: OK, we decided: the Miradouro loft, from 12 to 15 May.", "who books the flights", "offer by Friday"],
         ["Hi Kana", "How can I help", "Thanks", "welcome", "Bye", "How many people"]),
        (LISBON, "en", 100, ["offsite in Lisbon", "we decided: the Miradouro loft", "who books the flights"], ["Hello"]),
        (KYOTO, "ja", 500,
         ["ユーザー: 来月、大阪から京都へ引っ越すことになりました。", "予算は月八万円", "二つ目の部屋にします",
          "アシスタント: 内見は土曜日の十時に予約します。", "まだ決めていません"],
         ["こんにちは", "ありがとう", "はい。", "心配なことは", "教えてください"]),
        (KYOTO, "ja", 100, ["大阪から京都へ引っ越す", "二つ目の部屋にします", "まだ決めていません"], ["こんにちは"]),
    ],
)  # fmt: skip
def test_what_was_decided_and_what_is_open_is_told_and_greetings_are_not(
    conversation: str, language: str, tokens: int, told: list[str], left_out: list[str]
) -> None:
    text = summary_of(conversation, language, tokens=tokens)

    assert [part for part in told if part not in text] == []
    assert [part for part in left_out if part in text] == []
    assert count_raw(text) <= tokens and len(text.splitlines()) <= MAX_SENTENCES


@pytest.mark.parametrize(("conversation", "language"), [(LISBON, "en"), (KYOTO, "ja")])
def test_sentences_stand_in_the_order_in_which_they_were_said(conversation: str, language: str) -> None:
    lines = [line.split(": ", 1)[1] for line in summary_of(conversation, language).splitlines()]
    places = [conversation.index(line) for line in lines]
    assert places == sorted(places)


def test_what_was_said_twice_is_told_once() -> None:
    twice = "user: The train to Kanazawa leaves at nine.\n" * 4 + "user: Book the hotel near the station in Kanazawa."
    text = summary_of(twice, "en", tokens=30)
    assert text.count("leaves at nine") == 1 and "hotel" in text


def test_a_rolling_summary_keeps_how_it_began_and_how_it_stands() -> None:
    first = summary_of(LISBON, "en", tokens=80)
    later = (
        "user: The agency books the flights, we decided that today.\nassistant: Then everything for Lisbon is settled."
    )
    rolled = summary_of(later, "en", tokens=80, previous=first)
    assert "offsite in Lisbon" in rolled and "The agency books the flights" in rolled
    assert "User: User:" not in rolled


def test_names_go_before_roles() -> None:
    said = (SpokenMessage(1, "assistant", "Yuno", "The release is planned for Friday in Kyoto.", AT),)
    call = Call("", ("x",), said)
    text = extract(call, language="en", most_tokens=100, count=count_raw)
    assert text == "Yuno: The release is planned for Friday in Kyoto."


def test_where_nobody_said_more_than_hello_the_first_message_stands() -> None:
    assert summary_of("user: Hi\nassistant: Hello!", "en") == "user: Hi"


def test_a_sentence_without_an_end_is_shortened_where_everybody_sees_it() -> None:
    text = summary_of("user: " + "harbour train lantern " * 400, "en")
    assert GAP in text and count_raw(text) <= MAX_SENTENCE_WORDS + 5


def test_unknown_roles_and_languages_are_written_as_they_are() -> None:
    call = Call("", ("x",), (SpokenMessage(1, "narrator", "", "The lantern festival begins on Friday.", AT),))
    text = extract(call, language="fr", most_tokens=100, count=count_raw)
    assert text.startswith("narrator: ")


@given(st.lists(st.text(min_size=1, max_size=200), min_size=1, max_size=12), st.integers(20, 200))
def test_of_any_conversation_it_is_within_the_limit_and_says_something(batch: list[str], tokens: int) -> None:
    said = tuple(SpokenMessage(seq, "user", "", text, AT) for seq, text in enumerate(batch, start=1))
    call = Call("", ("user: something was said",), said)
    text = extract(call, language="en", most_tokens=tokens, count=count_raw)
    assert text.strip() and count_raw(text) <= tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Hi Dr. Smith. We use v1.2 now! Really?! Yes (it works. ok).",
            ["Hi Dr. Smith.", "We use v1.2 now!", "Really?!", "Yes (it works. ok)."],
        ),
        ("See example.org. It is 3.5 km, e.g. by bus.", ["See example.org.", "It is 3.5 km, e.g. by bus."]),
        (
            "はい。「行きます。」と言った。どうする？そうしよう！本当!?はい",
            ["はい。", "「行きます。」と言った。", "どうする？", "そうしよう！", "本当!?", "はい"],
        ),
        ("- first point\n- second point\n1. third", ["first point", "second point", "third"]),
        ("Before\n```\ncode. more code.\n```\nafter", ["Before", "after"]),
        ("... !!! 。。。", []),
        (") stray ) brackets. Still cut.", [") stray ) brackets.", "Still cut."]),
        ("", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected
