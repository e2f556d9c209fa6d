"""Statements that a model draws from messages: details, language, kind of speech, and whether they are grounded."""
