"""A trace file as bytes: what it is, judged by its first bytes, and its lines, whatever the compression.

Everything here survives damage: a gzip or zstd stream that is cut short or corrupted gives the bytes up to
the damage, and says so.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mfmc.errors import InputError
from mfmc.traces.rejections import Rejections

CHUNK_BYTES = 1 << 18
HEAD_BYTES = 1 << 17
BATCH_LINES = 20_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass
class Source:
    """One file. `container` is text, parquet, duckdb or folder; `compression` is none, gzip or zstd."""

    path: Path
    container: str
    compression: str
    damage: str | None = None
    blank_lines: int = 0
    ends_within_line: bool = False
    evidence: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, path: str | Path) -> Source:
        """Look at the first bytes. Raises InputError where there is nothing to read."""
        path = Path(path)
        if path.is_dir():
            return cls(path, "folder", "none", evidence=["a folder"])
        try:
            with path.open("rb") as file:
                first = file.read(16)
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise InputError(f"{path}: cannot be read ({reason})") from error
        if not first:
            raise InputError(f"{path}: the file is empty; expected a trace")
        if first[:4] == b"PAR1":
            return cls(path, "parquet", "none", evidence=["begins with PAR1: Parquet"])
        if first[8:12] == b"DUCK":
            return cls(path, "duckdb", "none", evidence=["bytes 9 to 12 are DUCK: a DuckDB file"])
        if first[:2] == b"\x1f\x8b":
            return cls(path, "text", "gzip", evidence=["begins with 1f 8b: gzip"])
        if first[:4] == b"\x28\xb5\x2f\xfd":
            return cls(path, "text", "zstd", evidence=["begins with 28 b5 2f fd: zstd"])
        return cls(path, "text", "none", evidence=["plain text"])

    @cached_property
    def head(self) -> bytes:
        """The first bytes of the text, without a byte order mark (damage further on is not met here)."""
        data = b""
        for chunk in self._decoded():
            data += chunk
            if len(data) >= HEAD_BYTES:
                break
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError(
                f"{self.path}: UTF-16 text; convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)"
            )
        data = data.removeprefix(BYTE_ORDER_MARK)
        if not data.strip():
            found = f"no text can be read ({self.damage})" if self.damage else "nothing but blank lines"
            raise InputError(f"{self.path}: {found}; expected a trace")
        return data

    def text(self) -> str:
        """The whole text; bytes that are no UTF-8 become replacement characters, and the damage says how
        many.
        """
        data = b"".join(self._decoded()).removeprefix(BYTE_ORDER_MARK)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            self.damage = self.damage or f"not UTF-8 from byte {error.start}"
            return data.decode(errors="replace")

    def line_batches(
        self, rejections: Rejections, skip_first: bool = False
    ) -> Iterator[tuple[list[int], list[str]]]:
        """Batches of (record numbers from 1, lines): blank lines are skipped, undecodable ones rejected.

        Every line that is not blank is a row read. `skip_first` leaves out a header line.
        """
        number, rows, lines, self.blank_lines = 0, [], [], 0
        for raw in self._raw_lines():
            if not raw or raw.isspace():
                self.blank_lines += 1
                continue
            if skip_first:
                skip_first = False
                continue
            number += 1
            try:
                lines.append(raw.decode())
            except UnicodeDecodeError:
                rejections.add("line is not UTF-8", number)
                continue
            rows.append(number)
            if (
                len(rows) > BATCH_LINES
            ):  # the last line waits: only the end of the stream tells whether it is whole
                yield rows[:-1], lines[:-1]
                rows, lines = rows[-1:], lines[-1:]
        if self.damage and self.ends_within_line and rows and rows[-1] == number:
            rejections.add("line cut off where the file is damaged", rows.pop())
            lines.pop()
        rejections.rows_read = number
        if rows:
            yield rows, lines

    def notes(self) -> list[str]:
        """What was met while reading."""
        found = []
        if self.damage:
            found.append(f"the file is damaged: {self.damage}; what came before it was read")
        if self.blank_lines:
            found.append(f"{self.blank_lines} blank lines skipped (they count as no row)")
        return found

    def _raw_lines(self) -> Iterator[bytes]:
        pending: list[bytes] = []  # pieces of a line that has not ended
        for number, chunk in enumerate(self._decoded()):
            piece, *more = (chunk if number else chunk.removeprefix(BYTE_ORDER_MARK)).split(b"\n")
            pending.append(piece)
            if more:
                yield b"".join(pending)
                yield from more[:-1]
                pending = more[-1:]
        if tail := b"".join(pending):
            self.ends_within_line = True
            yield tail

    def _decoded(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                chunks = iter(lambda: file.read(CHUNK_BYTES), b"")
                yield from chunks if self.compression == "none" else self._decompressed(chunks)
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be read ({(error.strerror or str(error)).lower()})"
            ) from error

    def _decompressed(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Bytes of all members one after the other; `damage` is set where the stream breaks."""
        make, errors = _decompressor(self.compression)
        decoder, done, self.damage = make(), 0, None
        fresh = True  # between members: the stream may end here
        for chunk in chunks:
            while chunk:
                try:
                    data = decoder.decompress(chunk)
                except errors as error:
                    self.damage = f"{self.compression} stream broken after {done:,} bytes of text ({error})"
                    return
                done += len(data)
                if data:
                    yield data
                chunk = decoder.unused_data if decoder.eof else b""
                if decoder.eof:
                    chunk = chunk.lstrip(b"\0")  # some writers pad the end with zeros
                    decoder = make()
                    fresh = not chunk
                else:
                    fresh = False
        if not fresh:
            self.damage = f"{self.compression} stream cut short after {done:,} bytes of text"


def _decompressor(compression: str) -> tuple[Any, tuple[type[Exception], ...]]:
    """(factory of streaming decompressors, the errors they raise)."""
    if compression == "gzip":
        return lambda: zlib.decompressobj(wbits=31), (zlib.error,)
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj, (zstandard.ZstdError,)
