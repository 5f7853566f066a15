"""A pattern as a table: SQL makes a view of it, and joins it with others."""

from pathlib import Path

import bigjoin as bj

payments = [
    ("ann", "bob", 90),
    ("bob", "cyd", 85),
    ("cyd", "ann", 80),
    ("cyd", "dan", 20),
    ("dan", "ann", 15),
    ("bob", "dan", 40),
]
accounts = [("ann", "Ghent"), ("bob", "Ghent"), ("cyd", "Bruges"), ("dan", "Bruges")]

index = Path("payments.index").absolute()  # Spark's processes read it, wherever they run
bj.build_index([{"src": src, "dst": dst, "amount": amount} for src, dst, amount in payments], index)

spark = bj.session()
bj.register(spark)

spark.createDataFrame(accounts, "account string, city string").createOrReplaceTempView("accounts")
spark.sql(
    f"""
    CREATE OR REPLACE TEMPORARY VIEW rings USING bigjoin OPTIONS (
        path '{index}',
        query 'ring(a, b, c, e.amount, f.amount, g.amount) := edge(a, b, e), edge(b, c, f), edge(c, a, g)',
        where 'a < b and a < c and e.amount > 10'
    )
    """
)
print("columns:", ", ".join(spark.table("rings").columns))
rows = spark.sql(
    """
    SELECT a, b, c, city, least(e_amount, f_amount, g_amount) AS least
    FROM rings JOIN accounts ON a = account
    ORDER BY a, b, c
    """
)
for row in rows.collect():
    print(f"{row.a} pays {row.b}, who pays {row.c}, who pays {row.a}, in {row.city}: at least {row.least}")
