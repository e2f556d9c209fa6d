"""Loss-free export and import of actors in memoryhub's own format."""
