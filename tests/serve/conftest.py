"""What a Ray of this test run has to find in its environment, before any is started."""

from __future__ import annotations

import os

from srrag.serve.ray import retry_middleware

os.environ.setdefault(retry_middleware.VARIABLE, retry_middleware.IMPORT_PATH)
