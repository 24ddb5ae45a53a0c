"""Hangs at the end of the interpreter."""

import atexit
import time

atexit.register(time.sleep, 100)
