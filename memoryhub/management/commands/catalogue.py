"""`manage.py catalogue`: keep the interface's translations in line with the code, and compile them."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

LANGUAGE = "ja"
MOST_SHOWN = 50


class Command(BaseCommand):
    help = (
        "Bring memoryhub/locale in line with the code; --check exits with 1 where anything is untranslated."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="Change nothing; fail where anything is amiss."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            from memoryhub import catalogue
        except ModuleNotFoundError as error:
            raise CommandError("This needs Babel: `make lint` installs it.") from error
        source = Path(settings.LOCALE_PATHS[0]) / LANGUAGE / "LC_MESSAGES" / "django.po"
        found = catalogue.found_in(settings.CHECKOUT)
        if not options["check"]:
            made = catalogue.merged(found, catalogue.read(source))
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_bytes(catalogue.source_of(made))
            source.with_suffix(".mo").write_bytes(catalogue.compiled(made))
        kept = catalogue.read(source)
        problems = catalogue.problems_of(found, kept)
        compiled = source.with_suffix(".mo")
        if not compiled.exists() or compiled.read_bytes() != catalogue.compiled(kept):
            problems.append("the compiled file is not that of the source")
        for problem in problems[:MOST_SHOWN]:
            self.stdout.write(problem)
        if len(problems) > MOST_SHOWN:
            self.stdout.write(f"… and {len(problems) - MOST_SHOWN} more")
        summary = f"{len(found.plurals)} texts, {len(problems)} to be seen to."
        if problems and options["check"]:
            raise CommandError(
                f"{summary} Run `manage.py catalogue`, translate what it names, and run it again."
            )
        self.stdout.write(summary)
