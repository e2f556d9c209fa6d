"""Recognise secrets in texts and remove them. Pure."""
