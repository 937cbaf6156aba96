"""The errors that users see."""

from __future__ import annotations


class InputError(ValueError):
    """Input that mfmc refuses: one line that says which key or file, which value, and what would be right."""


class BufferOverflow(RuntimeError):
    """A fixed-size device buffer was too small for a draw; the message names the setting that cures it."""
