"""Read .case files, which hold the truth of the project: a source, questions about it, and their answers.

Blocks are separated by blank lines; `#` begins a comment line. A source serves every question below it, until the next one:

    graph undirected                    or directed; then one edge a line
    1 2
    graph directed (src: string, dst: string, amount: int64, at: date) parallel types=kind
    ann bob 5 2024-05-01                with columns beyond the two ends, each row is an edge with an id: 0, 1, 2, ...
    edges likes (src: string, dst: string)      one of several relations of a graph, instead of rows below `graph`
    vertices (id: string, name: string, kind: string) labels=kind
    ann "Ann Smith" person
    stored tri triangle                 the result of a query, kept in the index as a relation

    relations                           relations that are no graph, of any arity; `relations drop_nulls` drops rows with NULLs
    relation lives(person: string, city: string)
    ann Ghent

Columns without types are int64 if every value is a whole number, else string. Cells are separated by spaces, and quoted like
JSON strings where they hold spaces; NULL and NaN are what they say. TYPES below lists the types.

A question gives its answer as rows (in the order of the head), as a count, or as the error that it raises:

    query triangle                      a name or a rule; further `query` lines are other spellings of the same query
    where a1 < a2                       optional, like select, flags, order, window
    select a1.name
    flags unique induced                distinct unique induced cross_product deduplicate
    order at                            the column that orders the updates of an epoch
    window at 7 days                    the column by which edges expire, and the length of the window
    plan                                golden text, two spaces deep: plan, count plan, factorized plan or delta plan
      1. p1(a1, a2) := ...
    rows
    1 2 3
    count 1                             instead of rows, or after them, or before the first epoch
    error QueryError                    the class, and the whole message two spaces deep; INDEX is the path of the index
      there is no relation 'edg'
    also spark machine-code             further treatments of this question, which take long
    xfail balanced-7: the reason        treatments that are known to fail, and why

Epochs change the source of their question alone, one after the other. What an epoch does not mention did not happen:

    epoch                               updates of `edge`, its columns after the sign; or of the columns that are listed:
    epoch (relation: string, src: int64, dst: int64, at: int64)
    + 2 3
    - 1 2
    changes                             the signed rows of the epoch
    + 2 3 1
    count 4                             the number of matches after it
    fate inserted 1 deleted 1           what became of the updates; figures that are not named are zero
    error SourceError                   instead of these
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from pathlib import Path
from typing import Any

import pyarrow as pa

FOLDER = Path(__file__).parent / "cases"

TYPES = {
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "decimal": pa.decimal128(10, 2),
    "string": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "time": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
}
PLANS = ("plan", "count plan", "factorized plan", "delta plan")
FLAGS = ("distinct", "unique", "induced", "cross_product", "deduplicate")

Row = tuple[Any, ...]
Cells = tuple[str, ...]
"""A row as text, each value in the one form that `shown` gives it."""


@dataclass
class Table:
    """Rows with named and typed columns."""

    name: str
    types: dict[str, pa.DataType | None]
    """None, until the values tell."""
    lines: list[Cells] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """The rows as values."""
        return [tuple(map(_value, line, self.schema.types)) for line in self.lines]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, kind or self._guess(i)) for i, (name, kind) in enumerate(self.types.items())])

    def _guess(self, column: int) -> pa.DataType:
        whole = all(re.fullmatch(r"[+-]?\d+|NULL", line[column]) for line in self.lines)
        return pa.int64() if whole else pa.string()

    @property
    def arrow(self) -> pa.Table:
        rows = self.rows
        columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(self.schema.types)]
        return pa.Table.from_arrays(columns, schema=self.schema)


@dataclass(eq=False)
class Source:
    """A graph, or relations."""

    name: str
    """File and line, for messages."""
    directed: bool | None
    """None for relations that are no graph."""
    tables: dict[str, Table] = field(default_factory=dict)
    vertices: Table | None = None
    options: dict[str, str] = field(default_factory=dict)
    """parallel, labels and types, as `Graph` takes them, or drop_nulls."""
    stored: dict[str, str] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list, repr=False)

    @property
    def is_graph(self) -> bool:
        return self.directed is not None

    def has_ids(self, relation: str) -> bool:
        """Tell whether the rows of a relation of a graph have ids."""
        return "parallel" in self.options or len(self.tables[relation].types) > 2


@dataclass
class Epoch:
    """Updates that take effect together, and what they change."""

    line: int
    updates: Table
    """The sign is its first column, `op`."""
    changes: list[Cells] | None = None
    count: int | None = None
    fate: dict[str, int] | None = None
    error: tuple[str, str] | None = None


@dataclass(eq=False)
class Question:
    """A query in all its spellings, and its answer."""

    file: str
    """Its path below the folder of cases."""
    source: Source
    spellings: dict[int, str] = field(default_factory=dict)
    """By line."""
    where: str | None = None
    select: str | None = None
    flags: dict[str, bool] = field(default_factory=dict)
    order: str | None = None
    window: tuple[str, str] | None = None
    plans: dict[str, str] = field(default_factory=dict)
    rows: list[Cells] | None = None
    count: int | None = None
    error: tuple[str, str] | None = None
    """The name of its class, and its text."""
    epochs: list[Epoch] = field(default_factory=list)
    also: tuple[str, ...] = ()
    xfail: dict[str, str] = field(default_factory=dict)
    """Treatment -> why it fails."""

    @property
    def options(self) -> dict[str, Any]:
        """What goes with the text of the query."""
        return {"where": self.where, "select": self.select, **self.flags}

    @property
    def expected_count(self) -> int:
        if self.count is not None:
            return self.count
        assert self.rows is not None
        return len(self.rows)


def read_cases() -> list[Question]:
    """Return every question of every file."""
    return [question for file in sorted(FOLDER.rglob("*.case")) for question in read_case(file)]


def read_case(file: Path) -> list[Question]:
    """Return the questions of a file."""
    return list(_Reader(file).questions())


class _Reader:
    """Reads one file: a block at a time, a line after the other."""

    def __init__(self, file: Path) -> None:
        self.path = file
        self.name = file.relative_to(FOLDER).as_posix() if file.is_relative_to(FOLDER) else file.name
        self.source: Source | None = None

    def questions(self) -> Iterator[Question]:
        for block in self._blocks():
            if block[0][1].split()[0] in ("query", "where"):
                yield self._question(block)
            else:
                self._tables(block)

    def _blocks(self) -> Iterator[list[tuple[int, str]]]:
        block: list[tuple[int, str]] = []
        for number, line in enumerate(self.path.read_text(encoding="utf-8").split("\n"), 1):
            if line.strip() and not line.startswith("#"):
                block.append((number, line))
            elif block and not line.startswith("#"):
                yield block
                block = []
        if block:
            yield block

    def _tables(self, block: list[tuple[int, str]]) -> None:
        """Read tables of a source: of a new one, or further ones."""
        table: Table | None = None
        for number, line in block:
            word, _, rest = line.partition(" ")
            if word in ("graph", "relations"):
                directed = {"directed": True, "undirected": False}[rest.split()[0]] if word == "graph" else None
                self.source = Source(f"{self.name}:{number}", directed)
            source = self._known(number)
            if word == "graph":
                columns, options = _header(rest.partition(" ")[2])
                source.options |= options
                table = source.tables["edge"] = Table("edge", columns or dict.fromkeys(("src", "dst")))
            elif word in ("edges", "relation"):
                name = re.match(r"\w+", rest)[0]  # type: ignore[index]
                columns, _ = _header(rest[len(name) :].strip())
                if word == "edges" and not source.tables.get("edge", Table("", {"": None})).lines:
                    source.tables.pop("edge", None)
                table = source.tables[name] = Table(name, columns or dict.fromkeys(("src", "dst")))
            elif word == "vertices":
                columns, options = _header(rest)
                source.options |= options
                table = source.vertices = Table("vertices", columns)
            elif word == "relations":
                source.options |= _header(rest)[1]
            elif word == "stored":
                name, _, query = rest.partition(" ")
                source.stored[name] = query
            elif table is None:
                raise self._mistake(number, line)
            else:
                table.lines.append(self._cells(number, line, len(table.types)))

    def _question(self, block: list[tuple[int, str]]) -> Question:
        question = Question(self.name, self._known(block[0][0]))
        question.source.questions.append(question)
        part: Question | Epoch = question
        """What the lines are about: the question, or its last epoch."""
        rows: list[Cells] | None = None
        texts: list[str] | None = None
        found: dict[str, list[str]] = {}
        for number, line in block:
            if line.startswith("  "):
                if texts is None:
                    raise self._mistake(number, line)
                texts.append(line[2:])
                continue
            word, _, rest = line.partition(" ")
            texts = None
            if line in PLANS:
                texts = found[line] = []
            elif word == "error":
                texts = []
                part.error = (rest, texts)  # type: ignore[assignment]
            elif word == "query":
                question.spellings[number] = rest
            elif word in ("where", "select", "order"):
                setattr(question, word, rest)
            elif word == "flags":
                question.flags = dict.fromkeys(rest.split(), True)
                assert set(question.flags) <= set(FLAGS), rest
            elif word == "window":
                column, _, length = rest.partition(" ")
                question.window = (column, length)
            elif word == "also":
                question.also = tuple(rest.split())
            elif word == "xfail":
                names, _, reason = rest.partition(": ")
                question.xfail |= dict.fromkeys(names.split(), reason)
            elif word == "count":
                part.count = int(rest)
            elif word == "fate" and isinstance(part, Epoch):
                words = rest.split()
                part.fate = dict(zip(words[::2], map(int, words[1::2]), strict=True))
            elif line == "rows":
                rows = question.rows = []
            elif line == "changes" and isinstance(part, Epoch):
                rows = part.changes = []
            elif word == "epoch":
                columns, _ = _header(rest)
                table = Table("updates", {"op": pa.string(), **(columns or self._edge_columns(question.source))})
                part = Epoch(number, table)
                question.epochs.append(part)
                rows = table.lines
            elif rows is not None:
                rows.append(self._cells(number, line))
            else:
                raise self._mistake(number, line)
        for owner in (question, *question.epochs):
            if owner.error is not None:
                owner.error = (owner.error[0], "\n".join(owner.error[1]))
        question.plans = {kind: "\n".join(lines) for kind, lines in found.items()}
        return question

    def _edge_columns(self, source: Source) -> dict[str, pa.DataType | None]:
        table = source.tables.get("edge") or next(iter(source.tables.values()))
        return dict(zip(table.schema.names, table.schema.types, strict=True))

    def _cells(self, number: int, line: str, width: int | None = None) -> Cells:
        found = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', line)
        if width is not None and len(found) != width:
            raise ValueError(f"{self.name}:{number}: {len(found)} cells instead of {width}: {line!r}")
        return tuple(shown(json.loads(cell)) if cell.startswith('"') else cell for cell in found)

    def _known(self, number: int) -> Source:
        if self.source is None:
            raise ValueError(f"{self.name}:{number}: a graph or relations come first")
        return self.source

    def _mistake(self, number: int, line: str) -> ValueError:
        return ValueError(f"{self.name}:{number}: what is {line!r}?")


def _header(text: str) -> tuple[dict[str, pa.DataType | None], dict[str, str]]:
    """Return the columns in parentheses, and the options after them."""
    match = re.fullmatch(r"(?:\((.*?)\))?\s*(.*)", text)
    assert match is not None
    columns = {}
    for column in filter(None, (match[1] or "").split(", ")):
        name, _, kind = column.partition(": ")
        columns[name.strip('"')] = TYPES[kind] if kind else None
    options = {name: value for name, _, value in (option.partition("=") for option in match[2].split())}
    return columns, options


def _value(cell: str, kind: pa.DataType) -> Any:
    """Return the value that a cell spells."""
    if cell == "NULL":
        return None
    if cell.startswith('"'):
        cell = json.loads(cell)
    if pa.types.is_integer(kind):
        return int(cell)
    if pa.types.is_floating(kind):
        return float(cell)
    if pa.types.is_decimal(kind):
        return Decimal(cell)
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}[cell]
    if pa.types.is_date(kind):
        return date.fromisoformat(cell)
    if pa.types.is_timestamp(kind):
        moment = datetime.fromisoformat(cell)
        return moment.replace(tzinfo=UTC) if kind.tz else moment
    return cell.encode() if pa.types.is_binary(kind) else cell


def shown(value: Any) -> str:
    """Return a value as cells have it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "NaN" if isnan(value) else repr(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        return value if re.fullmatch(r"[^\s\"#][^\s\"]*", value) and value != "NULL" else json.dumps(value, ensure_ascii=False)
    return str(value)


def message(error: Exception) -> tuple[str, str]:
    """Return an error as cases have it: its class, and its text without the path of the index, which differs each time."""
    return type(error).__name__, re.sub(r"/\S+/index", "INDEX", str(error))
