"""Interactions: helpers that need no server."""
