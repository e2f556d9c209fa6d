"""Collect translatable texts of code, templates, models and the admin kit, and merge them into the catalogue.

Needs Babel, a development dependency; the server reads the compiled file only.
"""

import io
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import django
from babel.messages import Catalog, Message
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.apps import apps
from django.contrib import admin
from django.utils import translation
from django.utils.translation.template import templatize

OURS = ("memoryhub", "conversations", "summaries", "strength")
KIT = "unfold"
"""The admin's kit brings no catalogue of its own."""

_CALLS: dict[str, Any] = {
    "gettext": None, "gettext_lazy": None, "gettext_noop": None, "_": None,
    "ngettext": (1, 2), "ngettext_lazy": (1, 2), "pgettext": ((1, "c"), 2), "pgettext_lazy": ((1, "c"), 2),
}  # fmt: skip
_PLACES = re.compile(r"%\(\w+\)[a-z]|%[sd]|\{\w*\}")
_UNTOLD = datetime(2026, 1, 1, tzinfo=UTC)  # a date that changes by itself would change the compiled file
Id = tuple[str | None, str]


class Found:
    """The texts of the interface: each with its plural, where it has one, and the files that say it."""

    def __init__(self) -> None:
        self.plurals: dict[Id, str | None] = {}
        self.files: dict[Id, set[str]] = {}

    def add(self, text: str, *, plural: str | None = None, context: str | None = None, file: str) -> None:
        if not text.strip():
            return
        key = (context, text)
        self.plurals[key] = self.plurals.get(key) or plural
        self.files.setdefault(key, set()).add(file)


def found_in(root: Path) -> Found:
    """Return what the code, the templates and the models below `root` say, and the kit's texts that Django lacks."""
    found = Found()
    for name in OURS:
        _read_folder(found, root / name, root)
    _read_folder(found, root / "templates", root)
    _read_models(found)
    _read_kit(found)
    return found


def _read_folder(found: Found, folder: Path, root: Path, *, but: str = "migrations") -> None:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(root)
        if path.suffix in (".py", ".html") and not {but, "migrations"} & set(name.parts):
            source = path.read_text(encoding="utf-8")
            for context, text, plural in texts_of(source, is_template=path.suffix == ".html"):
                found.add(text, plural=plural, context=context, file=str(name))


def texts_of(source: str, *, is_template: bool) -> Iterator[tuple[str | None, str, str | None]]:
    """Yield context, text and plural of every call or tag that asks for a translation."""
    if is_template:
        calls = templatize(source)
        source = "\n".join(line.strip() for line in calls.split("\n"))
    for _line, texts, _comments, context in extract(
        "python", io.BytesIO(source.encode()), keywords=_CALLS, options={"encoding": "utf-8"}
    ):
        parts = (texts,) if isinstance(texts, str) else tuple(texts)
        yield context, parts[0], parts[1] if len(parts) > 1 else None


def _read_models(found: Found) -> None:
    with translation.override(None):  # lazy texts show what they were made of
        for name in OURS:
            found.add(str(apps.get_app_config(name).verbose_name), file=f"{name}/apps.py")
        for model in admin.site._registry:
            meta = model._meta
            if meta.app_label in OURS:
                texts: list[Any] = [meta.verbose_name, meta.verbose_name_plural]
                for field in (*meta.local_fields, *meta.local_many_to_many):
                    texts += [
                        field.verbose_name,
                        field.help_text,
                        *(label for _value, label in field.flatchoices),
                    ]
                for text in texts:
                    found.add(str(text), file=f"{meta.app_label}/models")


def _read_kit(found: Found) -> None:
    kit = Found()
    installed = [Path(config.path) for config in apps.get_app_configs() if config.name.split(".")[0] == KIT]
    for folder in installed:
        _read_folder(kit, folder, folder, but="contrib")  # of its parts only those that are installed
    for (context, text), plural in kit.plurals.items():
        if not any(text in each for each in _catalogues_of_django()):
            found.add(text, plural=plural, context=context, file=KIT)


@cache
def _catalogues_of_django() -> list[Catalog]:
    folder = Path(django.__file__).parent
    places = (folder / "conf" / "locale", *folder.glob("contrib/*/locale"))
    return [read(place / "ja" / "LC_MESSAGES" / "django.po") for place in places]


def read(file: Path) -> Catalog:
    """Return a catalogue as it stands in a file; an empty one where there is none."""
    if not file.exists():
        return Catalog(locale="ja")
    with file.open("rb") as source:
        return read_po(source, locale="ja")


def merged(found: Found, before: Catalog) -> Catalog:
    """Return a catalogue of what was found, with the translations that there were."""
    made = Catalog(
        locale=before.locale, domain="django", project="memoryhub", version="", fuzzy=False,
        header_comment="# What memoryhub's interface says. `manage.py catalogue` keeps it in line with the code.",
        creation_date=_UNTOLD, revision_date=_UNTOLD, last_translator="", language_team="", charset="utf-8",
    )  # fmt: skip
    for key in sorted(found.plurals, key=lambda each: (sorted(found.files[each]), each[1], each[0] or "")):
        context, text = key
        plural = found.plurals[key]
        former = before.get(text, context)
        places = [(file, 1) for file in sorted(found.files[key])]
        kept = _texts(former.string) if former is not None and not former.fuzzy else ("",)
        string: Any = tuple(kept[:1]) if plural else kept[0]
        made.add((text, plural) if plural else text, string, places, context=context)
    return made


def _texts(said: Any) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(said) or ("",)


def problems_of(found: Found, catalogue: Catalog) -> list[str]:
    """Return what is wrong with a catalogue: what is missing, empty, unsure, wrong in its places, or said nowhere."""
    problems = [
        f"not in the catalogue: {text!r}"
        for context, text in found.plurals
        if catalogue.get(text, context) is None
    ]
    for message in catalogue:
        if not message.id:
            continue
        text = _texts(message.id)[0]
        if (message.context, text) not in found.plurals:
            problems.append(f"said nowhere any more: {text!r}")
        problems += _problems_of_message(message, text)
    return problems


def _problems_of_message(message: Message, text: str) -> Iterable[str]:
    if message.fuzzy:
        yield f"unsure (fuzzy): {text!r}"
    places = {place for each in _texts(message.id) for place in _PLACES.findall(each)}
    for said in _texts(message.string):
        if not said:
            yield f"not translated: {text!r}"
        elif unknown := set(_PLACES.findall(said)) - places:
            yield f"places that the text has not ({', '.join(sorted(unknown))}): {text!r}"
        elif missing := set(_PLACES.findall(text)) - set(_PLACES.findall(said)):
            yield f"places that the translation lacks ({', '.join(sorted(missing))}): {text!r}"


def source_of(catalogue: Catalog) -> bytes:
    made = io.BytesIO()
    write_po(made, catalogue, width=110, sort_output=False, include_lineno=False)
    return made.getvalue()


def compiled(catalogue: Catalog) -> bytes:
    """Return a catalogue as its file for programs; the same catalogue gives the same bytes."""
    made = io.BytesIO()
    write_mo(made, catalogue)
    return made.getvalue()
