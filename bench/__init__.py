"""The benchmark of the product and of its peers.

`python -m bench` measures both providers; `--peer` puts other runtimes beside them, each round of
one figure on every subject in turn, so that a ratio compares neighbours in time.
"""
