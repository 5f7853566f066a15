"""What the first bytes of a file tell: a format or a compression that its name does not say, or text that is not UTF-8."""

from __future__ import annotations

import codecs
from pathlib import Path

import pyarrow as pa

from bigjoin.errors import SourceError
from bigjoin.paths import COMPRESSED_SUFFIXES

JUDGED_BYTES = 1 << 12
"""Bytes at the beginning of a file that are looked at."""
TRANSCODED_BYTES = 1 << 24
"""Bytes that are transcoded at a time."""

_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_FORMATS = {
    b"PK\x03\x04": "a zip archive (or a spreadsheet): unpack it, or save it as .csv",
    b"\x1f\x8b": "compressed with gzip: end its name in .gz",
    b"BZh": "compressed with bzip2: end its name in .bz2",
    b"\xfd7zXZ": "compressed with xz, which bigjoin does not read: decompress it, or use .gz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd, which bigjoin does not read: decompress it, or use .gz",
    b"PAR1": "Parquet: end its name in .parquet",
    b"ARROW1": "an Arrow file: write it as Parquet, or pass the table itself",
    b"SQLite format 3": "a SQLite database: export its table as .csv",
    b"%PDF-": "a PDF: export its table as .csv",
}
"""What files of other formats begin with, and what is said of them."""


def compression_of(path: Path) -> str | None:
    """Return how Arrow calls the compression that a file's name tells."""
    suffix = path.suffix.lower()
    return None if suffix not in COMPRESSED_SUFFIXES else "bz2" if suffix == ".bz2" else "gzip"  # which knows .deflate, too


def check_text(source: str, path: Path) -> None:
    """Refuse a file that is no text by its first bytes, or text whose encoding has zero bytes, and say what to do."""
    with pa.input_stream(str(path), compression=compression_of(path)) as file:
        start: bytes = file.read(JUDGED_BYTES)
    for magic, what in _FORMATS.items():
        if start.startswith(magic) and not start[len(magic) :].startswith(b" "):
            raise SourceError(f"{source} is {what}")
    if (encoding := encoding_of(start)) is not None:
        raise SourceError(f"{source} is {encoding.upper()} text: read it with --encoding {encoding} (encoding={encoding!r})")


def encoding_of(start: bytes) -> str | None:
    """Return the encoding that the first bytes of a text tell, if it is one with zero bytes."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    pairs = len(start) // 2
    if pairs >= 2:
        for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
            zeros = start[first : 2 * pairs : 2].count(0)
            if zeros >= 0.7 * pairs and start[1 - first : 2 * pairs : 2].count(0) == 0:
                return encoding
    return None


def transcode(source: str, path: Path, encoding: str, target: Path) -> None:
    """Write a text of another encoding as UTF-8, decompressed, a piece at a time."""
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 1
    with pa.input_stream(str(path), compression=compression_of(path)) as file, target.open("wb") as sink:
        while True:
            piece: bytes = file.read(TRANSCODED_BYTES)
            try:
                text = decoder.decode(piece, final=not piece)
            except (UnicodeError, ValueError) as error:
                at = getattr(error, "start", 0)
                before = piece[:at].decode(encoding, errors="ignore") if isinstance(at, int) else ""
                raise SourceError(
                    f"line {lines + before.count(chr(10)):,} of {source} is not {encoding} text: give another encoding"
                ) from None
            sink.write(text.encode("utf-8", errors="surrogatepass"))
            lines += text.count("\n")
            if not piece:
                return
