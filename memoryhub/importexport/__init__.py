"""Taking memories out of an installation and into another: everything of an actor, as JSON Lines (SPEC M12)."""
