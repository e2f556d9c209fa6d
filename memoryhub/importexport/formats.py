"""Registry of other import and export formats."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, cast

from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

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


def import_formats() -> Mapping[str, ImportFormat]:
    return {name: cast(ImportFormat, import_string(path)) for name, path in settings.IMPORT_FORMATS.items()}


def export_formats() -> Mapping[str, Export]:
    return {name: cast(Export, import_string(path)) for name, path in settings.EXPORT_FORMATS.items()}


def recognised(element: Element) -> str:
    """Return the name of the format of an element; "" for an unknown one."""
    return next((name for name, each in import_formats().items() if each.recognises(element.value)), "")


def take_elements(name: str, elements: Iterable[Element], *, order: Order, dry_run: bool) -> Report:
    """Import a foreign export and return the report; a dry run rolls everything back."""
    report, take = Report(), import_formats()[name].take
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
