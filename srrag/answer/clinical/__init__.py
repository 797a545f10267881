"""What a clinician reads of an answer in ten seconds, computed from its row by rules."""
