"""bigjoin explain: the plan of a query, as numbered rules."""

from __future__ import annotations

import click

from bigjoin.cli.options import Facts, Options, answer, query_options
from bigjoin.cli.question import question
from bigjoin.cli.source import asking
from bigjoin.languages.translate import Target, translated


@click.command()
@click.option("--analyze", is_flag=True, help="Also run the query, and show what each step did.")
@click.option("--delta", is_flag=True, help="Also show the delta queries, by which 'bigjoin watch' finds what updates change.")
@click.option("--as", "language", type=click.Choice(["rule", "motif", "cypher"]), help="Print QUERY in this language instead.")
@query_options
def explain(query: str, source: str | None, analyze: bool, delta: bool, language: Target | None, options: Options) -> None:
    """Print the plan of QUERY: as numbered rules, a seed and one step for each further attribute, and as the loops of a count.

    With SOURCE (or --relation), the plan for these data, their sizes and the AGM bound; with --analyze, also what really
    happened (with --json as `stats`). A motif or a Cypher text is shown with the rule that it means.
    """
    parsed = question(query, options)
    text: str
    facts: Facts = {}
    if language is not None:
        statistics = None
        if source is not None or options.relations:
            with asking(parsed, source, options, doing="explaining", runs=False) as (graph, _):
                statistics, parsed = graph.statistics_for(parsed), graph.completed(parsed)
        text = translated(parsed, language, statistics)
        answer(options, {language: text}, [text])
        return
    if source is not None or options.relations:
        with asking(parsed, source, options, doing="explaining", runs=analyze) as (graph, _):
            text = explanation = graph.explain(parsed, analyze=analyze, delta=delta, **options.run, **options.limits)
        facts = {"stats": explanation.stats} if analyze else {}
    elif analyze:
        raise click.UsageError("--analyze needs a SOURCE to run the query on")
    else:
        from bigjoin.explain import explain as explain_query

        text = explain_query(parsed, undirected=options.undirected, delta=delta)
    answer(options, {"explain": text, **facts}, [text])
