"""Conversations: sessions, messages, recall, and the contexts made of them."""

from django.apps import AppConfig


class ConversationsConfig(AppConfig):
    name = "conversations"
