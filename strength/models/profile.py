"""The written profile of a user, and its versions."""

from typing import ClassVar

from django.db import models

from memoryhub.auth.models import NumberedVersion
from memoryhub.auth.principals import TextVerb
from memoryhub.tenancy.models import ActorRow, KeyWithinActor
from memoryhub.tenancy.policy import Trust
from strength.domain.profile import Generator, Line, Source, check_lines, edit_lines, join_lines
from strength.models.sleep import choices


class WrittenLines(models.Model):
    """Lines with the memories that they rest on: `[{"text", "sources": [{"id", "digest"}]}]`."""

    lines = models.JSONField(default=list)
    generator = models.CharField(max_length=10, choices=choices(Generator))
    model = models.CharField(max_length=255, blank=True)
    locked = models.BooleanField(default=False, help_text="A person put it right; no job rewrites it.")

    class Meta:
        abstract = True

    @property
    def written(self) -> list[Line]:
        return [Line.read(each) for each in self.lines]

    @written.setter
    def written(self, lines: list[Line]) -> None:
        self.lines = [line.as_json() for line in lines]

    @property
    def text(self) -> str:
        return join_lines(self.written)

    @text.setter
    def text(self, text: str) -> None:
        """Write lines over the others: one that is rewritten rests on the same memories."""
        self.written = edit_lines(self.written, text)

    def check_import(self) -> None:
        """Raise UnusableLines for what a forged export may hold."""
        check_lines(self.lines, getattr(self, "read_from", []))


class Profile(WrittenLines, ActorRow):
    """Text about a user, written from the memories `read_from` (ADR 39). Editing the text locks it."""

    trust = Trust.TRUSTED
    """Of trusted memories alone."""

    read_from = models.JSONField(default=list)
    version = models.PositiveIntegerField(default=1)
    written_at = models.DateTimeField(null=True, editable=False, help_text="When a model last wrote it.")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["-updated_at", "-id"]
        constraints = [models.UniqueConstraint(name="profile_once", fields=["actor"])]

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.id}"

    @property
    def sources(self) -> list[Source]:
        return [Source.read(each) for each in self.read_from]


class ProfileVersion(WrittenLines, NumberedVersion):
    """State of a profile after one change, with author, time and reason. The latest is the current state."""

    profile = KeyWithinActor(Profile, on_delete=models.CASCADE, related_name="versions", db_index=False)
    verb = models.CharField(max_length=10, choices=choices(each for each in TextVerb if each is not TextVerb.DELETE))

    objects: ClassVar[models.Manager["ProfileVersion"]]

    class Meta(NumberedVersion.Meta):
        constraints = [models.UniqueConstraint(name="profile_version_once", fields=["actor", "profile", "number"])]
        indexes = [models.Index(fields=["profile", "-number"], name="version_of_profile")]

    def __str__(self) -> str:
        return f"{self.verb} #{self.number}"
