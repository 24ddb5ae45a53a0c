"""Leaves a descriptor open."""

import os

reader = os.open("/dev/zero", os.O_RDONLY)
