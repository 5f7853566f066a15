"""Text: lines of fields, in blocks of whole lines; what the columns hold is learned from the whole file before it is read."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa

from bigjoin.errors import SourceError, shown
from bigjoin.index.run import Run
from bigjoin.ingest.fields import ANY_TYPE, BLANKS, MAX_LINE_BYTES, Fields, find, possible_types, split_line, type_of
from bigjoin.ingest.table import EDGES, Kind, Table, check_names, choose, reading
from bigjoin.kernels.text import EMPTY, NONE
from bigjoin.paths import COMPRESSED, format_suffix

SPLIT_BYTES = 2**24
"""Bytes of a piece, about: at most some 2^22 rows. A compressed file is one piece, which is read in such blocks."""
WIDEST_ID = 2**62 - 1
"""An id beyond this, which no JSON of ours holds, is taken to lie this far from zero: too far for distances to be ranks."""

_NEWLINE = re.compile(rb"[\r\n]")
_INDENT = re.compile(rb"^([ \t\v\f]|\xef\xbb\xbf)+")


@dataclass(frozen=True)
class Fault:
    """Lines that are wrong in one way: how many were seen, and the first of them and its position in the file."""

    lines: int
    at: int
    first: str

    def __add__(self, other: Fault) -> Fault:
        first = min(self, other, key=lambda fault: fault.at)
        return Fault(self.lines + other.lines, first.at, first.first)


@dataclass(frozen=True)
class Findings:
    """What some of a file's lines say: how many there are, which are wrong, and what their columns may be."""

    rows: int = 0
    faults: Mapping[str, Fault] = field(default_factory=dict)
    """By what is wrong, one of FAULTS."""
    span: tuple[int, int] | None = None
    """The smallest and the largest of the ids that are integers; at most WIDEST_ID."""
    types: tuple[int, ...] = ()
    """By column: the set of types that its fields allow; nothing said is any type."""

    def __add__(self, other: Findings) -> Findings:
        spans = [span for span in (self.span, other.span) if span is not None]
        both = self.faults.keys() & other.faults.keys()
        types = zip_longest(self.types, other.types, fillvalue=ANY_TYPE)
        return Findings(
            self.rows + other.rows,
            {**self.faults, **other.faults, **{name: self.faults[name] + other.faults[name] for name in both}},
            (min(low for low, _ in spans), max(high for _, high in spans)) if spans else None,
            tuple(one & another for one, another in types),
        )


def open_text(source: str, kind: Kind, *, columns: Sequence[str] | None, properties: bool, drop_nulls: bool, run: Run) -> Table:
    """Return what a text file holds; it is looked through once, by `run`, in bounded memory."""
    path = Path(source).absolute()
    head = _head(source, path)
    if not head:
        raise SourceError(f"{source} has no {kind.noun}: it is empty, or holds only comments")
    separator = {".csv": ",", ".tsv": "\t"}.get(format_suffix(source))
    if kind is EDGES and separator is not None and separator.encode() not in _trimmed(head[0][0]):
        separator = None
    first, *below = (split_line(line, separator) for line, _ in head)
    width = max(len(first), len(kind.ends))  # a line that is too short is counted, and shown
    titled = kind.named(first) is not None or are_titles(kind, first, below) or _are_asked_for(first, columns)
    if titled and kind.named(first) is None and columns is None:
        line = _trimmed(head[0][0]).decode(errors="replace")
        warnings.warn(f"{source}: the first line, {line!r}, is taken for column titles", stacklevel=4)
    if columns is not None and not titled:
        check_names(kind, columns)
        if len(columns) > len(first):
            raise SourceError(f"{len(columns)} columns are named, and the first line of {source} has {len(first)}")
        names, columns = list(columns), None
    else:
        names = _names(first if titled else [], width)
    keys, others = choose(kind, names, source, columns=columns, properties=properties)
    layout = TextSplit(
        source,
        str(path),
        separator,
        tuple(names.index(name) for name in (*keys, *others)),
        width if separator is not None or properties else 0,  # otherwise only the ids of a line matter
    )
    splits = [replace(layout, begin=begin, end=end) for begin, end in _cuts(source, path, head[0][1] if titled else 0)]
    pieces: list[Findings] = run(LookThrough(len(keys)), splits)
    found = reduce(Findings.__add__, pieces, Findings())
    if titled:
        titles, end = head[0]
        if any(fields.unclosed != NONE for fields in find(titles, separator, [0], width)):
            found += Findings(faults={"unclosed": _fault(titles, 0, end - len(titles))})
    _check(found, source, kind, f"{'titles' if titled else 'fields in its first line'} ({width})", drop_nulls=drop_nulls)
    key_type = pa.int64() if all(type_of(types) == pa.int64() for types in found.types[: len(keys)]) else pa.string()
    kinds = [key_type] * len(keys) + [type_of(types) for types in found.types[len(keys) :]]
    schema = pa.schema(list(zip((*kind.ends, *others), kinds, strict=True)))
    typed = [replace(split, rows=piece.rows, schema=schema) for split, piece in zip(splits, pieces, strict=True)]
    return Table(source, keys, schema, typed, found.rows, found.span if key_type == pa.int64() else None, is_text=True)


@dataclass(frozen=True)
class TextSplit:
    """Some lines of a file."""

    source: str
    path: str
    separator: str | None
    places: tuple[int, ...]
    """The fields of a line that are read, ids first."""
    width: int
    """How many fields a line has at most; 0 is any number."""
    begin: int = 0
    end: int | None = None
    rows: int = 0
    schema: pa.Schema | None = None

    def blocks(self) -> Iterator[bytes]:
        """Read the text, in blocks of whole lines."""
        return blocks(self.source, Path(self.path), self.begin, self.end)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        assert self.schema is not None
        with reading(self.source):
            for fields in (fields for block in self.blocks() for fields in find(block, self.separator, self.places)):
                try:
                    columns = [fields.column(i, column.type) for i, column in enumerate(self.schema)]
                    yield pa.record_batch(columns, schema=self.schema)
                except pa.ArrowInvalid as error:
                    raise SourceError(f"{self.source} has changed while it was read: {error}") from None


@dataclass(frozen=True)
class LookThrough:
    """Stage: learn what one piece holds; its first columns are keys."""

    keys: int

    def __call__(self, split: TextSplit) -> Findings:
        found = Findings()
        position = split.begin
        for block in split.blocks():
            faults = _unreadable(block, position)
            found += Findings(faults=faults)
            for fields in find(block, split.separator, split.places, split.width):
                found += _findings(fields, self.keys, position, readable=not faults)
            position += len(block)
        return found


def _findings(fields: Fields, keys: int, position: int, *, readable: bool) -> Findings:
    """Return what the fields of some lines say; `position` is where the block begins that they are in."""
    faults = {}
    for name, row in (("unclosed", fields.unclosed), ("wide", fields.wide)):
        if row != NONE:
            faults[name] = _fault(fields.text, fields.begin(row), position)
    if fields.kinds[:keys].min() <= EMPTY:
        lines = (fields.kinds[:keys] <= EMPTY).any(axis=0)
        many = int(np.count_nonzero(lines))
        faults["short"] = _fault(fields.text, fields.begin(int(lines.argmax())), position, many)
    low, high = int(fields.integers[:keys].min()), int(fields.integers[:keys].max())
    span = (low, high) if low > -WIDEST_ID and high < WIDEST_ID else (-WIDEST_ID, WIDEST_ID)
    types = (possible_types(fields, i, is_key=i < keys) if readable else ANY_TYPE for i in range(len(fields.kinds)))
    return Findings(len(fields), faults, span, tuple(types))


def _fault(text: bytes, begin: int, position: int, lines: int = 1) -> Fault:
    """Return the fault of a line that begins somewhere in a block, which begins at a position of the file."""
    line = _NEWLINE.split(text[begin : begin + MAX_LINE_BYTES], maxsplit=1)[0]
    return Fault(lines, position + begin, shown(line.strip(BLANKS).decode(errors="replace")))


def _unreadable(block: bytes, position: int) -> dict[str, Fault]:
    """Return the lines that are not UTF-8 text, comments aside, and those with bytes that no text has."""
    faults = {}
    if (zero := block.find(b"\0")) >= 0:
        faults["binary"] = _fault(block, max(block.rfind(b"\n", 0, zero), block.rfind(b"\r", 0, zero)) + 1, position)
    if not block.isascii() and not _is_utf8(block):
        lines = (line for line in re.finditer(rb"[^\r\n]+", block) if _is_significant(line[0]) and not _is_utf8(line[0]))
        if begins := [line.start() for line in lines]:
            faults["garbled"] = _fault(block, begins[0], position, len(begins))
    return faults


def _check(found: Findings, source: str, kind: Kind, width: str, *, drop_nulls: bool) -> None:
    """Refuse a file with lines that cannot be read, or would be misread; `width` says what bounds their fields."""
    if not found.rows:
        raise SourceError(f"{source} has no {kind.noun}: nothing follows its column titles")
    for name in FAULTS:
        if name in found.faults and not (name == "short" and drop_nulls):
            fault = found.faults[name]
            where = f"line {_line_number(source, fault.at):,}"
            raise refused(name, source, kind, fault, where=where, rows=found.rows, width=width)


FAULTS = ("binary", "unclosed", "short", "wide", "garbled")
"""What may be wrong with lines: a zero byte, quotes that do not close, no id, too many fields, not UTF-8."""


def refused(name: str, source: str, kind: Kind, fault: Fault, *, where: str, rows: int, width: str) -> SourceError:
    """Return the error that says what is wrong with lines, and where the first of them is."""
    if name == "binary":
        return SourceError(f"{source} has a zero byte in {where}: it is no text, or not UTF-8; convert it, or use Parquet")
    if name == "unclosed":
        return SourceError(
            f"{source} has a quote that opens and does not close in its line, or not at the end of its field, {fault.first!r} "
            f"({where}): fields with line breaks are not read; write the file as Parquet, or without them"
        )
    if name == "short":
        what = "do not have two columns" if kind is EDGES else "have no id"
        hint = "; an edge is 'src dst', separated by spaces, a tab or a comma" if kind is EDGES else ""
        return SourceError(f"{fault.lines} of {rows} lines of {source} {what}, for example {fault.first!r} ({where}){hint}")
    if name == "wide":
        return SourceError(
            f"{where} of {source} has more fields than there are {width}: {fault.first!r}; the rest would be lost: name every "
            "column, and put fields that hold a separator in quotes (.csv, .tsv)"
        )
    return SourceError(
        f"{fault.lines} lines of {source} are not UTF-8 text, the first is {where}: convert the file, for example with iconv"
    )


def _line_number(source: str, position: int) -> int:
    """Return the number of the line that begins at a position of a file, from 1."""
    lines, before = 1, b""
    for block in blocks(source, Path(source).absolute(), 0, None):
        part = block[:position]
        lines += part.count(b"\n") + part.count(b"\r") - part.count(b"\r\n") - (before + part[:1] == b"\r\n")
        position -= len(block)
        if position <= 0:
            break
        before = block[-1:]
    return lines


def are_titles(kind: Kind, first: list[str], below: list[list[str]]) -> bool:
    """Tell titles from a row: for edges two words above two integers, for vertices words above something with a number."""
    words = first[: len(kind.ends)] if kind is EDGES else first
    if not below or not all(re.fullmatch(r"[^\W\d][\w .-]*", word) for word in words):
        return False
    integers = [re.fullmatch(r"[+-]?\d+", text) is not None for text in below[0]]
    return all(integers[:2]) if kind is EDGES else any(integers)


def blocks(source: str, path: Path, begin: int, end: int | None, size: int = 0) -> Iterator[bytes]:
    """Yield the text from `begin` to `end`, both starts of lines, in blocks of whole lines."""
    size = size or SPLIT_BYTES
    suffix = path.suffix.lower()
    compression = None if suffix not in COMPRESSED else "bz2" if suffix == ".bz2" else "gzip"  # which knows .deflate, too
    with pa.input_stream(str(path), compression=compression) as file:
        if compression is None:
            file.seek(begin)
        else:
            file.read(begin)
        rest = b""
        while block := file.read(size if end is None else min(size, end - begin)):
            begin += len(block)
            cut = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
            if cut:
                yield rest + block[:cut]
                rest = block[cut:]
            else:
                rest += block
            if len(rest) > MAX_LINE_BYTES:
                raise SourceError(f"{source} has a line of more than {MAX_LINE_BYTES >> 20} MB: it is not text")
        if rest:
            yield rest


def _cuts(source: str, path: Path, begin: int) -> list[tuple[int, int | None]]:
    """Return where the pieces of a file begin and end, each at the start of a line."""
    if path.suffix.lower() in COMPRESSED:
        return [(begin, None)]
    size = path.stat().st_size
    cuts = [begin]
    with path.open("rb") as file:
        while cuts[-1] + SPLIT_BYTES < size:
            position = file.seek(cuts[-1] + SPLIT_BYTES)
            while not (newline := _NEWLINE.search(piece := file.read(2**16))) and piece:
                position += len(piece)
                if position - cuts[-1] > SPLIT_BYTES + MAX_LINE_BYTES:
                    raise SourceError(f"{source} has a line of more than {MAX_LINE_BYTES >> 20} MB: it is not text")
            cuts.append(position + newline.end() if newline else size)
    return [(start, stop) for start, stop in zip(cuts, [*cuts[1:], size], strict=True) if start < stop]


def _head(source: str, path: Path) -> list[tuple[bytes, int]]:
    """Return the first two lines that say something, and where each ends."""
    head: list[tuple[bytes, int]] = []
    position = 0
    for block in blocks(source, path, 0, None, size=2**16):
        for match in re.finditer(rb"[^\r\n]+", block):
            if _is_significant(match[0]):
                head.append((match[0], position + match.end()))
            if len(head) == 2:
                return head
        position += len(block)
    return head


def _is_significant(line: bytes) -> bool:
    return bool(_trimmed(line)) and not _trimmed(line).startswith((b"#", b"%"))


def _trimmed(line: bytes) -> bytes:
    return _INDENT.sub(b"", line).rstrip(BLANKS)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _names(titles: list[str], width: int) -> list[str]:
    """Return a name for each column: its title, or its place where it has none, or one that another has."""
    names: list[str] = []
    for i in range(width):
        title = titles[i] if i < len(titles) else ""
        name = title if title and title not in names else f"c{i + 1}"
        while name in names:
            name += "_"
        names.append(name)
    return names


def _are_asked_for(first: list[str], columns: Sequence[str] | None) -> bool:
    """Tell titles from a row by the columns that are asked for: all are there."""
    return columns is not None and set(columns) <= set(first)
