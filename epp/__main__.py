"""`python -m epp`."""

from __future__ import annotations

import sys

from epp.cli.main import main

sys.exit(main())
