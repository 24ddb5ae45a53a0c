"""The CPython child: standard library only, started by `__main__.py` or forked from a zygote."""
