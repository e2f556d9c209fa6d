"""The sockets for other forms: what others' exports become, and what else an export can be written as."""

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
    """What was asked for does not suit the file; nothing was written."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """Who imports, under which names, when, and whom to tell after each element."""

    names: Names
    by: Principal
    now: datetime
    progress: Progress


class Take(Protocol):
    """Writes the elements of a file; each is written whole or refused alone."""

    def __call__(self, elements: Iterable[Element], *, order: Order, report: Report) -> None: ...


@dataclass(frozen=True)
class ImportFormat:
    """Another's export: how one of its elements is recognised, and who takes the elements."""

    recognises: Callable[[Any], bool]
    take: Take


Export = Callable[[Whose], Iterator[bytes]]


def import_formats() -> Mapping[str, ImportFormat]:
    return {name: cast(ImportFormat, import_string(path)) for name, path in settings.IMPORT_FORMATS.items()}


def export_formats() -> Mapping[str, Export]:
    return {name: cast(Export, import_string(path)) for name, path in settings.EXPORT_FORMATS.items()}


def recognised(element: Element) -> str:
    """Return the name of the format that an element is of; empty where nobody knows it."""
    return next((name for name, each in import_formats().items() if each.recognises(element.value)), "")


def take_elements(name: str, elements: Iterable[Element], *, order: Order, dry_run: bool) -> Report:
    """Import another's export and return what became of it; a dry run does all of it and takes it back."""
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
