"""Tokens in a text: by a tokenizer that the user names, or from its characters by a stated ratio."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mfmc.errors import InputError

CHARACTERS_PER_TOKEN = 4.0  # of English text and code under today's byte-pair tokenizers, roughly


def token_counter(
    tokenizer: str | Callable[[str], int] | None, characters_per_token: float | None
) -> tuple[Callable[[str], int], str]:
    """(text -> tokens, the sentence that says how).

    `tokenizer`: a function, a path to a `tokenizer.json` or a name on the Hugging Face hub (needs the package
    `tokenizers`), or `tiktoken:ENCODING` (needs `tiktoken`). Without one, ceil(characters /
    characters_per_token).
    """
    if callable(tokenizer):
        return lambda text: int(tokenizer(text)), "text lengths by the tokenizer that was passed in"
    if tokenizer is not None:
        encode = _encoder(tokenizer)
        return lambda text: len(encode(text)), f"text lengths in tokens of {tokenizer}"
    ratio = CHARACTERS_PER_TOKEN if characters_per_token is None else characters_per_token
    if not ratio > 0 or not math.isfinite(ratio):
        raise InputError(
            f"characters_per_token is {ratio}: expected a number above 0, such as {CHARACTERS_PER_TOKEN:g}"
        )
    how = f"text lengths by characters, {ratio:g} to a token (name a tokenizer for exact ones)"
    return lambda text: math.ceil(len(text) / ratio), how


def _encoder(name: str) -> Callable[[str], Any]:
    package = "tiktoken" if name.startswith("tiktoken:") else "tokenizers"
    try:
        if package == "tiktoken":
            import tiktoken

            encoding = tiktoken.get_encoding(name.removeprefix("tiktoken:"))
            return lambda text: encoding.encode(text, disallowed_special=())
        from tokenizers import Tokenizer

        loaded = Tokenizer.from_file(name) if name.endswith(".json") else Tokenizer.from_pretrained(name)
        return lambda text: loaded.encode(text, add_special_tokens=False).ids
    except ImportError as error:
        raise InputError(f"tokenizer {name!r} needs the package {package}: pip install {package}") from error
    except Exception as error:  # those packages raise bare Exceptions
        raise InputError(f"tokenizer {name!r} cannot be loaded ({str(error).splitlines()[0]})") from error
