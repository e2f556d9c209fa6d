"""Providers that answer a prompt."""
