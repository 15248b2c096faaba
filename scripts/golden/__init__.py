"""Parts of scripts/make_golden.py: small checkpoints and what they compute."""
