"""A script that somebody offers as a plugin: importing it ends the process."""

from __future__ import annotations

import sys

sys.exit(3)
