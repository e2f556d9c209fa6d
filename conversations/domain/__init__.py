"""Context assembly as plain data: no Django, no provider, no clock, no randomness."""
