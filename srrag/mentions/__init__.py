"""PICO extraction by transparent rules: a table of cue weights, typing cues and patterns."""
