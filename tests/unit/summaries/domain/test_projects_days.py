"""Sums of a day."""

from datetime import date

from django.utils import translation

from summaries.domain.projects import DayTotals, EventCount, describe_day, totals_by_day

MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)


def described(day: DayTotals, language: str = "en") -> str:
    with translation.override(language):
        return describe_day(day)


def test_days_are_summed_latest_first_and_what_names_no_project_counts_all_the_same() -> None:
    days = totals_by_day(
        [
            EventCount(MONDAY, "atlas", "read", "ok", 2, 300),
            EventCount(TUESDAY, "", "route", "ask", 1, 50),
            EventCount(TUESDAY, "atlas", "read", "ok", 1, 100),
        ]
    )
    assert [each.day for each in days] == [TUESDAY, MONDAY]
    assert (days[0].kinds, days[0].projects, days[0].tokens) == ({"route": 1, "read": 1}, {"atlas": 1}, 100)
    assert (days[1].projects, days[1].tokens) == ({"atlas": 2}, 300)


def test_a_day_is_described_with_outcomes_and_projects_or_as_nothing() -> None:
    counts = [EventCount(MONDAY, "atlas", "read", "ok", 2, 300), EventCount(MONDAY, "atlas", "route", "ask", 1, 50)]
    assert described(totals_by_day(counts)[0]) == (
        "2026-03-02: 2 reads, 1 message routed, 300 tokens read. Outcomes: message routed ask 1. Most with: atlas 3."
    )
    assert described(DayTotals(MONDAY), "ja") == "2026-03-02：プロジェクトの動きはありませんでした。"


def test_other_events_of_a_day_are_counted_together() -> None:
    counts = [EventCount(MONDAY, "atlas", "create", "ok", 1, 0), EventCount(MONDAY, "atlas", "merge", "ok", 1, 0)]
    (day,) = totals_by_day(counts)
    assert described(day) == "2026-03-02: 2 other events. Most with: atlas 2."
    assert described(day, "ja") == "2026-03-02：その他の操作2件。多かったプロジェクト：atlas 2。"


def test_outcomes_of_a_day_are_named_by_the_labels_that_are_given() -> None:
    (day,) = totals_by_day([EventCount(MONDAY, "atlas", "route", "route_and_disclose", 1, 0)])
    assert "message routed as a guess 1." in describe_day(day, outcome_labels={"route_and_disclose": "as a guess"})
