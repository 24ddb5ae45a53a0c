"""Cannot be imported."""

raise ValueError("line one\nline two")
