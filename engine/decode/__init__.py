"""Decoding: draft, verify, commit. Read `round.py` first."""
