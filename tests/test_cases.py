"""Every case under every treatment: one expected result, many ways to get it.

A failure reads `cliques/triangles.case:12-balanced-7`: the line of the query, and the treatment.
"""

from __future__ import annotations

import pytest

from bigjoin.errors import BigjoinError
from tests import treatments
from tests.case_file import Cells, Question, message, read_cases
from tests.oracle_input import canonical, cells, parsed
from tests.treatments import EPOCH_TREATMENTS, TREATMENTS, Treatment

QUESTIONS = read_cases()


def answered():
    """Every question that has an answer, in every spelling, under every treatment that is for it."""
    for question in QUESTIONS:
        if question.error is not None or any(epoch.error for epoch in question.epochs):
            continue
        for line, spelling in question.spellings.items():
            for name, treatment in (EPOCH_TREATMENTS if question.epochs else TREATMENTS).items():
                if treatment.is_for(question, spelling):
                    yield parameters(question, line, name, treatment)


def parameters(question: Question, line: int, name: str, treatment: Treatment):
    marks = [pytest.mark.spark] if name.startswith("spark-") else []
    if name in question.xfail:
        marks.append(pytest.mark.xfail(reason=question.xfail[name], strict=True))
    return pytest.param(question, question.spellings[line], treatment, id=f"{question.file}:{line}-{name}", marks=marks)


def chosen(wanted):
    """Spellings of the questions that are wanted, each with its place in the files."""
    found = [(q, line, text) for q in QUESTIONS if wanted(q) for line, text in q.spellings.items()]
    return pytest.mark.parametrize(
        ("question", "spelling"), [(q, text) for q, _, text in found], ids=[f"{q.file}:{line}" for q, line, _ in found]
    )


def sorted_rows(question: Question, spelling: str, rows: list[Cells]) -> list[Cells]:
    return canonical(parsed(question, spelling), rows, treatments.contents_of(question.source))


@pytest.fixture
def session(request):
    """Spark's session, for treatments that need one."""
    return request.getfixturevalue("spark") if "spark-" in request.node.callspec.id else None


@pytest.mark.parametrize(("question", "spelling", "treatment"), list(answered()))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_case(question: Question, spelling: str, treatment: Treatment, session):
    if question.epochs:
        check_epochs(question, spelling, list(treatment.run(question, spelling)))
        return
    found = treatment.run(question, spelling)
    if isinstance(found, int):
        assert found == question.expected_count
        return
    assert len(found) == question.expected_count
    if question.rows is not None:
        wanted = sorted_rows(question, spelling, question.rows)
        assert sorted_rows(question, spelling, cells(found)) == wanted


def check_epochs(question: Question, spelling: str, found: list[treatments.Applied]) -> None:
    assert len(found) == len(question.epochs)
    if question.count is not None and (first := found[0]).changes is not None:
        assert first.count - sum(1 if row[0] == "+" else -1 for row in first.changes) == question.count
    for epoch, applied in zip(question.epochs, found, strict=True):
        where = f"{question.file}:{epoch.line}"
        if epoch.changes is not None and applied.changes is not None:
            for sign in "+-":
                wanted, rows = ([row[1:] for row in rows if row[0] == sign] for rows in (epoch.changes, cells(applied.changes)))
                assert sorted_rows(question, spelling, rows) == sorted_rows(question, spelling, wanted), f"{where} {sign}"
        assert epoch.count in (None, applied.count), where
        if epoch.fate is not None:
            figures = {name: number for name, number in applied.fate.items() if name != "updates"}
            assert figures == epoch.fate, where


@chosen(lambda question: question.plans)
def test_plan(question: Question, spelling: str):
    for kind, text in question.plans.items():
        assert treatments.planned(question, spelling, kind) == text


@chosen(lambda question: question.error is not None)
def test_error(question: Question, spelling: str):
    with pytest.raises(BigjoinError) as raised:
        treatments.refuse(question, spelling)
    assert message(raised.value) == question.error


@chosen(lambda question: any(epoch.error for epoch in question.epochs))
def test_refused_epoch(question: Question, spelling: str):
    """The last epoch is refused; those before it come to what is said."""
    *before, last = question.epochs
    applied = treatments.EPOCH_TREATMENTS["batches"].run(question, spelling)
    for epoch in before:
        assert next(applied).count == epoch.count
    with pytest.raises(BigjoinError) as raised:
        next(applied)
    assert message(raised.value) == last.error


def test_every_question_is_answered():
    assert len(QUESTIONS) >= 300
    known = {*TREATMENTS, *EPOCH_TREATMENTS}
    sampled = {treatment.sampled for treatment in TREATMENTS.values()}
    for question in QUESTIONS:
        where = f"{question.file}:{min(question.spellings)}"
        answers = (question.rows, question.count, question.error, question.plans or None, question.epochs or None)
        assert any(answer is not None for answer in answers), where
        assert set(question.also) <= sampled, where
        assert set(question.xfail) <= known, where
