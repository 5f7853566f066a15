"""The shell without a terminal: where texts end, what stands on a command's line, what Tab completes, what is kept and set."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import click
import pytest

from bigjoin.cli.shell import history
from bigjoin.cli.shell.arguments import Syntax, words_of
from bigjoin.cli.shell.commands import ALIASES, SHELL_COMMANDS, asking, command_named
from bigjoin.cli.shell.completion import Known, RelationColumns, candidates, properties_of
from bigjoin.cli.shell.help import help_of, overview
from bigjoin.cli.shell.questions import command_for
from bigjoin.cli.shell.settings import SETTABLE, Settings
from bigjoin.cli.shell.texts import Entry, entries, is_complete
from bigjoin.errors import BigjoinError

# Where texts end


TYPED = [
    ("triangle", ["triangle"]),
    ("5-clique\n4-cycle", ["5-clique", "4-cycle"]),
    ("triangle;", ["triangle"]),
    ("q(a, b) := edge(a, b)\nhouse", ["q(a, b) := edge(a, b)", "house"]),
    ("q(a, b) :=\n  edge(a, b),\n  edge(b, a)\nhouse", ["q(a, b) :=\n  edge(a, b),\n  edge(b, a)", "house"]),
    ("q(a, b)\n  := edge(a, b)", ["q(a, b)\n  := edge(a, b)"]),
    ("q(a) := edge(a, b), a < 5 and\n b > 3", ["q(a) := edge(a, b), a < 5 and\n b > 3"]),
    ("q(a) := edge(a,\n b)", ["q(a) := edge(a,\n b)"]),
    ("q(a) := edge(a, b).", ["q(a) := edge(a, b)."]),
    ("q(a) := edge(a, b);", ["q(a) := edge(a, b)"]),
    ("q(a) := r(a, 'x, (\n y'), edge(a, b)", ["q(a) := r(a, 'x, (\n y'), edge(a, b)"]),
    ("q(a, count(*)) := edge(a, b) order by\n a", ["q(a, count(*)) := edge(a, b) order by\n a"]),
    ("q(a, b) := edge*1..4(a, b)   # from a to b", ["q(a, b) := edge*1..4(a, b)"]),
    ("(a)-[]->(b)", ["(a)-[]->(b)"]),
    ("(a)-[]->(b);\n(b)-[]->(c)", ["(a)-[]->(b);\n(b)-[]->(c)"]),
    ("(a)-[]->\n(b)", ["(a)-[]->\n(b)"]),
    ("(a)-[]->(b);\n\ntriangle", ["(a)-[]->(b)", "triangle"]),
    ("MATCH (a)-[]->(b)\nRETURN a, b;", ["MATCH (a)-[]->(b)\nRETURN a, b"]),
    ("match\n(a)-[]->(b) RETURN a;", ["match\n(a)-[]->(b) RETURN a"]),
    ("MATCH (a)-[]->(b) RETURN a\n\ntriangle", ["MATCH (a)-[]->(b) RETURN a", "triangle"]),
    ("MATCH (a) WHERE a.name = 'x;\n' RETURN a;", ["MATCH (a) WHERE a.name = 'x;\n' RETURN a"]),
    ("MATCH (a) // one;\nRETURN a; // two", ["MATCH (a) // one;\nRETURN a"]),
    ("SELECT a.src\nFROM edge a;\nSELECT 1;", ["SELECT a.src\nFROM edge a", "SELECT 1"]),
    ("select\nsrc from edge;", ["select\nsrc from edge"]),
    ("SELECT src -- the source;\nFROM edge;", ["SELECT src -- the source;\nFROM edge"]),
    ("SELECT /* one;\n two */ src FROM edge;", ["SELECT /* one;\n two */ src FROM edge"]),
    ("(SELECT src\nFROM edge);", ["(SELECT src\nFROM edge)"]),
    ("WITH t AS (SELECT 1)\nSELECT 2;", ["WITH t AS (SELECT 1)\nSELECT 2"]),
    ("SELECT 1;;", ["SELECT 1"]),
    ("\\set limit 5\ntriangle", ["\\set limit 5", "triangle"]),
    ("\\count triangle\nhouse", ["\\count triangle", "house"]),
    ("\\count MATCH (a)-[]->(b) RETURN a\nhouse", ["\\count MATCH (a)-[]->(b) RETURN a", "house"]),
    ("\\find MATCH (a)-[]->(b) RETURN *\nhouse", ["\\find MATCH (a)-[]->(b) RETURN *", "house"]),
    ("\\count --by a MATCH (a)-[]->(b) RETURN a;\nhouse", ["\\count --by a MATCH (a)-[]->(b) RETURN a", "house"]),
    ("\\count q(a, b) :=\n edge(a, b)\nhouse", ["\\count q(a, b) :=\n edge(a, b)", "house"]),
    ("\\count q(a, b)\n := edge(a, b)\nhouse", ["\\count q(a, b)\n := edge(a, b)", "house"]),
    ("\\explain+ (a)-[]->(b);\n(b)-[]->(a)\nhouse", ["\\explain+ (a)-[]->(b);\n(b)-[]->(a)", "house"]),
    ("\\output out.csv q(a, b) :=\n edge(a, b)", ["\\output out.csv q(a, b) :=\n edge(a, b)"]),
    ("\\o out(1.csv triangle\nhouse", ["\\o out(1.csv triangle", "house"]),
    ("\\define ring = q(a) :=\n edge(a, b)\nhouse", ["\\define ring = q(a) :=\n edge(a, b)", "house"]),
    ("\\count\nhouse", ["\\count", "house"]),
    ("\\open file(1.csv\nhouse", ["\\open file(1.csv", "house"]),
    ("\\nonsense (\nhouse", ["\\nonsense (", "house"]),
    ("q(a) := edge(a, b) \\\n  order by a\nhouse", ["q(a) := edge(a, b)\n  order by a", "house"]),
    ("\\count \\\n  triangle\nhouse", ["\\count\n  triangle", "house"]),
    ("MATCH (a)-[]->(b) \\\nRETURN a;", ["MATCH (a)-[]->(b)\nRETURN a"]),
    ("triangle \\\n\nhouse", ["triangle", "house"]),
    ("# a comment\n-- another\n// a third\ntriangle", ["triangle"]),
    ("\n\n  \ntriangle\n\n", ["triangle"]),
    ("", []),
    ("\\", ["\\"]),
    ("g.V().out()\nhouse", ["g.V().out()", "house"]),
    ("edge(a, b), edge(b, c)\nhouse", ["edge(a, b), edge(b, c)", "house"]),
    ("explain triangle\nhouse", ["explain triangle", "house"]),
    ("q(a) := edge(a, 'never closed\n\nhouse", ["q(a) := edge(a, 'never closed", "house"]),
    ("q(a, b\n\nhouse", ["q(a, b", "house"]),
    ("SELECT 'never closed;\n\nhouse", ["SELECT 'never closed;", "house"]),
    (")\nhouse", [")", "house"]),
]


@pytest.mark.parametrize(("text", "wanted"), TYPED, ids=lambda given: given[:40] if isinstance(given, str) else "")
def test_a_text_ends_where_the_rule_says(text, wanted):
    assert [entry.text for entry in entries(text, asking())] == wanted


@pytest.mark.parametrize(("text", "wanted"), TYPED, ids=lambda given: given[:40] if isinstance(given, str) else "")
def test_enter_hands_over_what_a_script_would_run(text, wanted):
    """Type a text line by line: Enter ends it after the same lines as in a script."""
    typed, handed = "", []
    for line in text.split("\n"):
        typed += line
        if is_complete(typed, asking()):
            handed += entries(typed, asking(), pasted=True)
            typed = ""
        else:
            typed += "\n"
    handed += entries(typed, asking(), pasted=True)
    assert [entry.text for entry in handed] == wanted


PASTED = [
    ("q(a, b)\n  := edge(a, b)\n   , edge(b, a)", ["q(a, b)\n  := edge(a, b)\n   , edge(b, a)"]),
    ("q(a) := edge(a, b)\n\n, edge(b, a)", ["q(a) := edge(a, b)", ", edge(b, a)"]),
    ("q(a) :=\n\nedge(a, b)", ["q(a) :=\n\nedge(a, b)"]),
    ("SELECT src\n\nFROM edge", ["SELECT src\n\nFROM edge"]),
    ("SELECT src\n\nFROM edge;\nSELECT 1;", ["SELECT src\n\nFROM edge", "SELECT 1"]),
    ("MATCH (a)-[]->(b)\n\nRETURN a\n", ["MATCH (a)-[]->(b)\n\nRETURN a"]),
    ("(a)-[]->(b)\n; (b)-[]->(c)", ["(a)-[]->(b)\n; (b)-[]->(c)"]),
    ("triangle\nhouse\n", ["triangle", "house"]),
    ("one(a) := edge(a, b)\ntwo(a) := edge(b, a)", ["one(a) := edge(a, b)", "two(a) := edge(b, a)"]),
    ("one(a) := edge(a, b)\norder by a\nlimit 3", ["one(a) := edge(a, b)\norder by a\nlimit 3"]),
    ("\\set unique on\ntriangle\nq(a) :=\n edge(a, b)", ["\\set unique on", "triangle", "q(a) :=\n edge(a, b)"]),
]


@pytest.mark.parametrize(("text", "wanted"), PASTED, ids=lambda given: given[:40] if isinstance(given, str) else "")
def test_what_is_pasted_is_one_text(text, wanted):
    assert [entry.text for entry in entries(text, asking(), pasted=True)] == wanted


def test_entries_know_their_lines():
    text = "# first\n\ntriangle\nq(a) :=\n  edge(a, b)\n\\count\n"
    assert entries(text) == [Entry("triangle", 3), Entry("q(a) :=\n  edge(a, b)", 4), Entry("\\count", 6)]


@pytest.mark.parametrize(
    "line", ["(", "'", '"', "`", "/*", "q(" * 9, "\\" * 9, "MATCH (", "--", "{[(", "((((a)-[", ";" * 9, "\ufeff", "\x00"]
)
def test_long_texts_take_little_time(line):
    started = time.monotonic()
    entries("\n".join([line] * 3000), asking())
    entries(line * 30_000, asking())
    is_complete(line * 30_000, asking())
    assert time.monotonic() - started < 20


# What stands on a command's line


def test_options_and_words_come_before_the_question():
    syntax = Syntax({"--by": True, "-o": True, "--json": False}, words=1)
    given = syntax.split(""" --by 'a, b.city' --json "my file.csv" -o=x q(a, b) := edge(a, b), a = '--no'""")
    assert given.options == ["--by", "a, b.city", "--json", "-o=x"]
    assert given.words == ["my file.csv"]
    assert given.question == "q(a, b) := edge(a, b), a = '--no'"
    assert syntax.split("--by").options == ["--by"]
    assert syntax.split("").question == ""
    assert Syntax().split("--unknown triangle").options == ["--unknown"]
    assert Syntax(words=1).split(r"my\ file.csv triangle").words == ["my file.csv"]
    assert Syntax(words=1, equals=True).split("ring=q(a) := edge(a, b)").words == ["ring"]
    assert Syntax(words=1, equals=True).split("ring = q(a) := edge(a, b)").question == "q(a) := edge(a, b)"
    with pytest.raises(click.UsageError, match="not closed"):
        words_of("it's")


def test_every_command_has_a_name_of_its_own_and_help():
    names = [command.name for command in SHELL_COMMANDS]
    assert len({*names, *ALIASES}) == len(names) + len(ALIASES)
    shown = overview()
    for command in SHELL_COMMANDS:
        assert f"\\{command.name}" in shown
        assert command.help in " ".join(help_of(command).split())
    for alias, name in ALIASES.items():
        assert command_named(alias).name == name
        assert f"\\{alias}" in help_of(command_named(name))
    assert "--sample N" in help_of(command_named("find"))
    assert "SOURCE" not in overview()
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize(("name", "near"), [("cuont", "\\count"), ("seT", "\\set"), ("xyzzy", "\\help"), ("", "\\help")])
def test_unknown_commands_get_a_hint(name, near):
    with pytest.raises(BigjoinError, match=near.replace("\\", "\\\\")):
        command_named(name)


# What is set


def test_settings_are_the_defaults_of_commands():
    settings = Settings()
    settings.set("batch-size", "1000")
    settings.set("UNIQUE", None)
    settings.set("memory", "2GB")
    settings.set("limit", "5")
    settings.set("$least", "[1, 2]")
    assert settings.defaults_for(command_for("find"), "triangle") == {
        "batch_size": "1000",
        "unique": True,
        "memory": "2GB",
        "limit": "5",
    }
    assert "limit" not in settings.defaults_for(command_for("count"), "triangle")
    asked = settings.defaults_for(command_for("count"), "MATCH (a) WHERE a.x IN $least RETURN a")
    assert asked["parameters"] == ["least=[1, 2]"]
    settings.set("limit", "all")
    assert "limit" not in settings.defaults_for(command_for("find"), "triangle")
    assert settings.rows_shown is None
    settings.unset("limit")
    assert settings.rows_shown == 100
    assert ("memory", "2GB") in [(name, value) for name, value, _ in settings.rows()]
    assert settings.shown == {"batch_size": "1000", "unique": "on", "memory": "2GB", "$least": "[1, 2]"}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("stratgy", "local", "did you mean 'strategy'"),
        ("strategy", "magic", "strategy: 'magic' is not one of"),
        ("workers", "0", "workers: 0 is not in the range"),
        ("workers", "many", "workers: 'many' is not a valid integer"),
        ("timeout", "-1", "timeout: "),
        ("memory", "much", "memory: "),
        ("unique", "perhaps", "unique: "),
        ("format", "xml", "format: 'xml' is not one of"),
        ("workers", None, "needs a value"),
        ("strategy", None, "needs a value: auto, local"),
        ("$", "5", "is a parameter"),
        ("$least", None, "is a parameter"),
    ],
)
def test_what_cannot_be_set_is_refused(name, value, said):
    settings = Settings()
    with pytest.raises((BigjoinError, click.UsageError)) as error:
        settings.set(name, value)
    assert said in str(error.value)
    assert settings.shown == {}


def test_every_setting_says_what_it_does():
    assert all(option.help for option in SETTABLE.values())
    rows = {name: (value, about) for name, value, about in Settings().rows()}
    assert list(rows) == list(SETTABLE)
    assert all(value and about for value, about in rows.values())
    assert not any("Sentinel" in value for value, _ in rows.values())
    strategy, about = rows["strategy"]
    assert strategy == "auto"
    assert all(name in about for name in ("auto", "local", "shared", "partitioned", "heavy-light", "balanced"))
    assert "threads" not in about


def test_a_value_that_is_not_set_is_shown_as_its_default():
    settings = Settings(timing=True)
    settings.set("timeout", "20")
    settings.set("unique", None)
    shown = {name: value for name, value, _ in settings.rows()}
    assert (shown["timeout"], shown["memory"], shown["limit"]) == ("20", "none", "100 on a terminal")
    assert (shown["unique"], shown["distinct"], shown["timing"], shown["quiet"]) == ("on", "off", "on", "off")
    assert (shown["seconds"], shown["precision"], shown["workers"]) == ("2", "0.05", "by strategy")
    settings.unset("unique")
    assert {name: value for name, value, _ in settings.rows()}["unique"] == "off"
    assert settings.shown == {"timeout": "20"}


# What Tab completes


KNOWN = Known(
    commands={command.name: command.completes for command in SHELL_COMMANDS},
    asking=asking(),
    settings={"strategy": ("auto", "local"), "unique": ("on", "off"), "limit": ()},
    queries=["triangle", "5-clique", "ring"],
    relations={
        "pays": RelationColumns(("src", "dst"), ("amount", "time")),
        "knows": RelationColumns(("src", "dst"), ("since",)),
        "person": RelationColumns(("id",)),
    },
    vertex=("id", "name", "city"),
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("\\co|", ["\\count"]),
        ("\\set str|", ["strategy"]),
        ("\\set strategy |", ["auto", "local"]),
        ("\\set unique o|", ["on", "off"]),
        ("\\timing o|", ["on", "off"]),
        ("\\help \\expl|", ["explain"]),
        ("\\count --ex|", ["--exists"]),
        ("\\count tri|", ["triangle"]),
        ("\\count --exists tri|", ["triangle"]),
        ("\\define r = 5|", ["5-clique"]),
        ("tri|", ["triangle"]),
        ("5-|", ["5-clique"]),
        ("MAT|", ["MATCH"]),
        ("ring(a, b) := pa|", ["pays"]),
        ("ring(a, b) := pays(a, b, e), e.|", ["amount", "time"]),
        ("ring(a, b, e.am|) := pays(a, b, e)", ["amount"]),
        ("ring(a, b) := pays(a, b, e), a.|", ["id", "name", "city"]),
        ("ring(a, b) := pays(a, b, e), knows(a, b, f), f.|", ["since"]),
        ("q(payer, payee) := pays(payer, payee), pay|", ["pays", "payer", "payee"]),
        ("q(a) := person(p|", ["pays", "person"]),
        ("q(a) := pays(a, b) and a = 'tri|", []),
        ("MATCH (a)-[e:pa|", ["pays"]),
        ("MATCH (a:per|", ["person"]),
        ("MATCH (a)-[e:pays]->(b) WHERE e.|", ["amount", "time"]),
        ("MATCH (a)-[e:pays]->(b) WHERE a.n|", ["name"]),
        ("MATCH (a)-[e]->(b) WHERE e.|", ["amount", "time", "since"]),
        ("MATCH (a)-[e:pays]->(b) RET|", ["RETURN"]),
        ("SELECT p.| FROM pays p", ["src", "dst", "amount", "time"]),
        ("SELECT p.| FROM knows k JOIN pays AS p ON k.dst = p.src", ["src", "dst", "amount", "time"]),
        ("SELECT pays.a| FROM pays", ["amount"]),
        ("SELECT v.| FROM vertex v", ["id", "name", "city"]),
        ("unknown.|", ["id", "name", "city", "amount", "time", "since"]),
        ("\\unknown tri|", []),
        ("\\define ring|", []),
    ],
)
def test_tab_completes(text, wanted):
    before, _, after = text.partition("|")
    found = list(candidates(before, after, KNOWN))
    assert [one.text for one in found] == wanted
    assert all(before.casefold().endswith(one.text[: one.typed].casefold()) for one in found)


def test_tab_completes_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("edges.csv", "edges two.csv", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner.txt").touch()

    def completed(text):
        return [one.text for one in candidates(text, "", KNOWN)]

    assert completed("\\open ") == ["edges\\ two.csv", "edges.csv", "folder/"]
    assert completed("\\open ed") == ["edges\\ two.csv", "edges.csv"]
    assert completed("\\open folder/i") == ["folder/inner.txt"]
    assert completed("\\open .h") == [".hidden"]
    assert completed(f"\\include {tmp_path}/fo") == [f"{tmp_path}/folder/"]
    assert completed("\\relation r ed") == ["edges\\ two.csv", "edges.csv"]
    assert completed("\\relation ed") == []
    assert completed("\\output ed") == ["edges\\ two.csv", "edges.csv"]
    assert completed("\\find -o ed") == ["edges\\ two.csv", "edges.csv"]
    assert completed("\\open nowhere/x") == []
    assert completed("\\open ~nobody-of-this-name/x") == []


@pytest.mark.parametrize(
    "text", ["(" * 3000, "a." * 3000, "[a:" * 3000, "'" * 3001, "match (a" * 2000, "from a " * 3000, "a" * 100_000]
)
def test_completion_of_long_texts_takes_little_time(text):
    started = time.monotonic()
    list(candidates(text, "", KNOWN))
    list(candidates(text + "e.", "", KNOWN))
    properties_of("e", text, KNOWN)
    assert time.monotonic() - started < 10


# What is kept


@pytest.fixture
def kept(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(history, "private_folder", lambda name: tmp_path)
    return tmp_path / "history"


def test_history_keeps_texts_of_several_lines(kept):
    texts = ["triangle", "q(a) :=\n\n  edge(a, b)", "\\set x", "\ttabs\t", "ünïcödé"]
    assert all(history.keep(kept, text) for text in texts)
    assert history.entries_of(kept) == texts
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not history.keep(kept, " not this one")
    assert not history.keep(kept, "x" * (1 << 17))
    assert history.keep(kept, "bytes that are not UTF-8: \udcff")
    assert history.entries_of(kept)[:-1] == texts
    assert history.without_repeats(["a", "a", "b", "a"]) == ["a", "b", "a"]


def test_history_forgets_the_oldest(kept, monkeypatch):
    monkeypatch.setattr(history, "MAX_ENTRIES", 3)
    for number in range(5):
        history.keep(kept, str(number))
    assert history.entries_of(kept) == ["2", "3", "4"]
    assert kept.read_text().count("\n\n") == 3


def test_history_never_fails(kept, monkeypatch):
    assert history.entries_of(kept) == []
    kept.write_bytes(b"\xff\xfe\x00 garbage\n\tkept\n\n\n\t cut off")
    assert history.entries_of(kept) == ["kept"]
    kept.chmod(0o666)  # others could have written it
    assert history.entries_of(kept) == []
    kept.unlink()
    kept.mkdir()
    assert history.entries_of(kept) == []
    assert not history.keep(kept, "triangle")
    kept.rmdir()
    os.mkfifo(kept)
    assert history.entries_of(kept) == []
    assert not history.keep(kept, "triangle")
    kept.unlink()
    kept.symlink_to("/dev/full")
    assert not history.keep(kept, "triangle")
    monkeypatch.setattr(history, "private_folder", lambda name: None)
    assert history.history_file() is None
    assert history.entries_of(None) == []
    assert not history.keep(None, "triangle")
