import os

# What is left of a run that ended must not start a Ray of its own.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
