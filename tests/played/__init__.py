"""What a capable model is asked to answer: prompts of steps over labelled data, and the figures."""
