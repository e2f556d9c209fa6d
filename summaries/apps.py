"""Summaries: condensed prose. Session summaries and project memory will live here."""

from django.apps import AppConfig


class SummariesConfig(AppConfig):
    name = "summaries"
