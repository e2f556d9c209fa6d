"""Chat APIs of vendors, for programs that know nothing of memoryhub (ADR 51)."""
