"""What a Ray of this test run has to find in its environment, before any is started."""

from __future__ import annotations

import os

from srrag.serve import again

os.environ.setdefault(again.VARIABLE, again.IMPORT_PATH)
