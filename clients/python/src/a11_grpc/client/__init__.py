"""The client: connecting, calling, executing, conversations and nodes."""
