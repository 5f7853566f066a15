"""Join tables that are not a graph: columns by name, constants, negated atoms and optional atoms."""

import pyarrow as pa

import bigjoin as bj

people = pa.table({"id": [1, 2, 3, 4], "name": ["ann", "bob", "eve", "joe"], "city": ["Ghent", "Ghent", "Bruges", "Ghent"]})
knows = pa.table({"one": [1, 2, 3], "other": [2, 3, 1]})
owns = pa.table({"person": [1, 3], "pet": ["cat", "dog"]})

with bj.Relations({"person": people, "knows": knows, "owns": owns}) as relations:
    same_city = "q(n, m) := person(id: p, name: n, city: c), person(id: q, name: m, city: c), knows(p, q)"
    print("one knows the other, in the same city:", [tuple(row) for row in relations.find(same_city).collect()])

    pets = "q(n, pet) := person(id: p, name: n, city: 'Ghent'), optional owns(p, pet)"
    print("people in Ghent and their pets:", sorted((row.n, row.pet or "-") for row in relations.find(pets).collect()))

    print("known by nobody:", [row.n for row in relations.find("q(n) := person(id: p, name: n), not knows(_, p)").collect()])
    print("different cities:", relations.count("q(c) := person(city: c)"))
    print("somebody has a dog:", relations.exists("q() := owns(_, 'dog')"))
