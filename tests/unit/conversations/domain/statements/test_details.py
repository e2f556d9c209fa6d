"""Details that a statement has and its messages lack (SPEC L6)."""

from datetime import date

import pytest

from conversations.domain.statements.details import Offered, stated, without_counts

SAID_ON = date(2026, 3, 4)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("My daughter Emi was born two years ago, on 12 March at half past seven", "The user's daughter Emi was born on 12 March 2024 at 7:30."),
        ("mail me at a.b@c.org or see https://www.c.org/x/", "The user's address is a.b@c.org, the site is c.org/x."),
        ("it is in ~/notes/plan.md, ask @kana", "The notes are in ~/notes/plan.md, and @kana knows."),
        ("I'm 36 and have two cats, choir is on Thursday", "The user was born in 1990 and has 2 cats; choir is on Thursdays."),
        ("the Satos live in italy", "Sato lives in Italy."),
        ("昨年11月に引っ越した、家賃は8万5千円", "ユーザーは2025年11月に引っ越した。家賃は85,000円。"),
        ("犬のポチとピアノ", "ユーザーは犬のポチとピアノが好き。"),
    ],
)  # fmt: skip
def test_details_that_were_said(said: str, text: str) -> None:
    offered = Offered.of(said, SAID_ON)
    assert [detail.text for detail in stated(text) if not offered.has(detail)] == []


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("The user lives in Osaka.", "name", "Osaka"), ("The user has 3 dogs.", "number", "3"),
        ("The user moved on 12 March 2026.", "date", "12 March 2026"), ("The user gets up at 5:45.", "time", "5:45"),
        ("The user sings on Fridays.", "weekday", "Friday"), ("The user's address is x@y.org.", "address", "x@y.org"),
        ("ユーザーは大阪に住む。", "name", "大阪"), ("ユーザーはピアノを弾く。", "loanword", "ピアノ"),
        ("The user is Italian.", "name", "Italian"), ("The user walks 6 miles.", "number", "6 miles"), ("家賃は6万円だ。", "number", "6万円"),
    ],
)  # fmt: skip
def test_details_that_were_not_said(text: str, kind: str, shown: str) -> None:
    offered = Offered.joined(
        [
            Offered.of("I live in Otaru. 小樽です。 At six I walk 20 km for £5, 60000 steps", SAID_ON),
            Offered.of("", SAID_ON),
        ]
    )
    (missing,) = [detail for detail in stated(text) if not (offered.has(detail) and offered.has_unit(detail))]
    assert (missing.kind, missing.text) == (kind, shown)


def test_a_text_without_counts() -> None:
    assert without_counts("On 4 March 2026 at 7:30, three cats of 1999").split() == ["on", "at", ",", "cats", "of"]
