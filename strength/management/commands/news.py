"""`manage.py news`: print or mail what became of memories since each person last read the news."""

from collections.abc import Sequence
from smtplib import SMTPException
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage, get_connection
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q
from django.utils import timezone, translation

from memoryhub.auth import audit
from memoryhub.auth.agent_limits import Unprepared, limits_of
from memoryhub.auth.principals import command
from memoryhub.env import read_environment
from memoryhub.mail import URL
from memoryhub.management import check_texts
from memoryhub.runtime.supervisor import web_url
from strength.admin.news_mail import NewsMail, may_read_news, news_mail
from strength.models import NewsPlace


class Command(BaseCommand):
    help = (
        "Print what was learnt, changed and forgotten since each person last read the news, or mail it: numbers and "
        "links. Without --to: for the accounts that wish it on the page News. Who has nothing to do gets no mail."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--mail", action="store_true", help=f"Send it by the mail server of {URL}.")
        parser.add_argument("--to", action="append", metavar="ACCOUNT", help="Name or mail address; once for each.")
        parser.add_argument("--texts", action="store_true", help="Also the texts of the first 50 memories.")
        parser.add_argument("--language", choices=[code for code, _name in settings.LANGUAGES], default="en")
        parser.add_argument("--url", default="", help="Address of this server in links. Without it: its public origin.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["mail"] and not settings.EMAIL_HOST:
            raise CommandError(f"No mail server is set: give its address in {URL}.")
        people, url = self._people(options["to"]), options["url"].rstrip("/") or _public_url()
        if not people:
            self.stderr.write("Nobody wishes the news by mail; name accounts by --to, or choose it on the page News.")
        failed = []
        with translation.override(options["language"]):
            for person in people:
                try:
                    with limits_of(person):
                        mail = news_mail(person, url=url, with_texts=options["texts"], now=timezone.now())
                except Unprepared as error:
                    failed.append(f"{person.username} ({error})")
                    continue
                if mail is None:
                    self.stderr.write(f"{person.username}: nothing to do.")
                elif not options["mail"]:
                    self.stdout.write(f"{person.username}: {mail.subject}\n\n{mail.body}")
                elif (problem := self._send(person, mail, with_texts=options["texts"])) is not None:
                    failed.append(f"{person.username} ({problem})")
        if failed:
            raise CommandError(f"Not sent: {', '.join(failed)}.")

    def _people(self, named: Sequence[str] | None) -> list[User]:
        """Return the accounts to write to. Raises CommandError for one that is unknown, or may not read memories."""
        accounts = User.objects.order_by("username")
        if named is None:
            wishes = NewsPlace.objects.filter(wants_mail=True).values("person")
            return [person for person in accounts.filter(pk__in=wishes) if may_read_news(person)]
        people = []
        for name in named:
            check_texts(to=name)
            found = list(accounts.filter(Q(username=name) | Q(email__iexact=name))[:2]) if name else []
            if len(found) != 1:
                raise CommandError(f"--to {name}: there is no such account, or several have this address.")
            if not may_read_news(found[0]):
                raise CommandError(f"--to {name}: this account may not read memories.")
            people += found
        return people

    def _send(self, person: User, mail: NewsMail, *, with_texts: bool) -> str | None:
        """Send one mail and note it; return the problem if there is one."""
        if not person.email:
            return "the account has no mail address"
        message = EmailMessage(mail.subject, mail.body, to=[person.email], connection=get_connection())
        try:
            message.send()
        except (SMTPException, OSError) as error:
            return f"{type(error).__name__}: {error}"
        details = {"with_texts": with_texts}
        audit.record(by=command("news"), verb="mail", row=person, details=details, now=timezone.now())
        self.stderr.write(f"{person.username}: sent.")
        return None


def _public_url() -> str:
    """Return the first origin of CSRF_TRUSTED_ORIGINS that is no pattern, else the server's own address."""
    environment = read_environment()
    return next((origin for origin in environment.trusted_origins if "*" not in origin), web_url(environment))
