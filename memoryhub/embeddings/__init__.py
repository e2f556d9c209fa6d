"""Providers that turn texts into vectors."""
