"""The calls to providers, and what they taught about each model's way of counting."""

from django.db import models

from memoryhub.ids import new_id
from memoryhub.llm.tokens import Factors
from memoryhub.llm.usage.caps import OK
from memoryhub.tenancy.models import Actor


class LedgerEntry(models.Model):
    """One call to a language model or a remote embedder (SPEC A9): figures only, never a text.

    The agent is a name and not a key: accounts outlive whom they are about. Where a user is erased the row stays for
    the accounts and loses the actor (`SET_NULL`), so that the call cannot be attributed any more.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    created_at = models.DateTimeField(help_text="When the call ended.")
    agent_id = models.CharField(max_length=255, blank=True, help_text="Who pays; empty: the operator's own call.")
    actor = models.ForeignKey(Actor, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    key_id = models.UUIDField(null=True, blank=True, help_text="The API key that caused it, if any.")
    operation = models.CharField(max_length=32)
    provider = models.CharField(max_length=64)
    model = models.CharField(max_length=255)
    outcome = models.CharField(max_length=64, default=OK, help_text="`ok`, or the error's code.")
    input_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    output_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    cache_read_tokens = models.PositiveBigIntegerField(
        default=0, help_text="Of the input tokens, those from the provider's cache."
    )
    cache_write_tokens = models.PositiveBigIntegerField(
        default=0, help_text="Of the input tokens, those put into the provider's cache."
    )
    estimated_tokens = models.PositiveBigIntegerField(help_text="Tokens that were estimated before the call.")
    raw_latin = models.PositiveBigIntegerField(default=0)
    raw_japanese = models.PositiveBigIntegerField(default=0)
    raw_code = models.PositiveBigIntegerField(default=0)
    raw_other = models.PositiveBigIntegerField(default=0)
    messages = models.PositiveIntegerField(default=0)
    is_sample = models.BooleanField(default=False, help_text="Only texts were sent, so factors can be fitted.")
    latency_ms = models.FloatField()
    cost = models.DecimalField(
        max_digits=16, decimal_places=8, null=True, blank=True, help_text="US dollars; empty: no price known."
    )

    class Meta:
        app_label = "memoryhub"
        ordering = ["-created_at", "-id"]
        verbose_name = "call"
        constraints = [
            models.CheckConstraint(
                name="ledger_entry_counts_what_was_answered",
                condition=models.Q(outcome=OK, input_tokens__isnull=False) | ~models.Q(outcome=OK),
            )
        ]
        indexes = [
            # For index-only scans of a day's sums.
            models.Index(
                fields=["agent_id", "created_at"],
                name="ledger_by_agent_and_time",
                include=["cost", "input_tokens", "output_tokens"],
            ),
            models.Index(
                fields=["key_id", "created_at"], name="ledger_by_key_and_time", condition=models.Q(key_id__isnull=False)
            ),
            models.Index(fields=["-created_at", "-id"], name="ledger_newest_first"),
            models.Index(
                fields=["actor", "created_at"],
                name="ledger_by_actor_and_time",
                include=["input_tokens", "output_tokens"],
            ),
            models.Index(
                fields=["provider", "model", "-created_at"], name="ledger_samples", condition=models.Q(is_sample=True)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {str(self.id)[:8]}"


class CapReached(models.Model):
    """The first refusal by a daily cap on a day: of an agent's background work, or of chat (SPEC A9).

    `owner_id` is the key, the user's actor, or the agent's own. `agent_id` is empty for a key of several agents.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner_id = models.UUIDField()
    agent_id = models.CharField(max_length=255, blank=True)
    cap = models.CharField(max_length=30)
    day = models.DateField()
    at = models.DateTimeField()

    class Meta:
        app_label = "memoryhub"
        ordering = ["-at", "-id"]
        default_permissions = ()
        constraints = [models.UniqueConstraint(name="cap_reached_once_a_day", fields=["owner_id", "cap", "day"])]

    def __str__(self) -> str:
        return f"{self.cap} {self.day}"


class TokenFactors(models.Model):
    """Calibration of token counts of a model, fitted to its answers (SPEC A7); overrides the table in the code."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    provider = models.CharField(max_length=64)
    model = models.CharField(max_length=255)
    latin = models.FloatField()
    japanese = models.FloatField()
    code = models.FloatField()
    other = models.FloatField()
    per_message = models.PositiveIntegerField()
    per_request = models.PositiveIntegerField()
    samples = models.PositiveIntegerField()
    error_before_median = models.FloatField(help_text="With the factors from the table; a share of the tokens.")
    error_before_p95 = models.FloatField()
    error_after_median = models.FloatField(help_text="With these factors.")
    error_after_p95 = models.FloatField()
    fitted_at = models.DateTimeField()

    class Meta:
        app_label = "memoryhub"
        ordering = ["provider", "model"]
        verbose_name = "token factors"
        verbose_name_plural = "token factors"
        constraints = [models.UniqueConstraint(name="factors_once_a_model", fields=["provider", "model"])]

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def factors(self) -> Factors:
        return Factors(
            self.latin, self.japanese, self.code, self.other, per_message=self.per_message, per_request=self.per_request
        )
