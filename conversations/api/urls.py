"""Addresses of sessions, messages, contexts and receipts."""

from django.urls import path

from conversations.api import chat, views, what_if
from conversations.api.compatible import anthropic, openai, responses

urlpatterns = [
    path("users", views.Users.as_view(), name="users"),
    path("sessions", views.Sessions.as_view(), name="sessions"),
    path("sessions/<uuid:session_id>", views.OneSession.as_view(), name="session"),
    path("sessions/<uuid:session_id>/end", views.SessionEnd.as_view(), name="session-end"),
    path("sessions/<uuid:session_id>/stats", views.SessionStatistics.as_view(), name="session-stats"),
    path("sessions/<uuid:session_id>/messages", views.Messages.as_view(), name="messages"),
    path("sessions/<uuid:session_id>/forget", views.SessionForget.as_view(), name="session-forget"),
    path("messages/<uuid:message_id>", views.OneMessage.as_view(), name="message"),
    path("chat", chat.Chat.as_view(), name="chat"),
    path("openai/chat/completions", openai.Completions.as_view(), name="openai-chat-completions"),
    path("openai/models", openai.Models.as_view(), name="openai-models"),
    path("openai/models/<str:model>", openai.OneModel.as_view(), name="openai-model"),
    path("openai/responses", responses.Responses.as_view(), name="openai-responses"),
    path("anthropic/v1/messages", anthropic.Messages.as_view(), name="anthropic-messages"),
    path("anthropic/v1/messages/count_tokens", anthropic.CountTokens.as_view(), name="anthropic-count-tokens"),
    path("anthropic/v1/models", anthropic.Models.as_view(), name="anthropic-models"),
    path("agents/<str:agent_id>/what-if", what_if.AgentWhatIf.as_view(), name="agent-what-if"),
    path("actors/what-if", what_if.ActorWhatIf.as_view(), name="actor-what-if"),
    path("context", views.Contexts.as_view(), name="context"),
    path("receipts/latest", views.LatestReceipt.as_view(), name="receipt-latest"),
    path("receipts/<uuid:receipt_id>", views.OneReceipt.as_view(), name="receipt"),
]
