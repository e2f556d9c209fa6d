"""Imports of other systems' exports."""
