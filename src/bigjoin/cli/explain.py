"""bigjoin explain: the plan of a query, as numbered rules."""

from __future__ import annotations

from pathlib import Path

import click

from bigjoin.cli.options import Facts, Options, answer, query_options
from bigjoin.cli.question import question
from bigjoin.cli.source import asking
from bigjoin.languages.translate import Target, translated


@click.command()
@click.option("--analyze", is_flag=True, help="Also run the query, and show what each step did.")
@click.option("--delta", is_flag=True, help="Also show the delta queries, which 'bigjoin watch' asks for each update.")
@click.option("--as", "language", type=click.Choice(["rule", "motif", "cypher"]), help="Print QUERY in this language instead.")
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path), help="Write a page with pictures instead of the text.")
@query_options
def explain(
    query: str,
    source: str | None,
    analyze: bool,
    delta: bool,
    language: Target | None,
    html: Path | None,
    options: Options,
) -> None:
    """Print the plan of QUERY: how matches are found, step by step, and how they are counted, as loops.

    With SOURCE (or --relation), print the plan for these data, their sizes and the AGM bound. With --analyze, also print what
    really happened (with --json as `stats`). For a motif or Cypher, print the rule that it means.

    With --html, the same as a page: the pattern, the steps as pictures with expected and, with --analyze, real sizes.
    """
    if html is not None:
        if language is not None:
            raise click.UsageError("give either --as or --html, not both")
        from bigjoin.drawing.saving import HTML_SUFFIXES, check_picture

        check_picture(html, HTML_SUFFIXES, options.paths(source))
    parsed = question(query, options)
    facts: Facts = {}
    if language is not None:
        statistics = None
        if options.has_source(source):
            with asking(parsed, source, options, doing="explaining", runs=False) as (graph, _):
                statistics, parsed = graph.statistics_for(parsed), graph.completed(parsed)
        text = translated(parsed, language, statistics)
        answer(options, {language: text}, [text])
        return
    if options.has_source(source):
        with asking(parsed, source, options, doing="explaining", runs=analyze) as (graph, _):
            explanation = graph.explain(parsed, analyze=analyze, delta=delta, **options.run, **options.limits)
        planned, text = explanation.explained, str(explanation)
        facts = {"stats": explanation.stats} if analyze else {}
    elif analyze:
        raise click.UsageError("--analyze needs a SOURCE to run the query on")
    else:
        from bigjoin.explain import as_text
        from bigjoin.explained import explained

        planned = explained(parsed, undirected=options.undirected, delta=delta)
        text = as_text(planned)
    if html is not None and planned is not None:
        from bigjoin.drawing.explanation import explanation_page
        from bigjoin.drawing.saving import save

        save(html, explanation_page(planned, text))
        if not options.as_json:
            return
    answer(options, {"explain": text, **facts}, [text])
