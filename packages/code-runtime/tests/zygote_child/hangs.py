"""Takes longer to import than any test runs."""

import time

time.sleep(100)
