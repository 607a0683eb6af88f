"""Models on this Mac: where they are and what they are called."""
