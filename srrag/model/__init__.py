"""Models that more than one domain package reads: encoders."""
