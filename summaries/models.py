"""Session summaries and what they were before."""
