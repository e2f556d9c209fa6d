"""Strength: agent memories, search and ranking, reinforcement."""

from django.apps import AppConfig


class StrengthConfig(AppConfig):
    name = "strength"
