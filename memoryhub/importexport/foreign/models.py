"""Imports of foreign files, and the rows that each has created or changed."""

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memoryhub.auth.models import PRINCIPAL_KIND_CHOICES
from memoryhub.jobs.models import Job
from memoryhub.tenancy.models import ActorRow


class Import(ActorRow):
    """One import into an actor's memory: its principal, file, state and report.

    The pieces of an uploaded file are kept until it is imported, or for a week. `report` holds
    counts by type of row and the first notes, which quote nothing of the file.
    """

    format = models.CharField(max_length=20)
    columns = models.JSONField(default=dict, blank=True, help_text="Columns of a table by their meaning.")
    names_users = models.BooleanField(default=False, help_text="The file says whose each memory is.")
    file_name = models.CharField(max_length=255, blank=True)
    size = models.PositiveBigIntegerField(default=0)
    who_kind = models.CharField(max_length=10, choices=PRINCIPAL_KIND_CHOICES)
    who_id = models.CharField(max_length=255, blank=True)
    who_name = models.CharField(max_length=150, blank=True)
    is_trusted = models.BooleanField(default=True)
    report = models.JSONField(default=dict, blank=True)
    previewed_at = models.DateTimeField(null=True, blank=True)
    imported_at = models.DateTimeField(null=True, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    job: Job | None = None
    """Its latest job, where it was loaded `with_jobs`."""

    class Meta:
        app_label = "memoryhub"
        ordering = ["-created_at", "-id"]
        constraints = [models.UniqueConstraint(name="import_of_actor", fields=["actor", "id"])]
        indexes = [models.Index(fields=["actor", "-created_at", "-id"], name="import_newest_first")]

    def __str__(self) -> str:
        return f"{self.format} {str(self.id)[:8]}"


class UploadedPiece(ActorRow):
    """Encrypted bytes of an import's file from `offset` on; in the database, as another host may read them."""

    import_id = models.UUIDField()
    offset = models.PositiveBigIntegerField()
    data = models.BinaryField()

    class Meta:
        app_label = "memoryhub"
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(name="uploaded_piece_of_actor", fields=["actor", "id"]),
            models.UniqueConstraint(name="uploaded_piece_once", fields=["actor", "import_id", "offset"]),
        ]

    def __str__(self) -> str:
        return f"{self.import_id}: {self.offset}"


class ImportedRow(ActorRow):
    """A row that an import made or changed, by the kind and id that its app knows.

    `key` is a digest of the other system's id, for rows with an id that is not derived from it. `details` holds the
    data for undo.
    """

    import_id = models.UUIDField()
    kind = models.CharField(max_length=10)
    row_id = models.UUIDField()
    key = models.CharField(max_length=64, blank=True)
    details = models.JSONField(default=dict, blank=True)

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        app_label = "memoryhub"
        ordering = ["id"]
        constraints = [models.UniqueConstraint(name="imported_row_of_actor", fields=["actor", "id"])]
        indexes = [
            models.Index(fields=["import_id", "id"], name="imported_by_import"),
            models.Index(fields=["actor", "key"], name="imported_by_key", condition=~Q(key="")),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.row_id}"
