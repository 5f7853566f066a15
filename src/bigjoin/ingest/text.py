"""Text: lines of fields, read in blocks of whole lines; the types of columns are learned from all of a file first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa

from bigjoin.errors import SourceError, shown
from bigjoin.index.stage_runner import StageRunner
from bigjoin.ingest.encodings import compression_of
from bigjoin.ingest.fields import ANY_TYPE, BLANKS, MAX_LINE_BYTES, Fields, find, possible_types, split_line, type_of
from bigjoin.ingest.heading import IS_VALUE, LINES_COMPARED, Heading, is_significant
from bigjoin.ingest.table import EDGES, Choice, Kind, Table, check_names, choose, plausible_ends, reading
from bigjoin.kernels.text import EMPTY, NONE
from bigjoin.paths import COMPRESSED_SUFFIXES
from bigjoin.reading import ReadingOptions

SPLIT_BYTES = 2**24
"""Approximate bytes of a piece, so some 2^22 rows at most. A compressed file is one piece, read in blocks of this size."""
WIDEST_ID = 2**62 - 1
"""The receipts of tasks hold no larger integers. A span that reaches further is given as (-WIDEST_ID, WIDEST_ID)."""

FAULTS = {
    "binary": "{source} has a zero byte in {where}: it is no text, or not UTF-8; say which encoding it has, as in "
    "--encoding utf-16 (encoding='utf-16'), or use Parquet",
    "unclosed": "{source} has a quote that opens and does not close in its line, or not at the end of its field, {line!r} "
    "({where}): fields with line breaks are not read; write the file as Parquet, or without them",
    "short": "{lines} of {rows} lines of {source} {lacks}, for example {line!r} ({where}){hint}",
    "wide": "{where} of {source} has more fields than there are {titles} ({width}): {line!r}; the rest would be lost: "
    "name every column, and put fields that hold a separator in quotes (.csv, .tsv)",
    "garbled": "{lines} lines of {source} are not UTF-8 text, the first is {where}: say which encoding the file has, as in "
    "--encoding latin-1 (encoding='latin-1')",
}
"""What may be wrong with lines, and the message for it. If there are several faults, the first in this order is reported."""

_NEWLINE = re.compile(rb"[\r\n]")


@dataclass(frozen=True)
class Fault:
    """Lines with the same fault: how many there are, the first of them, and its position in the file."""

    lines: int
    at: int
    first: str

    def __add__(self, other: Fault) -> Fault:
        first = min(self, other, key=lambda fault: fault.at)
        return Fault(self.lines + other.lines, first.at, first.first)


@dataclass(frozen=True)
class Findings:
    """What was found in some lines of a file: how many there are, which have faults, and which types their columns allow."""

    rows: int = 0
    faults: Mapping[str, Fault] = field(default_factory=dict)
    """By name, one of FAULTS."""
    span: tuple[int, int] | None = None
    """The smallest and the largest of the ids that are integers, no further from zero than WIDEST_ID."""
    types: tuple[int, ...] = ()
    """By column: the set of types that its fields allow; a column that is missing here allows any."""

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

    def key_type(self, keys: int) -> pa.DataType:
        """Return the one type of the first columns: integers if all are, else text."""
        return pa.int64() if all(type_of(types) == pa.int64() for types in self.types[:keys]) else pa.string()

    def check(
        self, source: str, kind: Kind, heading: Heading, where: Callable[[Fault], str], *, drop_nulls: bool = False
    ) -> None:
        """Refuse a source with lines that cannot be read, or would be misread; `where` finds the first of them."""
        if not self.rows:
            judged = heading.judged if heading.titled else None
            hint = "" if judged is None else f"; if {shown(judged, 80)!r} is no header: --no-header (header=False)"
            raise SourceError(f"{source} has no {kind.noun}: nothing follows its header{hint}")
        known = {
            "source": source,
            "rows": self.rows,
            "titles": "names in the header" if heading.titled else "fields in its first line",
        }
        for name, message in FAULTS.items():
            if (fault := self.faults.get(name)) and not (name == "short" and drop_nulls):
                seen = {"lines": fault.lines, "line": shown(fault.first), "where": where(fault)}
                raise SourceError(message.format(**known, **seen, width=heading.width, lacks=kind.lacks, hint=kind.hint))


def open_text(
    source: str, path: Path, kind: Kind, said: ReadingOptions, *, properties: bool, drop_nulls: bool, run: StageRunner
) -> Table:
    """Return a text file as edges or vertices; `run` reads all of it once, in bounded memory, to learn its types."""
    path = path.absolute()
    head = _head(source, path, LINES_COMPARED)
    heading = Heading.of([line for line, _ in head], source, kind, said)
    names = heading.names
    if said.columns is not None and not heading.titled:
        check_names(kind, said.columns)
        if len(said.columns) > len(heading.first):
            raise SourceError(
                f"{len(said.columns)} columns are named, {', '.join(said.columns)}, and the first line of {source} has "
                f"{len(heading.first)}: name at most as many"
            )
        names = list(said.columns)
        choice = replace(
            choose(kind, names, source, replace(said, columns=None), properties=properties, titled=False), by_place=False
        )
    else:
        choice = _chosen(heading, [line for line, _ in head], source, kind, said, properties=properties)
    keys, others = choice.keys, choice.others
    places = tuple(names.index(name) for name in (*keys, *others))
    width = heading.width if heading.separator is not None or properties else 0  # otherwise only the ids of a line matter
    layout = TextSplit(source, str(path), heading.separator, places, len(keys), width)
    begin = head[0][1] if heading.titled else 0
    splits = [replace(layout, begin=first, end=last) for first, last in _cuts(source, path, begin)]
    pieces: list[Findings] = run(look_through, splits)
    found = reduce(Findings.__add__, pieces, Findings())
    if heading.titled and any(fields.unclosed != NONE for fields in find(head[0][0], heading.separator, [0], heading.width)):
        found += Findings(faults={"unclosed": _fault(head[0][0], 0, begin - len(head[0][0]))})
    found.check(source, kind, heading, lambda fault: f"line {_line_number(source, path, fault.at):,}", drop_nulls=drop_nulls)
    kinds = [found.key_type(len(keys))] * len(keys) + [type_of(types) for types in found.types[len(keys) :]]
    schema = pa.schema(list(zip((*kind.ends, *others), kinds, strict=True)))
    typed = [replace(split, rows=piece.rows, schema=schema) for split, piece in zip(splits, pieces, strict=True)]
    entry = choice.entry(source, header=heading.titled, judged=heading.judged)
    span = found.span if kinds[0] == pa.int64() else None
    return Table(source, keys, schema, typed, found.rows, span, is_text=True, reading=entry)


def _chosen(
    heading: Heading, lines: Sequence[bytes], source: str, kind: Kind, said: ReadingOptions, *, properties: bool
) -> Choice:
    """Return the columns of a text that are read; if a user has to say which, the first lines serve for a suggestion."""
    names = heading.names

    def suggest() -> tuple[str, ...]:
        if kind is not EDGES:
            return tuple(names[:1])
        rows = [split_line(line, heading.separator) for line in lines[1:]]
        columns = [[row[i] for row in rows if i < len(row)] for i in range(len(names))]
        types = ["text" if any(not IS_VALUE.fullmatch(v) for v in values) else "number" for values in columns]
        return plausible_ends(names, types, [set(values) for values in columns])

    try:
        return choose(kind, names, source, said, properties=properties, titled=heading.titled, suggest=suggest)
    except SourceError as error:
        is_said = any(one is not None for one in ((said.src, said.dst) if kind is EDGES else (said.id,)))
        if heading.titled and heading.judged is not None and not is_said and len(names) >= len(kind.ends):
            line = shown(heading.judged, 80)
            raise SourceError(f"{error}; if the first line, {line!r}, is no header: --no-header (header=False)") from None
        raise


@dataclass(frozen=True)
class TextSplit:
    """Some lines of a file, and how to read them: the places of the fields, ids first, and the most fields a line may have."""

    source: str
    path: str
    separator: str | None
    places: tuple[int, ...]
    keys: int
    width: int = 0
    begin: int = 0
    end: int | None = None
    rows: int = 0
    schema: pa.Schema | None = None

    def blocks(self) -> Iterator[bytes]:
        """Read the text, in blocks of whole lines."""
        return blocks(self.source, Path(self.path), self.begin, self.end)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        with reading(self.source):
            for block in self.blocks():
                yield from self.parse(block)

    def parse(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """Give the rows of some lines."""
        assert self.schema is not None
        for fields in find(block, self.separator, self.places):
            try:
                columns = [fields.column(i, column.type) for i, column in enumerate(self.schema)]
                yield pa.record_batch(columns, schema=self.schema)
            except pa.ArrowInvalid as error:
                raise SourceError(f"{self.source} has changed while it was read: {error}") from None

    def look(self, block: bytes, position: int, faults: Mapping[str, Fault]) -> Findings:
        """Return what is found in some lines, which begin at a position of the file and are known to have some faults."""
        found = Findings(faults=faults)
        for fields in find(block, self.separator, self.places, self.width):
            found += _findings(fields, self.keys, position, readable=not faults)
        return found


def look_through(split: TextSplit) -> Findings:
    """Stage: learn what one piece holds."""
    found = Findings()
    position = split.begin
    for block in split.blocks():
        found += split.look(block, position, unreadable(block, position))
        position += len(block)
    return found


def _findings(fields: Fields, keys: int, position: int, *, readable: bool) -> Findings:
    """Return what is found in the fields of some lines; `position` is where their block begins."""
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
    """Return the fault of the line at `begin` in a block, which itself begins at a position of the file."""
    line = _NEWLINE.split(text[begin : begin + MAX_LINE_BYTES], maxsplit=1)[0]
    return Fault(lines, position + begin, line.strip(BLANKS).decode(errors="replace"))


def unreadable(block: bytes, position: int = 0) -> dict[str, Fault]:
    """Return the faults of lines that are not UTF-8 (other than comments), or contain a zero byte."""
    faults = {}
    if (zero := block.find(b"\0")) >= 0:
        faults["binary"] = _fault(block, max(block.rfind(b"\n", 0, zero), block.rfind(b"\r", 0, zero)) + 1, position)
    if not block.isascii() and not _is_utf8(block):
        lines = (line for line in re.finditer(rb"[^\r\n]+", block) if is_significant(line[0]) and not _is_utf8(line[0]))
        if begins := [line.start() for line in lines]:
            faults["garbled"] = _fault(block, begins[0], position, len(begins))
    return faults


def _line_number(source: str, path: Path, position: int) -> int:
    """Return the number, from 1, of the line that begins at a position of a file."""
    lines, before = 1, b""
    for block in blocks(source, path, 0, None):
        part = block[:position]
        lines += part.count(b"\n") + part.count(b"\r") - part.count(b"\r\n") - (before + part[:1] == b"\r\n")
        position -= len(block)
        if position <= 0:
            break
        before = block[-1:]
    return lines


def blocks(source: str, path: Path, begin: int, end: int | None, size: int = 0) -> Iterator[bytes]:
    """Yield the text from `begin` to `end`, both starts of lines, in blocks of whole lines."""
    size = size or SPLIT_BYTES
    compression = compression_of(path)
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
    if path.suffix.lower() in COMPRESSED_SUFFIXES:
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


def _head(source: str, path: Path, lines: int) -> list[tuple[bytes, int]]:
    """Return the first lines that are neither empty nor comments, and where each ends."""
    head: list[tuple[bytes, int]] = []
    position = 0
    for block in blocks(source, path, 0, None, size=2**16):
        for match in re.finditer(rb"[^\r\n]+", block):
            if is_significant(match[0]):
                head.append((match[0], position + match.end()))
            if len(head) == lines:
                return head
        position += len(block)
    return head


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
