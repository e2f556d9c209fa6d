"""Steps that formats of JSON share: a first look at a file, and elements that are each read or refused."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from memoryhub.importexport.archives import Archive
from memoryhub.importexport.json_stream import LONGEST_ELEMENT, Element, elements, lines
from memoryhub.importexport.records import Located, Record, Refusal, Unreadable

LOOKED_AT = 5


def first_values(archive: Archive, names: Iterable[str]) -> Iterator[Any]:
    """Yield the first readable elements of some files, without counting them as read."""
    for name in names:
        with archive.open(name, counts=False) as file:
            for number, element in enumerate(elements_of(name, file)):
                if not element.problem:
                    yield element.value
                if number >= LOOKED_AT:
                    break


def elements_of(name: str, file: BinaryIO, *, longest: int = LONGEST_ELEMENT) -> Iterator[Element]:
    return (lines if name.lower().endswith(".jsonl") else elements)(file, longest=longest)


def records_of(
    archive: Archive,
    names: Iterable[str],
    read: Callable[[Any], Iterable[Record]],
    *,
    what: str,
    longest: int = LONGEST_ELEMENT,
) -> Iterator[Located]:
    """Yield what `read` makes of each element; an element that raises Unreadable is refused alone."""
    for name in names:
        with archive.open(name) as file:
            for element in elements_of(name, file, longest=longest):
                yield from located(element, read, what=what, file=name)


def located(
    element: Element, read: Callable[[Any], Iterable[Record]], *, what: str, file: str = ""
) -> Iterator[Located]:
    try:
        if element.problem:
            raise Unreadable(element.problem)
        for record in read(element.value):
            yield Located(record, element.entry, element.line, file)
    except Unreadable as error:
        yield Located(Refusal(what, str(error)), element.entry, element.line, file)
