"""The examples in the docstrings of public names run, and print what they say."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator

import pytest

import bigjoin as bj


def documented() -> Iterator[tuple[str, str]]:
    """Give each public name, and each of a public class, with its docstring."""
    for name in bj.__all__:
        value = getattr(bj, name)
        yield name, inspect.getdoc(value) or ""
        if inspect.isclass(value):
            members = inspect.getmembers(value, lambda one: inspect.isroutine(one) or isinstance(one, property))
            yield from ((f"{name}.{key}", inspect.getdoc(one) or "") for key, one in members if not key.startswith("_"))


EXAMPLES = {name: text for name, text in documented() if ">>> " in text}


@pytest.mark.spark
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_docstrings(name, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name], {"bj": bj, "spark": spark}, name, None, 0)
    printed: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=printed.append)
    assert tried
    assert not failed, "".join(printed)


def test_the_main_names_have_examples():
    named = ("Graph", "Graph.count", "Graph.find", "Graph.arrow", "Graph.apply", "Relations", "join", "sql", "build_index")
    assert {name for name in named if name not in EXAMPLES} == set()
