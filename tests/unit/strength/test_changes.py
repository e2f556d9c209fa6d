"""What a memory's revisions changed, as its page tells it."""

from random import Random

from strength.admin.memory_detail import MOST_STEPS, changes_of
from strength.models import MemoryRevision
from tests.counting import work

LETTERS = [chr(0x4E00 + number) for number in range(5_000)]


def revisions(before: str, after: str) -> list[MemoryRevision]:
    values = {"changed_before": {"content": before}, "changed_after": {"content": after}}
    return [MemoryRevision(verb="edit", **values) for _ in range(10)]


def test_long_texts_with_many_small_changes_are_all_compared_with_little_work() -> None:
    after = "".join(letter if number % 8 < 4 else "々" for number, letter in enumerate(LETTERS))
    page = revisions("".join(LETTERS), after)
    assert all(change["runs"] for each in changes_of(page) for change in each["changes"])
    assert work(lambda: changes_of(page)) < MOST_STEPS


def test_the_work_for_a_page_of_texts_with_little_in_common_is_bounded() -> None:
    after = [*LETTERS]
    Random(1).shuffle(after)
    page = revisions("".join(LETTERS), "".join(after))
    assert work(lambda: changes_of(page)) < 2 * MOST_STEPS
