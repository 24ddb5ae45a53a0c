"""The peers: what a user would pick instead, each behind a driver of its own."""
