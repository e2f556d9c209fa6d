"""Google's activity log as HTML: dates in words, and cells however they are cut."""

import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.importexport.foreign.formats import activity_html, gemini
from memoryhub.importexport.foreign.formats.activity_html import activities, parse_date

CELL = (
    '<div class="outer-cell mdl-cell"><div class="mdl-grid"><div class="header-cell"><p class="mdl-typography--title">'
    '{product}<br></p></div><div class="content-cell mdl-cell mdl-cell--6-col mdl-typography--body-1">{title}<br>{date}<br>'
    '<p>{answer}</p></div><div class="content-cell mdl-typography--caption"><b>Products:</b></div></div></div>'
)


def page(*cells: str) -> bytes:
    return ("<!doctype html><html><body>" + "".join(cells) + "</body></html>").encode()


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("Feb 17, 2026, 10:05:10\u202fPM JST", datetime(2026, 2, 17, 13, 5, 10, tzinfo=UTC)),
        ("May 19, 2026, 7:07:02 PM GMT-03:00", datetime(2026, 5, 19, 22, 7, 2, tzinfo=UTC)),
        ("18 Sept 2025, 12:02:52 CET", datetime(2025, 9, 18, 11, 2, 52, tzinfo=UTC)),
        ("10 de mai. de 2026, 03:46:09 BRT", datetime(2026, 5, 10, 6, 46, 9, tzinfo=UTC)),
        ("2026年6月19日 12:23:08 CST", datetime(2026, 6, 19, 4, 23, 8, tzinfo=UTC)),
        ("2026/02/17 22:05:10 JST", datetime(2026, 2, 17, 13, 5, 10, tzinfo=UTC)),
        ("4 juli 2026 09:15:00 CEST", datetime(2026, 7, 4, 7, 15, tzinfo=UTC)),
        ("3 juin 2026, 12:00:00 UTC", datetime(2026, 6, 3, 12, tzinfo=UTC)),
        ("31 Feb 2026, 12:00:00 UTC", None),
        ("17 zzz 2026, 12:00:00", None),
        ("Which tea at 12:00:00?", None),
        ("Feb 17, 2026, 10:05:10 PM JST" + " " * 80, None),
    ],
)
def test_dates_are_read_in_common_languages(text: str, time: datetime | None) -> None:
    assert parse_date(text) == time


def test_a_log_is_read_as_its_json() -> None:
    asked = CELL.format(
        product="Gemini Apps", title="Prompted&nbsp;Which tea?<br>And why?", date="Feb 17, 2026, 10:05:10 PM JST",
        answer="Green &amp; hot",
    )  # fmt: skip
    undated = CELL.format(product="Gemini Apps", title="Prompted&nbsp;Hi", date="soon", answer="Hello")
    first, second = activities(io.BytesIO(page(asked, undated)))
    assert gemini.read_activity(first.value)[0:1] + gemini.read_activity(first.value)[3:5] == (
        "2026-02-17", "Which tea?\nAnd why?", "Green & hot",
    )  # fmt: skip
    assert (first.entry, second.entry, second.value["time"]) == (1, 2, None)


@given(st.integers(1, 60), st.integers(0, 5))
def test_cells_are_found_however_the_file_is_cut(size: int, count: int) -> None:
    cells = [
        CELL.format(product="Bard", title=f"Asked {n}", date="2026/02/17 22:05:10", answer=n) for n in range(count)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(activity_html, "CHUNK_BYTES", size)
        found = [element.value["title"] for element in activities(io.BytesIO(page(*cells)))]
    assert found == [f"Asked {n}" for n in range(count)]


@given(st.text('<>div class="outer-cellbr/&; 0:9年PM', max_size=80))
def test_any_page_is_read(text: str) -> None:
    for element in activities(io.BytesIO(activity_html.CELL + text.encode())):
        assert element.problem or element.value["header"] is not None
