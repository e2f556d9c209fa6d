"""How a context is put together, as plain data: no Django, no provider, no clock, no randomness."""
