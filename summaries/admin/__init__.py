"""Screens of summaries and of projects."""

from summaries.admin import documents, projects, routing, summaries  # noqa: F401
