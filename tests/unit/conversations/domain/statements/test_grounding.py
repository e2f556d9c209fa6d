"""Statements and the messages that support them, or do not (SPEC L6)."""

import re
from datetime import UTC, datetime

import pytest

from bench.extraction import HALVES, LANGUAGES, measure, stories
from conversations.domain.statements.details import stated
from conversations.domain.statements.grounding import (
    COPIED,
    DENIED,
    LANGUAGE,
    UNSUPPORTED,
    Claim,
    Doubt,
    Evidence,
    Verdict,
)
from conversations.domain.statements.kinds import Speech, Spoken
from memoryhub.llm.prompts import FOLDER

AT = datetime(2026, 3, 4, 10, tzinfo=UTC)


def talk(*said: str, language: str = "") -> Evidence:
    """Return evidence of messages, `a:` the assistant's, `Ann:` those of a person in a group."""
    messages = []
    for each in said:
        author, _, text = each.partition(": ") if re.match(r"[A-Za-z]{1,5}: ", each) else ("", "", each)
        messages.append(Spoken(text, author != "a", AT, author if author != "a" else ""))
    return Evidence(tuple(messages), language)


@pytest.mark.parametrize(
    ("said", "text", "cited", "reason"),
    [
        (["I live in Otaru."], "The user lives in Otaru.", 0, None),
        (["I live in Otaru."], "The user lives in Osaka.", 0, "name"),
        (["Tell me about hash maps"], "The user is a vegetarian.", 0, UNSUPPORTED),
        (["I don't use Obsidian for notes."], "The user uses Obsidian for notes.", 0, DENIED),
        (["I don't live in Nara but in Otaru."], "The user lives in Otaru.", 0, None),
        (["I don't use Obsidian for notes."], "The user does not use Obsidian for notes.", 0, None),
        (["I don't use Obsidian."], "The user's brother uses Obsidian.", 0, Speech.OTHER_PERSON),
        (["Notionは使っていません。"], "ユーザーはNotionを使っている。", 0, DENIED),
        (["夜は塾の送り迎えで時間がない。"], "ユーザーは夜に塾の送り迎えをしている。", 0, None),
        (["札幌で働いています。"], "The user works in the city of Sapporo.", 0, LANGUAGE),
        (["My brother works as a nurse."], "The user works as a nurse.", 0, Speech.OTHER_PERSON),
        (["Meine Versicherungskarte liegt zu Hause."], "Die Versicherungskarte des Nutzers liegt zu Hause.", 0, None),
        (["Seit dem 3. März wohne ich in Köln."], "Der Benutzer wohnt seit dem 3. März 2026 in Köln.", 0, None),
        (["Ich wohne in Köln."], "Der Benutzer wohnt in Bonn.", 0, "name"),
        (["Nächsten Dienstag kommt Zoë um halb acht."], "Zoë kommt am Dienstag, dem 10. März 2026, um 7:30 Uhr.", 0, None),
        (["In drei Wochen ziehe ich nach Köln."], "Der Nutzer zieht am 25. März 2026 nach Köln.", 0, None),
        (["Am 3. Mai ziehe ich nach Köln."], "Der Nutzer zieht am 3. Mai nach Köln.", 0, None),
        (["Am 3. Mai ziehe ich nach Köln."], "Der Nutzer zieht am 4. Mai nach Köln.", 0, "date"),
        (["He works as a nurse."], "The user works as a nurse.", 0, Speech.OTHER_PERSON),
        (["Tom works as a nurse."], "The user knows that Tom works as a nurse.", 0, None),
        (["My brother works as a nurse."], "The user's brother works as a nurse.", 0, None),
        (["I promised Nora a cake without eggs."], "I promised Nora a cake", 0, COPIED),
        (["I promised Nora a cake without eggs."], "I promised Nora cake and eggs", 0, COPIED),
        (["私は犬と散歩をしています。"], "私は犬と毎日散歩をしている。", 0, COPIED),
        (["I am a physio, nine years now, and I love it."], "The user loves it.", 0, COPIED),
        (["I am a physio, nine years now, and I love it."], "The user has loved being a physio for nine years.", 0, None),
        (["整体師です。好きでやっています。"], "ユーザーはそれが好きです。", 0, COPIED),
        (["If money were no object I'd live on a barge."], "The user plans to live on a barge.", 0, Speech.HYPOTHESIS),
        (["If money were no object I'd live on a barge."], "The user would live on a barge if money allowed.", 0, None),
        (["I might move to Nara in May, if they pay."], "The user plans a move to Nara in May.", 0, None),
        (["Our daughter is small, and I go back to work on the 20th."], "Daughter goes to work on the 20th.", 0, Speech.OTHER_PERSON),
        (["Our daughter is small, and she goes to a nursery."], "The user's daughter goes to a nursery.", 0, None),
        (["I take my daughter to the nursery."], "The user's daughter goes to the nursery.", 0, None),
        (["娘は七か月です。私は二十日から図書館に戻ります。"], "娘は二十日から図書館に戻る。", 0, Speech.OTHER_PERSON),
        (["I call grandma in Split on Sundays, she turns 90 in May."], "The user calls grandma in Split and turns 90 in May.",
         0, Speech.OTHER_PERSON),
        (["I call grandma in Split on Sundays and swim in May."], "The user calls grandma in Split and swims in May.", 0, None),
        (["I keep cats and dogs in Split."], "The user keeps cats and dogs in Split.", 0, None),
        (["Translate for my neighbour, I drive her there."], "The user owns a neighbour.", 0, UNSUPPORTED),
        (["I bought my neighbour's car."], "The user bought their neighbour's car.", 0, None),
        (["Nora is allergic to eggs."], "She is allergic to eggs.", 0, COPIED), (["乃愛は卵アレルギー。"], "彼女は卵アレルギーがある。", 0, COPIED),
        (["新人に会った。彼はフィンランド人でホッケーをやってる。"], "フィンランド人のユーザーであり、ホッケーをやってる。", 0, Speech.OTHER_PERSON),
        (["お隣さんに訳して。Dear Ms Lund, your operation is on 3 May. You are allergic to latex."],
         "The user is a friendly and helpful individual.", 0, UNSUPPORTED),
        (["お隣さんに訳して。Dear Ms Lund, your operation is on 3 May. You are allergic to latex."],
         "The user is allergic to latex.", 0, Speech.QUOTATION),
        (["Keith offers 900 for the cello.", "I sell it because I switched to bass."], "Keith switched to bass.", 1, Speech.OTHER_PERSON),
        (["At home Keith plays his cello, I listen."], "Keith plays the cello at home.", 0, None),
        (["I walk my dog at six."], "walk my dog", 0, COPIED), (["Ann: I walk my dog.", "Ben: Ok"], "Ann: I walk my dog.", 0, None),
        (["I walk my dog at six."], "The user likes walking the dog.", 0, UNSUPPORTED),
        (["I love walking my dog."], "The user likes walking the dog.", 0, None),
        (["My story has a hero who walks."], "The user likes a story whose hero walks.", 0, None),
        (["If I move I want a dog."], "The user wants a dog if they move.", 0, None),
        (["If I move I want a dog."], "The user has a dog.", 0, Speech.HYPOTHESIS),
        (["The hero lives in Prague."], "The hero of the user's story lives in Prague.", 0, None),
        (["Where do you live?", "a: I live nowhere."], "The user is in Nara.", 0, "name"),
        (["a: Where do you work?", "In Nara, as a cook."], "The user works in Nara.", 1, None),
        (["a: You could take the 9:15 train to Nara.", "Yes, let's do that."], "The user takes the 9:15 train to Nara.", 1, None),
        (["Ann: I am vegan", "Ben: I eat nuts"], "Ann is vegan.", 0, None),
        (["Ann: I am vegan", "Ben: I eat nuts"], "Ann eats nuts.", 1, Speech.OTHER_PERSON),
        (["Ann: I am vegan", "Ben: Ann eats nuts"], "Ann eats nuts.", 1, None),
        (["I play something on the phone.", "a: You said on the phone that you also play the violin and the drums."],
         "The user plays the violin and the drums on the phone.", 0, Speech.ASSISTANT),
    ],
)  # fmt: skip
def test_a_statement_holds_or_waits(said: list[str], text: str, cited: int, reason: str | None) -> None:
    verdict = talk(*said).check(text, [cited])
    assert (verdict.doubt and verdict.doubt.reason, verdict.falls) == (reason, False)


@pytest.mark.parametrize(
    ("said", "text", "cited"),
    [
        (["What now?", "a: You could learn the piano on Sundays.", "Hm."], "The user plays the piano on Sundays.", [2]),
        (["Tell me about hash maps"], "The user asked about hash maps.", [0]),
        (["Hello.", "a: Good morning."], "The user is tall.", [1]),
        (["a: Good morning."], "The user is tall.", [0]),
    ],
)
def test_a_statement_falls(said: list[str], text: str, cited: list[int]) -> None:
    assert talk(*said).check(text, cited).falls


@pytest.mark.parametrize("speech", [Speech.TALK, Speech.ASSISTANT])
def test_the_models_own_word_lets_a_statement_fall(speech: Speech) -> None:
    assert talk("I live in Otaru.").check("The user lives in Otaru.", [0], speech=speech).falls


def test_the_models_own_word_lets_a_statement_wait() -> None:
    verdict = talk("I live in Otaru.").check("The user lives in Otaru.", [0], speech="joke")
    assert verdict == Verdict((0,), Doubt("joke"))


def test_a_wrong_citation_is_corrected() -> None:
    evidence = talk("Hello.", "I live in Otaru.", "a: Nice.", "My dog Taro is three.", "Bye.")
    assert [evidence.check("The user lives in Otaru.", cited).places for cited in ([0], [2], [4], [1], [])] == [
        (1,)
    ] * 5
    assert evidence.check("The user lives in Otaru with the dog Taro.", [1]).places == (1, 3)
    many = talk(*(f"I know Name{number}." for number in "abcdefgh"))
    people = ", ".join(f"Name{number}" for number in "abcdefgh")
    assert len(many.check(f"The user knows {people}.", [0]).places) == 6


def test_a_language_that_is_asked_for() -> None:
    evidence = talk("札幌で働いています。", language="en")
    assert evidence.check("The user works as a nurse in the north.", [0]).doubt is None
    assert evidence.check("ユーザーは札幌で働いている。", [0]).doubt == Doubt(LANGUAGE)


def test_details_of_summaries_and_episodes() -> None:
    evidence = talk("Ann: I moved to Otaru.", "a: The rent is 60,000 yen.")
    assert evidence.doubt_details("Ann moved to Otaru for 60,000 yen. オブシディアン") is None
    assert evidence.doubt_details("Ann moved to Osaka.") == Doubt("name", "Osaka")


def test_a_statement_without_words() -> None:
    assert Claim("The user.").share({"a"}) == Claim("The user.").support(set(), talk().offered_by_all) == 0.0


BOUNDS = {
    "tuning": (0, 0, 3), "held_out": (3, 1, 9), "fresh": (3, 1, 9), "single": (0, 0, 0), "blind": (1, 1, 2), "sealed": (0, 5, 1), "last": (0, 4, 2), "next": (3, 1, 3)
}  # fmt: skip
"""Most true statements held back, false ones stored and citations misplaced, of both languages (bench/RESULTS.md)."""


@pytest.mark.parametrize("half", HALVES)
def test_the_stories_are_judged_as_well_as_they_were(half: str) -> None:
    results = [measure(stories(half, language)) for language in LANGUAGES]
    held, stored, misplaced = BOUNDS[half]
    assert sum(len(result.held) for result in results) <= held
    assert sum(len(result.stored) for result in results) <= stored
    assert sum(len(result.misplaced) for result in results) <= misplaced


QUOTED = re.compile(r"\"([^\"\n]*)\"|“([^”\n]*)”|「([^」\n]*)」")
"""All quoted texts, short ones too: what stands between two of them is no example."""


def quoted_examples(prompt: str) -> list[str]:
    """Return the quoted sentences of a prompt."""
    texts = (next(filter(None, match), "") for match in QUOTED.findall(prompt))
    return [text for text in texts if len(text) >= (12 if text.isascii() else 8)]


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.txt")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_examples_of_a_prompt_are_refused_and_name_nothing(path: object) -> None:
    """Small models repeat the examples of their prompt as answers."""
    evidence = talk("Tell me about hash maps.", "a: They have no order.", "天気を教えて。")
    text = path.read_text(encoding="utf-8")  # type: ignore[attr-defined]
    for example in quoted_examples(text):
        verdict = evidence.check(example, [0])
        assert verdict.falls or verdict.doubt is not None, example
        assert [each.text for each in stated(example) if each.kind in ("name", "date", "address")] == [], example
