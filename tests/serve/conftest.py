"""What a Ray of this test run has to find in its environment, before any is started."""

from __future__ import annotations

import json
import os

from srrag.serve.ray import retry_middleware

os.environ.setdefault(retry_middleware.CALLBACK, retry_middleware.IMPORT_PATH)
# Of a body, less than Limits give it: a test waits until half a body is given up.
os.environ.setdefault(retry_middleware.BODIES, json.dumps({"body_s": 4.0}))
