"""Indices that were damaged, or whose manifests say something else: made by chance, and tried.

`python -m tests.altered damages|mutations|crafts FIRST LAST` tries the alterations with these numbers, in one process, and
ends with what went wrong. An alteration has to be told by an error of ours, or to leave every answer right; what was crafted,
with the right checksums, may give other answers.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
import traceback
import warnings
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import bigjoin as bj
from bigjoin.cli.info import describe
from bigjoin.errors import BigjoinError
from bigjoin.index.checksums import file_entry
from bigjoin.index.manifest_file import MANIFEST
from bigjoin.index.typed_json import to_json
from bigjoin.indexing import build_index
from bigjoin.languages import parse
from bigjoin.local.threads import count_here
from bigjoin.spark.session import get_session
from bigjoin.storage import storage_at
from bigjoin.streaming import commit
from bigjoin.streaming.compaction import without_runs
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.watched import Watched

TRIANGLE = "q(a, b, c) := edge(a, b), edge(b, c), edge(a, c)"
LARGE_PAYMENTS = "q(a, b, e) := edge(a, b, e), e.amount > 6"
PERSONS = "q(a, b) := person(a), edge(a, b)"
KINDS = ("plain", "updated", "undirected", "rich", "stored")

Row = tuple[str, str, int]


def rows_of(seed: int = 5, count: int = 90, names: int = 16) -> list[Row]:
    """Return payments between some vertices, a few of them twice or with itself."""
    random = Random(seed)
    return [(f"v{random.randrange(names)}", f"v{random.randrange(names)}", random.randrange(10)) for _ in range(count)]


def example(path: Path, kind: str) -> Path:
    """Build an index of one kind at a path."""
    rows = rows_of()
    edges = pa.table({"src": [a for a, _, _ in rows], "dst": [b for _, b, _ in rows]})
    if kind == "rich":
        names = sorted({v for a, b, _ in rows for v in (a, b)})
        vertices = pa.table({"id": names, "label": ["person" if i % 3 else "firm" for i in range(len(names))]})
        edges = edges.append_column("amount", pa.array([w for _, _, w in rows]))
        build_index(edges, path, vertices=vertices, shards=3)
        return path
    stored = {"tri": parse(TRIANGLE)} if kind == "stored" else {}
    build_index(edges, path, directed=kind != "undirected", shards=2 if kind == "updated" else 1, materialized=stored)
    if kind == "updated":
        graph = bj.Graph.open(path)
        for number in range(3):  # each writes files, as a large epoch does; tests/test_epoch_log.py has those of a log
            gone, new = rows[number * 7 : number * 7 + 20], rows_of(50 + number, 3, 30)
            changes = [*((a, b, "-") for a, b, _ in gone), *((a, b, "+") for a, b, _ in new)]
            columns = zip(*changes, strict=True)
            with mock.patch.object(commit, "MAX_LOGGED_BYTES", 0):
                graph.apply(pa.table(dict(zip(("src", "dst", "op"), map(list, columns), strict=True))))
    return path


def pairs_of(kind: str) -> set[tuple[str, str]]:
    """Return the edges that an example has, by the meaning of what was done to it."""
    rows = rows_of()
    pairs = {(a, b) for a, b, _ in rows}
    if kind == "undirected":
        return {pair for a, b in pairs for pair in ((a, b), (b, a)) if a != b}
    if kind == "updated":
        for number in range(3):
            pairs -= {(a, b) for a, b, _ in rows[number * 7 : number * 7 + 20]}
            pairs |= {(a, b) for a, b, _ in rows_of(50 + number, 3, 30)}
    return pairs


def triangles(pairs: set[tuple[str, str]]) -> int:
    """Count the bindings of TRIANGLE by looking at all of them."""
    return sum((b, c) in pairs and (a, c) in pairs for a, b in pairs for c in {c for x, c in pairs if x == b})


def truth(kind: str) -> dict[str, Any]:
    """Return the answers that an example has to give, by brute force."""
    rows, pairs = rows_of(), pairs_of(kind)
    more = pairs | {("v0", "fresh"), ("v1", "v2"), ("v2", "v0")}
    more |= {(b, a) for a, b in more} if kind == "undirected" else set()
    found = {"edges": len(pairs), "triangles": triangles(pairs), "created": triangles(more) - triangles(pairs)}
    if kind == "rich":
        names = sorted({v for a, b, _ in rows for v in (a, b)})
        persons = {name for i, name in enumerate(names) if i % 3}
        found |= {"large": sum(w > 6 for _, _, w in rows), "persons": sum(a in persons for a, _ in pairs)}
    return found


def answers(path: Path, kind: str) -> dict[str, Any]:
    """Return what an index answers, asked in every way that needs no Spark."""
    graph = bj.Graph.open(path)
    describe(graph.index)
    index = without_runs(graph.index)
    found = {"edges": count_here(index, parse("q(a, b) := edge(a, b)")), "triangles": count_here(index, parse(TRIANGLE))}
    if kind == "rich":
        found |= {"large": count_here(index, parse(LARGE_PAYMENTS)), "persons": count_here(index, parse(PERSONS))}
    columns = {"src": ["v0", "v1", "v2"], "dst": ["fresh", "v2", "v0"], "op": ["+", "+", "+"]}
    epoch = bj.Graph.open(path).apply(pa.table(columns | ({"amount": [1, 1, 1]} if kind == "rich" else {})), TRIANGLE)
    assert epoch.table.num_rows == epoch.created + epoch.destroyed
    found["created"] = epoch.created
    return found


def watching(path: Path, output: Path | None) -> Monitor:
    """Return a monitor of the triangles of an index."""
    query = {"q": Watched(parse(TRIANGLE))}
    return Monitor(path, query, spark=get_session, initial=count_here, output=output)


# Manifests


def digest(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest with the checksum that it should have."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def altered(path: Path, manifest: dict[str, Any], where: list[str], value: Any) -> None:
    """Write a manifest with another value somewhere, and the right checksum."""
    changed = deepcopy(manifest)
    at = changed
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    (path / MANIFEST).write_text(json.dumps(digest(changed)))


def sealed_again(path: Path) -> None:
    """Give all files of an index the checksums that they have now."""
    manifest = json.loads((path / MANIFEST).read_text())
    manifest["files"] = {name: to_json(file_entry(storage_at(path).map(name).content)) for name in manifest["files"]}
    (path / MANIFEST).write_text(json.dumps(digest(manifest)))


def as_version_2(path: Path) -> None:
    """Make an index one of the older format: its files have one SHA-256 each."""
    manifest = json.loads((path / MANIFEST).read_text())
    for name, entry in manifest["files"].items():
        checksum = hashlib.sha256((path / name).read_bytes()).hexdigest()
        manifest["files"][name] = {"bytes": entry["bytes"], "sha256": checksum}
    del manifest["log"]
    (path / MANIFEST).write_text(json.dumps(digest({**manifest, "version": 2})))


def mutate(manifest: dict[str, Any], random: Random) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return a manifest in which something is different, and where."""
    changed = deepcopy(manifest)
    places = [place for place in _places(changed, ()) if place[:1] not in (("sha256",), ("format",), ("version",))]
    where = random.choice(places)
    holder = changed
    for key in where[:-1]:
        holder = holder[key]
    value, texts = holder[where[-1]], [t for t in _texts(changed) if len(t) < 60]
    if isinstance(holder, dict) and random.random() < 0.15:
        what = random.choice(["drop", "rename", "add"])
        if what == "add":
            holder[random.choice(texts)] = random.choice([value, 1, None])
        else:
            kept = holder.pop(where[-1])
            if what == "rename":
                holder[random.choice(texts)] = kept
        return changed, where
    holder[where[-1]] = _another(value, texts, random)
    return changed, where


def _another(value: Any, texts: list[str], random: Random) -> Any:
    anything = [None, True, 0, -1, 1.5, "x", [], {}, [value], {"a": value}, 2**63, "9" * 300, float("nan"), [[]] * 3]
    if random.random() < 0.3:
        return random.choice(anything)
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return random.choice(
            [0, 1, -1, value + 1, value - 1, 2 * value + 1, 2**31, 2**32, 2**63, 2**70, -(2**63), 1.5, 10**400]
        )
    if isinstance(value, str):
        outside = ["", "../" + value, "/etc/passwd", value + "\0", "epoch=1", value[:-1], value.upper(), "a" * 10_000, "\ud800"]
        return random.choice([*outside, *random.sample(texts, min(9, len(texts)))])
    if isinstance(value, list):
        return random.choice([value[:-1], value + value[-1:], value[::-1], [], value[1:], value * 2])
    return {k: v for k, v in value.items() if random.random() < 0.5} if isinstance(value, dict) else 0


def _places(value: Any, where: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, below in items for place in [(*where, key), *_places(below, (*where, key))]]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for below in items for text in _texts(below)] + (list(value) if isinstance(value, dict) else [])


def describes_another(where: tuple[Any, ...], what: str) -> bool:
    """Tell whether an index that differs there may well give another answer: names, and who has which label or property."""
    if what == "persons":
        return where[0] == "relations" and where[1:2] in ((), ("person",), ("firm",))
    if what == "large":
        return where[0] == "domains" and {"properties", "files"} & set(where) != set()
    return where == ("relations",)


# Files


def damage(path: Path, random: Random) -> str:
    """Damage a file of an index in some way, and return which and how."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.name != ".lock" and file.stat().st_size)
    file = random.choice(files)
    content = bytearray(file.read_bytes())
    at, length = random.randrange(len(content)), random.choice([1, 1, 4, 8, 64])
    how = random.choice(["flip", "flip", "flip", "fill", "zero", "swap", "cut", "grow", "move"])
    if how == "flip":
        content[at] ^= 1 << random.randrange(8)
    elif how in ("fill", "zero"):
        content[at : at + length] = bytes([255 if how == "fill" else 0]) * len(content[at : at + length])
    elif how == "swap":
        other = random.randrange(len(content))
        content[at], content[other] = content[other], content[at]
    elif how == "cut":
        del content[at:]
    elif how == "grow":
        content += random.randbytes(length)
    else:
        file.write_bytes(random.choice(files).read_bytes())
        return f"{file.name} is another"
    file.write_bytes(content)
    return f"{file.name} {how} at {at}"


# Files that were made to deceive: their checksums are right


def craft(path: Path, random: Random) -> str:
    """Change what is in a file of an index, and seal it again; return which and how."""
    files = sorted(file for file in path.rglob("*") if file.suffix in (".npy", ".npz", ".arrow"))
    file = random.choice(files)
    how = f"{file.name} crafted"
    if file.suffix == ".npy":
        np.save(file, _crafted(np.load(file), random))
    elif file.suffix == ".npz":
        with np.load(file) as archive:
            arrays = dict(archive)
        name = random.choice(sorted(arrays))
        arrays[name] = _crafted(arrays[name], random)
        np.savez(file, **arrays)
    else:
        table = pa.ipc.open_file(pa.BufferReader(file.read_bytes())).read_all()
        place = random.randrange(table.num_columns)
        column = _crafted_column(table.column(place).combine_chunks(), random)
        rows = table.slice(0, len(column)) if len(column) <= len(table) else pa.concat_tables([table, table.slice(0, 1)])
        table = rows.set_column(place, table.field(place).name, column)
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        how += f" as {column.type}"
    sealed_again(path)
    return how


def _crafted(array: Any, random: Random) -> Any:
    """Return an array that differs: a value, two exchanged, its length, its type, its shape."""
    flat = array.reshape(-1).copy()
    if not len(flat):
        return random.choice([array.astype(np.int8), np.zeros(3, array.dtype), array.reshape(-1, 1)])
    at, other = random.randrange(len(flat)), random.randrange(len(flat))
    choice = random.randrange(8)
    if choice < 3:
        flat[at] = random.choice([0, 1, flat[other], flat[at] + 1, 1 << 20, np.iinfo(array.dtype).max])
        return flat.reshape(array.shape)
    if choice == 3:
        flat[at], flat[other] = flat[other], flat[at]
        return flat.reshape(array.shape)
    if choice == 4:
        return random.choice([array[:-1], array[1:], np.concatenate([array, array[-1:]]), array[:0]])
    if choice == 5:
        return array.astype(random.choice([np.int32, np.int64, np.uint64, np.float64, np.uint8, ">u4", "<u2", "M8[us]", "U3"]))
    if choice == 6:
        return random.choice([array.reshape(1, *array.shape), array[..., None], np.asfortranarray(array[None]), flat[0]])
    return np.sort(flat).reshape(array.shape)


def _crafted_column(column: Any, random: Random) -> Any:
    """Return a column that differs: values twice, NULLs, another length, another type."""
    values = column.to_pylist()
    at = random.randrange(len(values)) if values else 0
    choice = random.randrange(5)
    if choice == 0 and values:
        values[at] = random.choice(values)
    elif choice == 1 and values:
        values[at] = None
    elif choice == 2:
        return column.slice(0, max(0, len(column) - 1))
    elif choice == 3:
        texts = [str(value) for value in values]
        kinds = [pa.string_view(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())]
        kind = random.choice(kinds)
        return pa.array([t.encode() for t in texts], kind) if kind == pa.binary() else pa.array(texts, kind)
    else:
        made = [[[v] for v in values], [{"a": v} for v in values], [None] * len(values), list(range(len(values)))]
        return pa.array(random.choice(made))
    return pa.array(values, column.type)


# Trying


def tried(what: str, number: int, kind: str, template: Path, folder: Path) -> str | None:
    """Alter a copy of an example, and return what is wrong with the outcome, if anything is."""
    random = Random(number)
    path = folder / f"{what}-{number}"
    shutil.copytree(template, path)
    where: tuple[Any, ...] = ()
    if what == "damages":
        how = damage(path, random)
    elif what == "crafts":  # another graph, perhaps, so only that it ends with an answer or an error of ours
        how = craft(path, random)
    else:
        manifest, where = mutate(json.loads((path / MANIFEST).read_text()), random)
        how = ".".join(map(str, where))
        (path / MANIFEST).write_text(json.dumps(digest(manifest)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = answers(path, kind)
    except BigjoinError as error:
        return None if len(str(error)) < 2000 else f"{number} {kind} {how}: a message of {len(str(error))} characters"
    except Exception:
        return f"{number} {kind} {how}:\n{traceback.format_exc()[-1500:]}"
    finally:
        shutil.rmtree(path)
    if what == "crafts":
        return None
    wrong = {name: (found[name], wanted) for name, wanted in truth(kind).items() if found[name] != wanted}
    wrong = {name: both for name, both in wrong.items() if not where or not describes_another(where, name)}
    return f"{number} {kind} {how}: {wrong}" if wrong else None


def main(what: str, first: int, last: int) -> None:
    """Try alterations, and end with an error if some did not end as they should."""
    bad: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        templates = {kind: example(Path(folder) / kind, kind) for kind in KINDS}
        for kind, template in templates.items():
            copy = shutil.copytree(template, Path(folder) / "sound")
            assert answers(Path(copy), kind) == truth(kind), kind
            shutil.rmtree(copy)
        for number in range(first, last):
            kind = KINDS[number % len(KINDS)]
            if (said := tried(what, number, kind, templates[kind], Path(folder))) is not None:
                bad.append(said)
                sys.stdout.write(f"{said}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{last - first} tried, {len(bad)} wrong\n")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
