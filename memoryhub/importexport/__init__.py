"""Loss-free export and import of actors as JSON Lines (SPEC M12)."""
