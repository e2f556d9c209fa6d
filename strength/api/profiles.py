"""The profile of a user over REST: what contexts offer of it, and the text that a model or a person wrote."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.domain.policy import ContextPolicy
from memoryhub.api.fields import ChangedByOut, ReasonSerializer, TenantQuery, TenantSerializer, TextField
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.views import IF_MATCH, ApiView, etag, operation
from memoryhub.auth.access import Tenant, UnknownRow
from memoryhub.auth.principals import Scope
from memoryhub.tenancy.policies import effective_policy
from strength.actions.profiles import PROFILES, enqueue_profile, get_profile, profile_entries
from strength.actions.search import profile_memories
from strength.domain.profile import MAX_TEXT_LENGTH, Entry
from strength.models import Profile, ProfileVersion


class ProfileLineOut(serializers.Serializer):
    """A line of a written profile, or a memory itself, with the memories that it rests on."""

    text = serializers.CharField()
    memory_ids = serializers.ListField(child=serializers.UUIDField())
    is_written = serializers.BooleanField(help_text="Whether a model or a person wrote it.")


class WrittenLineOut(serializers.Serializer):
    """A line of a written profile; it is not shown where one of its memories changed or does not hold any more."""

    text = serializers.CharField()
    memory_ids = serializers.ListField(child=serializers.UUIDField())
    is_shown = serializers.BooleanField()


class WrittenProfileOut(serializers.ModelSerializer):
    """The text that a model or a person wrote, line by line."""

    lines = serializers.SerializerMethodField()

    class Meta:
        model = Profile
        fields = ("id", "lines", "generator", "model", "locked", "version", "created_at", "updated_at")

    @extend_schema_field(WrittenLineOut(many=True))
    def get_lines(self, profile: Profile) -> list[dict[str, Any]]:
        shown = self.context["shown"]
        return [
            {"text": line.text, "memory_ids": list(map(str, line.memory_ids)), "is_shown": line in shown}
            for line in profile.written
        ]


class ProfileOut(serializers.Serializer):
    """The profile that contexts offer of a user, best line first; `written` is null where no text was written."""

    agent_id = serializers.CharField()
    user_id = serializers.CharField()
    lines = ProfileLineOut(many=True)
    written = WrittenProfileOut(allow_null=True)


class ProfileVersionOut(ChangedByOut, serializers.ModelSerializer):
    """A written profile as it was after one change, without lines of memories that were deleted since."""

    class Meta:
        model = ProfileVersion
        fields = ("id", "number", "verb", "by", "reason", "text", "generator", "model", "locked", "created_at")


class ProfileJobOut(serializers.Serializer):
    """Job that was enqueued."""

    job_id = serializers.UUIDField()


class ProfilePatch(ReasonSerializer):
    """Changes of a written profile; a new text locks it unless `locked` is false."""

    text = TextField(required=False, max_length=MAX_TEXT_LENGTH)
    locked = serializers.BooleanField(required=False)


class ProfileRestoreIn(TenantSerializer, ReasonSerializer):
    """Version to restore."""

    number = serializers.IntegerField(min_value=1, max_value=2**31 - 1)


class ProfileView(ApiView):
    def written(self, tenant: Tenant) -> Profile:
        """Return the written profile; 404 where there is none."""
        profile = get_profile(tenant.actor_id)
        if profile is None:
            raise UnknownRow("The user has no written profile.")
        return profile

    def answer(self, tenant: Tenant) -> Response:
        """Answer with what contexts are offered, at most as many memories as they could hold."""
        policy = effective_policy(ContextPolicy, tenant.agent, tenant.actor)
        is_shown = tenant.actor is not None and tenant.user_id and policy.include_profile
        memories = profile_memories(tenant=tenant, project=None, now=self.now, policy=policy) if is_shown else []
        profile, entries = profile_entries(tenant=tenant, memories=memories, project=None, now=self.now)
        written = profile or get_profile(tenant.actor_id)
        body = {
            "agent_id": tenant.agent_id,
            "user_id": tenant.user_id,
            "lines": _visible_entries(entries),
            "written": written,
        }
        shown = {entry.line for entry in entries}
        return Response(
            ProfileOut(body, context={"shown": shown}).data, headers={"ETag": etag(written.version)} if written else {}
        )


def _visible_entries(entries: list[Entry]) -> list[dict[str, Any]]:
    """Return the entries without the memories that a written line before them stands for."""
    visible, seen_ids = list[dict[str, Any]](), set[Any]()
    for entry in entries:
        ids = [memory.pk for memory in entry.memories]
        if entry.line is not None or seen_ids.isdisjoint(ids):
            visible.append({"text": entry.text, "memory_ids": ids, "is_written": entry.line is not None})
            seen_ids.update(ids)
    return visible


class OneProfile(ProfileView):
    @operation("profile_get", Scope.READ, parameters=[TenantQuery], responses=ProfileOut)
    def get(self, request: Request) -> Response:
        """Return what contexts are offered about a user, with the memories that each line rests on."""
        return self.answer(self.reading(self.query(TenantQuery)))

    @operation("profile_write", Scope.WRITE, request=TenantSerializer, responses={202: ProfileJobOut})
    def post(self, request: Request) -> Response:
        """Let a model write the profile in the background, due or not; where the policy `write_profile` is on."""
        actor = self.writing(self.validated(TenantSerializer))
        job_id = enqueue_profile(actor=actor, by=self.principal, now=self.now)
        return Response({"job_id": job_id}, status=status.HTTP_202_ACCEPTED)

    @operation(
        "profile_update", Scope.WRITE, request=ProfilePatch, responses=ProfileOut, parameters=[TenantQuery, IF_MATCH]
    )
    def patch(self, request: Request) -> Response:
        """Edit the written text, which locks it against rewriting, or lock and unlock it."""
        values = self.validated(ProfilePatch)
        tenant, reason = self.reading(self.query(TenantQuery)), values.pop("reason")
        PROFILES.edit(self.written(tenant), values=values, reason=reason, **self.change)
        return self.answer(tenant)

    @operation("profile_delete", Scope.WRITE, parameters=[TenantQuery, IF_MATCH], responses={204: None})
    def delete(self, request: Request) -> Response:
        """Delete the written profile with its versions; contexts hold the memories themselves again."""
        tenant = self.reading(self.query(TenantQuery))
        PROFILES.delete(self.written(tenant), **self.change)
        return Response(status=status.HTTP_204_NO_CONTENT)


class ProfileVersions(ProfileView):
    @operation(
        "profile_versions_list", Scope.READ, parameters=[TenantQuery, PageQuery], responses=page_of(ProfileVersionOut)
    )
    def get(self, request: Request) -> Response:
        """List a written profile's versions, newest first."""
        profile = self.written(self.reading(self.query(TenantQuery)))
        return self.page(profile.versions.all(), ProfileVersionOut, ordering=("-number",))


class ProfileRestore(ProfileView):
    @operation("profile_restore", Scope.WRITE, request=ProfileRestoreIn, responses=ProfileOut, parameters=[IF_MATCH])
    def post(self, request: Request) -> Response:
        """Restore a version's text, and lock the profile."""
        values = self.validated(ProfileRestoreIn)
        tenant = self.reading(values)
        PROFILES.restore(self.written(tenant), number=values["number"], reason=values["reason"], **self.change)
        return self.answer(tenant)
