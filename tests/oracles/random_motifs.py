"""Random motifs and graphs that are not simple, small enough for brute force. Everything comes from one `Random`.

About a tenth of the motifs are erroneous. It imports nothing of ours.
"""

from __future__ import annotations

from random import Random

IDS = [[0, 1, 2, 3, 4, 5], [-7, 3, 10, 12, 2**40, 99], ["a", "B", "é", "zz", "", "0"]]
NAMES = [["a", "b", "c", "d"], ["u", "v", "w", "x"], ["v1", "_b", "C", "dd"], ["0", "1", "2", "3"]]
EDGE_NAMES = ["e", "f", "G", "e_4", "h"]  # that no rewrite makes equal
MOST_ROWS = 3000  # what a motif may be expected to find

# Each is wrong alone and beside other terms; p and q are in no other term.
WRONG = [
    *("()", "()-[]->()", "()-[]-()", "()<-[]->()", "!(p)", "!!(p)-[]->(q)", "!(p)-[r]->(q)", "!(p)<-[]->(q)", "!()-[]->()"),
    *("(p)-[*0]->(q)", "(p)-[*]->(q)", "(p)-[*..5]->(q)", "(p)-[*3..1]->(q)", "(p)-[*2..]->(q)", "(p)<-[*1..2]-(q)"),
    *("(p)-[r]->(q);(q)-[r]->(p)", "(p)-[p]->(q)", "(p)-[r]->(q);(r)", "(p);(P)", "(p)-->(q)", "(p)-[]->(q)-[]->(p)", "(p:q)"),
    *("(p) <-[]- (q)", "(p)-[r* 2]->(q)", "(p),(q)", "[r]", "(p)-[]->(q", "(p)-[r]", "!(p)-[]->(q);(p)-[]->(q)"),
    *(
        "(p);!(p)-[]->(q);(q)",
        "(p)<-[r*2]->(q)",
        "(p);;(q)",
        "(p)-[*0]-(q)",
        "(p)-[*0..1]-(q)",
        "()-[*1..2]->()",
        "!(p)-[*2]-(q)",
    ),
]
# These are wrong beside other terms only.
NEED_TO_BE_ALONE = ["(p)-[*1..2]->(q)", "(p)-[*2]-(q)", "(p)-[r*1..2]-(q)"]


def draw_property_graph(random: Random) -> tuple[list[dict], list[dict]]:
    """Vertices (id, name) and edges (src, dst, weight): with loops, copies, ends that do not exist, and perhaps NULLs."""
    ids = random.choice(IDS)[: random.randint(3, 6)]
    nulls = 0.15 * (random.random() < 0.3)

    def one_of(values, missing=0.0):
        return None if random.random() < missing else random.choice(values)

    present = random.sample(ids, k=random.randint(max(2, len(ids) - 1), len(ids)))
    vertices = [{"id": one_of([name], nulls), "name": one_of(["x", "y"], 0.2)} for name in present]
    if random.random() < 0.3:  # an id again, with any attributes
        vertices.append({"id": random.choice(present), "name": one_of(["x", "z"], 0.2)})
    if random.random() < 0.15:
        vertices.append(dict(random.choice(vertices)))
    edges = [
        {"src": one_of(ids, nulls), "dst": one_of(ids, nulls), "weight": one_of([1, 2], 0.2)}
        for _ in range(random.choice([0, 2, 4, 5, 6, 7, 8]))
    ]
    if edges:
        if random.random() < 0.4:
            edges.append(random.choice(edges) | {"weight": 3})
        if random.random() < 0.3:
            edges.append(dict(random.choice(edges)))
        if random.random() < 0.3:
            end = random.choice(present)
            edges.append({"src": end, "dst": end, "weight": 1})
    random.shuffle(edges)
    return vertices, edges


def draw_motif(random: Random) -> str:
    """A motif of one to four terms, or *m..n; GraphFrames refuses about a tenth of them."""
    chance = random.random()
    if chance < 0.1:
        return _wrong(random)
    if chance < 0.2:
        return _lengths(random)
    if chance < 0.21:
        return random.choice(["", ";", " "])
    return _terms(random, random.choice([1, 1, 2, 2, 2, 3, 3, 4]))


def _wrong(random: Random) -> str:
    if random.random() < 0.4:
        return random.choice(WRONG)
    other = _terms(random, random.choice([1, 1, 2]))
    both = [other, random.choice(WRONG + NEED_TO_BE_ALONE)]
    random.shuffle(both)
    return random.choice([";", "; "]).join(both) if random.random() < 0.9 else f";{other}"


def _lengths(random: Random) -> str:
    names = random.choice(NAMES)
    source, target = random.choice([names[:2], names[:2], [names[0]] * 2, [names[0], ""], ["", names[0]], ["", ""]])
    name = random.choice(["", random.choice(EDGE_NAMES)])
    least = random.choice([1, 1, 2, 2, 3]) if source or target or name else random.choice([2, 3])
    most = random.randint(least, 3)
    lengths, arrow = random.choice([(f"{least}..{most}", "->"), (f"{least}..{most}", "-"), (least, "-")])
    return f"({source})-[{name}*{lengths}]{arrow}({target})"


def _terms(random: Random, size: int) -> str:
    """Terms from left to right; each may use what is bound already, and none may multiply the rows too much."""
    names = random.choice(NAMES)
    only_negated = ["n", "m"][: random.choice([0, 0, 0, 1, 2])]
    edge_names = random.sample(EDGE_NAMES, k=len(EDGE_NAMES))
    bound, rows, has_undirected, terms = [], 6 ** len(only_negated), False, []
    while len(terms) < size:
        if (bound or only_negated) and random.random() < (0.5 if only_negated else 0.25):
            ends = _ends(random, bound + only_negated)
            arrow = random.choice(["->", "->", "<-", "-" if has_undirected else "->"])
            length = f"*{random.choice([1, 2])}" if arrow != "-" and rows < 100 and random.random() < 0.1 else ""
            terms.append(_spelled(random, "!", ends[0], length, arrow, ends[1]))
            rows *= 6 if length else 1
            continue
        if random.random() < 0.12:
            name = random.choice(names)
            rows *= 1 if name in bound else 6
            text = f"({name})"
            more = [name]
        else:
            arrow = random.choice(["->", "->", "->", "->", "<-", "<-", "<->", "-"])
            source, target = _ends(random, _frontier(random, names, bound))
            name = edge_names.pop() if edge_names and random.random() < 0.5 else ""
            length = random.choice([1, 2, 3]) if arrow != "-" and random.random() < 0.12 else 0
            if not (source or target or name) or (name and length and arrow == "<->"):
                continue
            is_free = not {source, target} & set(bound)
            rows *= (10 if is_free else 2) * 2 ** max(0, length - 1) * (2 if arrow == "-" else 1)
            rows *= (10 if not source and not target else 2) * 2 ** max(0, length - 1) if arrow == "<->" else 1
            text = _spelled(random, "", source, f"{name}*{length}" if length else name, arrow, target)
            more = [end for end in (source, target) if end]
            has_undirected |= arrow == "-" and rows <= MOST_ROWS
        if rows > MOST_ROWS:
            break
        terms.append(text)
        bound += [name for name in more if name not in bound]
    return random.choice([";", "; "]).join(terms) + random.choice(["", "", "", ";"]) if terms else "(a)"


def _frontier(random: Random, names: list[str], bound: list[str]) -> list[str]:
    """What a term may name: mostly something that is bound, and one that is not."""
    new = [name for name in names if name not in bound]
    return [*bound, *new[:1]] if bound and random.random() < 0.8 else names[: len(bound) + 2]


def _ends(random: Random, names: list[str]) -> tuple[str, str]:
    """Two vertices, of which at least one has a name; seldom the same."""
    while True:
        ends = tuple("" if random.random() < 0.2 else random.choice(names) for _ in range(2))
        if any(ends) and (ends[0] != ends[1] or random.random() < 0.2):
            return ends


def _spelled(random: Random, negation: str, source: str, name: str, arrow: str, target: str) -> str:
    left, right = {"->": ("-", "->"), "<-": ("<-", "-"), "<->": ("<-", "->"), "-": ("-", "-")}[arrow]
    pieces = [negation, "(", source, ")", left, "[", name, "]", right, "(", target, ")"]
    may_have_spaces = left == "-" and "*" not in name and random.random() < 0.1
    return "".join(piece + random.choice(["", "", " "]) * may_have_spaces for piece in pieces)
