"""Registry of other import and export formats."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from django.db import transaction

from memoryhub.auth.domain import Principal
from memoryhub.importexport.exporter import Whose
from memoryhub.importexport.id_map import Names
from memoryhub.importexport.json_stream import Element
from memoryhub.importexport.jsonl import Report

Progress = Callable[[int], None]


class CannotImport(ValueError):
    """Options that do not fit the file; nothing was written."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """Parameters of an import: principal, names, time, progress callback."""

    names: Names
    by: Principal
    now: datetime
    progress: Progress


class Take(Protocol):
    """Imports elements; each is written whole or refused alone."""

    def __call__(self, elements: Iterable[Element], *, order: Order, report: Report) -> None: ...


@dataclass(frozen=True)
class ImportFormat:
    """A foreign format: how to recognise an element, and how to import the elements."""

    recognises: Callable[[Any], bool]
    take: Take


Export = Callable[[Whose], Iterator[bytes]]


IMPORT_FORMATS: Final[dict[str, ImportFormat]] = {}
EXPORT_FORMATS: Final[dict[str, Export]] = {}
"""Formats beside our own, by name; apps register theirs when they are ready."""


def recognised(element: Element) -> str:
    """Return the name of the format of an element; "" for an unknown one."""
    return next((name for name, each in IMPORT_FORMATS.items() if each.recognises(element.value)), "")


def take_elements(name: str, elements: Iterable[Element], *, order: Order, dry_run: bool) -> Report:
    """Import a foreign export and return the report; a dry run rolls everything back."""
    report, take = Report(), IMPORT_FORMATS[name].take
    elements = _counted(elements, report)
    if not dry_run:
        take(elements, order=order, report=report)
        return report
    with transaction.atomic():
        take(elements, order=order, report=report)
        transaction.set_rollback(True)
    return report


def _counted(elements: Iterable[Element], report: Report) -> Iterator[Element]:
    for element in elements:
        report.entry = element.entry
        yield element
