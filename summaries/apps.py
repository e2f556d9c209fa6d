"""Summaries: what sessions were about, in a few sentences."""

from django.apps import AppConfig


class SummariesConfig(AppConfig):
    name = "summaries"
