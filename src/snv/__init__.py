"""Networks that learn task after task, forget nothing and store no old data."""

__version__ = "0.1.0"
