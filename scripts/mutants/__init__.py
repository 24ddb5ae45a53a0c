"""The mutation check: `python -m scripts.mutants`, or `make mutants`."""
