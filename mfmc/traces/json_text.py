"""JSON that may be broken: the keys of a beginning, and the complete elements of an array or of lines."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mfmc.traces.rejections import Rejections
from mfmc.traces.source import Source

_DECODER = json.JSONDecoder()
_COLON = re.compile(r"\s*:\s*")
SAMPLE_LINES = 50


def leading_keys(text: str) -> dict[str, str]:
    """Keys of the first object in `text`, with the first character of each value; the text may break off."""
    keys: dict[str, str] = {}
    place, depth, key = text.find("{"), 0, None
    while 0 <= place < len(text):
        letter = text[place]
        if letter == '"':
            try:
                word, end = json.decoder.scanstring(text, place + 1)  # type: ignore[attr-defined]
            except ValueError:
                return keys
            place = end
            if depth == 1 and key is None and (colon := _COLON.match(text, end)):
                key, place = word, colon.end()
                if place == len(text):
                    return keys
                keys.setdefault(word, text[place])
            continue
        if letter in "{[":
            depth += 1
        elif letter in "}]":
            depth -= 1
            if depth == 0:
                return keys
        elif letter == "," and depth == 1:
            key = None
        place += 1
    return keys


def object_keys(source: Source) -> dict[str, str]:
    """Keys that most objects at the beginning of the file have, with the kind of value: " [ { or other."""
    text = source.head.decode(errors="replace")
    lines = [line for line in text.split("\n")[:SAMPLE_LINES] if line.strip()]
    by_line = [found for line in lines if line.lstrip().startswith("{") and (found := leading_keys(line))]
    if len(by_line) < max(1, len(lines) // 2) or text.lstrip().startswith("["):
        return leading_keys(text)
    counted = Counter(key for found in by_line for key in found)
    common = [key for key, count in counted.items() if 2 * count >= len(by_line)]
    return {key: Counter(f[key] for f in by_line if key in f).most_common(1)[0][0] for key in common}


def elements(source: Source, rejections: Rejections) -> Iterator[Any]:
    """The values of a JSON array, of a file of JSON lines, or the one value that the file is.

    What cannot be parsed is a rejected row. An array that breaks off gives the elements before the break.
    """
    text = source.text()
    first = text.lstrip()[:1]
    if first == "[":
        yield from _array(text, rejections)
        return
    try:
        yield json.loads(text)
        return
    except (ValueError, RecursionError):
        pass  # several values, one a line, or a broken file
    for line in text.split("\n"):
        try:
            if line.strip():
                yield json.loads(line)
        except (ValueError, RecursionError):
            _reject(rejections, "line is not JSON")


def _array(text: str, rejections: Rejections) -> Iterator[Any]:
    place = text.index("[") + 1
    while True:
        while place < len(text) and text[place] in " \t\r\n,":
            place += 1
        if text[place : place + 1] == "]":
            return
        if place >= len(text):
            _reject(rejections, "JSON array is not closed: the file is cut off")
            return
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            # Past this point nothing tells where an element begins.
            _reject(rejections, "JSON array broken here: the rest of the file is not read")
            return
        yield value


def _reject(rejections: Rejections, reason: str) -> None:
    rejections.rows_read += 1
    rejections.add(reason, rejections.rows_read)


def whole_number(value: Any, maximum: int) -> int | None:
    """A count from JSON (a number, or a number in a string), or None if it is none of 0..maximum."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not 0 <= number <= maximum or number != int(number):
        return None
    return int(number)


def seconds(value: Any) -> float | None:
    """A time from JSON (a number, or a number in a string) of at least 0, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number < 1e20 else None
