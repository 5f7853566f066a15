"""One question in three languages, and a GraphFrame without a jar.

Run it with: .venv/bin/python examples/three_languages.py
"""

import bigjoin as bj
from bigjoin.graphframes import GraphFrame

spark = bj.session()
people = spark.createDataFrame(
    [(1, "ann", 34), (2, "bob", 36), (3, "cat", 30), (4, "dan", 29)], "id long, name string, age int"
)
pays = spark.createDataFrame(
    [(1, 2, 50.0), (2, 3, 45.0), (3, 1, 40.0), (3, 4, 9.0), (1, 2, 5.0)], "src long, dst long, amount double"
)

graph = bj.Graph(pays, vertices=people)
rule = "ring(a, b, c) := edge(a, b, _), edge(b, c, _), edge(c, a, _)"
motif = "(a)-[]->(b); (b)-[]->(c); (c)-[]->(a)"
cypher = "MATCH (a)-[]->(b) MATCH (b)-[]->(c) MATCH (c)-[]->(a) RETURN a, b, c"
print("rings of three payments:", *(int(graph.count(text)) for text in (rule, motif, cypher)))

large = """
MATCH (a)-[e]->(b)-[f]->(c)
WHERE e.amount > $least AND NOT (c)-[]->(b)
RETURN a.name AS payer, b.name AS middle, c.name AS payee, f.amount
ORDER BY payer, payee, f.amount
"""
for row in graph.find(large, parameters={"least": 30}).collect():
    print(*row)

found = GraphFrame(people, pays).find("(a)-[e]->(b); !(b)-[]->()")
print(found.columns, [(row.a.name, row.e.amount, row.b.name) for row in found.collect()])

print(graph.explain(motif).split("\n\n")[0])
spark.stop()
