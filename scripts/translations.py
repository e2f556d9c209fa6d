"""Update the Japanese translations from the code and compile them: `make translations`. With --check, only report.

Instead of Django's `makemessages`, which needs GNU gettext and sees neither the names of models and fields nor the
texts of unfold, which brings no translations (docs/adr/0016).
"""

import argparse
import io
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import django
from babel.messages import Catalog, Message
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.apps import apps
from django.contrib import admin
from django.utils import translation
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
PO_FILE = ROOT / "memoryhub" / "locale" / "ja" / "LC_MESSAGES" / "django.po"
APP_LABELS = ("memoryhub", "conversations", "summaries", "strength", "webhooks")
KEYWORDS: dict[str, Any] = {
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "_": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    # Stored in English, and translated where they are shown.
    **dict.fromkeys(("UnreadableElement", "stored_text", "Postponed", "BadAnswer")),
    **dict.fromkeys(("ProviderTimeout", "ProviderUnavailable", "ProviderRejected", "ProviderMisconfigured")),
}
FIXED_DATE = datetime(2026, 1, 1, tzinfo=UTC)  # the current date would change the compiled file with every run
HEADER = "# Translations of the interface; `make translations` updates them from the code."
PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|%[sd]|\{\w*\}")
Text: TypeAlias = tuple[str, str | None, str | None]
"""Singular, plural and context."""


def extract_texts(source: str, *, is_template: bool) -> Iterator[Text]:
    """Yield the translatable texts of Python code or of a Django template."""
    if is_template:
        source = "\n".join(line.strip() for line in templatize(source).split("\n"))
    file = io.BytesIO(source.encode())
    for _line, texts, _comments, context in extract("python", file, KEYWORDS, options={"encoding": "utf-8"}):
        forms: tuple[Any, ...] = _forms(texts)
        yield forms[0], forms[1] if len(forms) > 1 else None, context


def folder_texts(folder: Path, *, root: Path, without: str = "migrations") -> Iterator[tuple[str, Text]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(root)
        if path.suffix in (".py", ".html") and without not in name.parts:
            for text in extract_texts(path.read_text("utf-8"), is_template=path.suffix == ".html"):
                yield str(name), text


def model_texts() -> Iterator[tuple[str, Text]]:
    """Yield names, help texts and choices of our models, and of their apps."""
    for label in APP_LABELS:
        yield f"{label}/apps.py", (str(apps.get_app_config(label).verbose_name), None, None)
    for meta in (model._meta for model in admin.site._registry if model._meta.app_label in APP_LABELS):
        texts: list[Any] = [meta.verbose_name, meta.verbose_name_plural]
        for field in (*meta.local_fields, *meta.local_many_to_many):
            texts += [field.verbose_name, field.help_text, *(label for _value, label in field.flatchoices)]
        yield from ((f"{meta.app_label}/models", (str(text), None, None)) for text in texts)


def unfold_texts() -> Iterator[tuple[str, Text]]:
    """Yield the texts of unfold's installed parts that Django has no translation of."""
    for folder in (Path(each.path) for each in apps.get_app_configs() if each.name.split(".")[0] == "unfold"):
        for _name, text in folder_texts(folder, root=folder, without="contrib"):
            if not any(text[0] in each for each in django_catalogs()):
                yield "unfold", text


@cache
def django_catalogs() -> list[Catalog]:
    folder = Path(django.__file__).parent
    return [read(each) for each in folder.glob("**/locale/ja/LC_MESSAGES/django.po")]


def catalog_of(found: Iterator[tuple[str, Text]]) -> Catalog:
    """Return an untranslated catalog of texts, in the order of their files."""
    every, ordered = Catalog(), Catalog(locale="ja")
    for file, (singular, plural, context) in found:
        if singular.strip():
            every.add((singular, plural) if plural else singular, locations=[(file, 1)], context=context)
    for each in sorted(
        filter(lambda message: message.id, every),
        key=lambda message: (sorted(message.locations), _forms(message.id)[0], message.context or ""),
    ):
        ordered.add(each.id, locations=sorted(each.locations), context=each.context)
    return ordered


def extract_catalog() -> Catalog:
    with translation.override(None):  # lazy texts show their source
        texts = [text for each in (*APP_LABELS, "templates") for text in folder_texts(ROOT / each, root=ROOT)]
        return catalog_of(iter([*texts, *model_texts(), *unfold_texts()]))


def read(file: Path) -> Catalog:
    with file.open("rb") as source:
        return read_po(source, locale="ja")


def merged(template: Catalog, former: Catalog) -> Catalog:
    """Return the template with the former translations; fuzzy ones are dropped."""
    catalog = Catalog(
        locale="ja",
        domain="django",
        project="memoryhub",
        header_comment=HEADER,
        creation_date=FIXED_DATE,
        revision_date=FIXED_DATE,
        charset="utf-8",
        fuzzy=False,
    )
    for message in filter(lambda each: each.id, template):
        known = former.get(message.id, message.context)
        forms = _forms(known.string) if known is not None and not known.fuzzy else ("",)
        string: Any = forms[:1] if message.pluralizable else forms[0]
        catalog.add(message.id, string, message.locations, context=message.context)
    return catalog


def _forms(text: Any) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text) or ("",)


def problems(template: Catalog, catalog: Catalog) -> Iterator[str]:
    """Yield missing, obsolete, fuzzy and untranslated texts, and wrong placeholders."""
    for message in filter(lambda each: each.id, template):
        if catalog.get(message.id, message.context) is None:
            yield f"not in the catalog: {_forms(message.id)[0]!r}"
    for message in filter(lambda each: each.id, catalog):
        if template.get(message.id, message.context) is None:
            yield f"obsolete: {_forms(message.id)[0]!r}"
        yield from _message_problems(message)


def _message_problems(message: Message) -> Iterator[str]:
    sources = _forms(message.id)
    if message.fuzzy:
        yield f"fuzzy: {sources[0]!r}"
    placeholders = {each for source in sources for each in PLACEHOLDER.findall(source)}
    for form in _forms(message.string):
        found = set(PLACEHOLDER.findall(form))
        if not form:
            yield f"not translated: {sources[0]!r}"
        elif unknown := found - placeholders:
            yield f"unknown placeholders ({', '.join(sorted(unknown))}): {sources[0]!r}"
        elif missing := set(PLACEHOLDER.findall(sources[0])) - found:
            yield f"missing placeholders ({', '.join(sorted(missing))}): {sources[0]!r}"


def po_bytes(catalog: Catalog) -> bytes:
    file = io.BytesIO()
    write_po(file, catalog, width=110, include_lineno=False)
    return file.getvalue()


def mo_bytes(catalog: Catalog) -> bytes:
    file = io.BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def run(*, check: bool) -> list[str]:
    """Update both files, unless `check` is set, and return what is wrong with them."""
    template, mo_file = extract_catalog(), PO_FILE.with_suffix(".mo")
    if not check:
        catalog = merged(template, read(PO_FILE))
        PO_FILE.write_bytes(po_bytes(catalog))
        mo_file.write_bytes(mo_bytes(catalog))
    catalog = read(PO_FILE)
    found = list(problems(template, catalog))
    return found if mo_file.read_bytes() == mo_bytes(catalog) else [*found, "the .mo file is out of date"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 where anything is wrong")
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    sys.path.insert(0, str(ROOT))
    django.setup()
    wrong = run(check=arguments.check)
    sys.stdout.write("\n".join([*wrong, f"{len(wrong)} to be seen to.", ""]))
    sys.exit(bool(wrong) and arguments.check)
