"""What must not be stored as it was sent: secrets. Pure."""
