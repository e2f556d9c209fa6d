"""What calls to providers cost: every call noted, prices, caps, and what real answers teach about counting tokens."""
