"""Asking for a document's compaction over REST."""

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.api.fields import NoBody, TenantQuery
from memoryhub.auth.domain import Scope
from memoryhub.providers.errors import ProviderUnavailable
from summaries.actions.oversize import NotCompacted, order_compaction
from summaries.api.projects import ProjectView
from summaries.api.serializers import JobIdOut
from summaries.api.views import conflict, llm_problem


class DocumentCompaction(ProjectView):
    """Have a document rewritten shorter."""

    scopes = {"POST": Scope.WRITE}
    problems = {
        **ProjectView.problems,
        NotCompacted: conflict("not_compacted"),
        ProviderUnavailable: llm_problem,
    }

    @extend_schema(request=NoBody, parameters=[TenantQuery], responses={202: JobIdOut})
    def post(self, request: Request, project_name: str, document_name: str) -> Response:
        """Rewrite a document in the background, also before it is too long; pinned.md never is."""
        self.validated(NoBody)
        document = self.document(project_name, document_name)
        job_id = order_compaction(document=document, by=self.principal, now=self.now)
        return Response({"job_id": job_id}, status=status.HTTP_202_ACCEPTED)
