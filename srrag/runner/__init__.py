import os

# Leftover threads of a run that ended must not start a new Ray.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
