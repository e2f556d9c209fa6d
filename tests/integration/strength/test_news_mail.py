"""`manage.py news`: numbers and links by a real mail server, texts only on request (SPEC W14)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.utils import timezone

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import command
from memoryhub.auth.roles import CURATOR
from memoryhub.env import CHECKOUT
from strength.actions.memories import NewMemory, write_memory
from strength.actions.news import want_mail
from tests.fakes.mail_server import MailServer

# The feed is written by triggers when a transaction commits.
pytestmark = pytest.mark.django_db(transaction=True)

SECRET_WORDS = "Maya keeps bees on the roof."


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    with MailServer() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "hub", "secret"
        settings.DEFAULT_FROM_EMAIL = "memoryhub@example.org"
        yield server


def person(name: str, *, email: str = "", wants_mail: bool = False, is_curator: bool = True) -> User:
    made = User.objects.create_user(name, email=email, password="a long password", is_staff=True)
    if is_curator:
        made.groups.add(Group.objects.get(name=CURATOR))
    want_mail(person=made, wants_mail=wants_mail)
    return made


def remember(content: str = SECRET_WORDS) -> None:
    by, now = command("test"), timezone.now()
    write_memory(actor=actor_for_writing(by, "kana", "maya", now=now), new=NewMemory(content=content), by=by, now=now)


def run(*args: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("news", *args, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_who_wishes_it_gets_numbers_and_links_without_texts(server: MailServer) -> None:
    person("aya", email="aya@example.org", wants_mail=True)
    person("ben", email="ben@example.org")
    remember()
    _out, err = run("--mail", "--url", "https://memory.example.org/")
    [mail] = server.mails
    body = mail.message.get_content()
    assert mail.recipients == ["aya@example.org"] and mail.user == "hub" and "aya: sent." in err
    assert mail.message["Subject"] == "memoryhub: 1 change" and mail.message["From"] == "memoryhub@example.org"
    assert "Learnt: 1  https://memory.example.org/admin/news/?kind=learnt" in body
    assert "bees" not in str(mail.message) and "maya" not in str(mail.message)
    entry = AuditEntry.objects.get(verb="mail")
    assert (entry.object_kind, entry.details, entry.who_name) == ("person", {"with_texts": False}, "news")


def test_texts_are_sent_on_request_and_in_japanese(server: MailServer) -> None:
    person("aya", email="aya@example.org")
    remember("蜂を屋上で飼っている。")
    run("--mail", "--to", "AYA@example.org", "--texts", "--language", "ja")
    [mail] = server.mails
    assert "kana / maya · 新しく記憶: 蜂を屋上で飼っている。" in mail.message.get_content()
    assert "変更1件" in mail.message["Subject"]


def test_what_waits_is_linked_and_nothing_to_do_is_not_mailed(server: MailServer) -> None:
    aya = person("aya", email="aya@example.org", wants_mail=True)
    assert "aya: nothing to do." in run("--mail")[1] and not server.mails
    by, now = command("test"), timezone.now()
    actor = actor_for_writing(by, "kana", "maya", now=now)
    write_memory(actor=actor, new=NewMemory(content="Perhaps.", needs_approval=True), by=by, now=now)
    out, _err = run("--to", "aya", "--url", "https://m.org")
    assert "Pending: 1  https://m.org/admin/review/" in out and not server.mails, "printed, without --mail"
    User.objects.filter(pk=aya.pk).update(is_active=False)
    assert "Nobody wishes the news" in run("--mail")[1] and not server.mails


def test_a_refused_mail_is_an_error_and_the_others_are_sent(server: MailServer) -> None:
    for name in ("aya", "ben"):
        person(name, email=f"{name}@example.org", wants_mail=True)
    person("cho", wants_mail=True)
    remember()
    server.refused = {"aya@example.org"}
    with pytest.raises(
        CommandError, match=r"Not sent: aya \(SMTPRecipientsRefused.*cho \(the account has no mail address\)"
    ):
        run("--mail")
    assert [mail.recipients for mail in server.mails] == [["ben@example.org"]]
    assert AuditEntry.objects.filter(verb="mail").count() == 1


@pytest.mark.parametrize(
    ("name", "problem"), [("nobody", "no such account"), ("reader", "may not read memories"), ("", "no such account")]
)
def test_only_accounts_that_may_read_memories_are_written_to(server: MailServer, name: str, problem: str) -> None:
    person("reader", email="reader@example.org", is_curator=False)
    remember()
    with pytest.raises(CommandError, match=problem):
        run("--mail", "--to", name)
    assert not server.mails


def test_without_a_mail_server_the_command_names_the_setting(settings: Any) -> None:
    settings.EMAIL_HOST = ""
    with pytest.raises(CommandError, match="MEMORYHUB_EMAIL_URL"):
        run("--mail")


def test_a_process_of_its_own_reads_the_server_from_the_environment(server: MailServer) -> None:
    """The settings of a real process, with the URL's percent-encoded password."""
    code = "from django.conf import settings as s; print(s.EMAIL_HOST, s.EMAIL_PORT, s.EMAIL_HOST_PASSWORD, s.EMAIL_USE_TLS)"
    url = f"smtp+tls://hub:p%40ss@127.0.0.1:{server.port}"
    environ = {**os.environ, "MEMORYHUB_EMAIL_URL": url, "DJANGO_SETTINGS_MODULE": "memoryhub.settings"}
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, env=environ, capture_output=True, text=True)
    assert done.stdout.split() == ["127.0.0.1", str(server.port), "p@ss", "True"], done.stderr
