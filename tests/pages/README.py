"""The folder is a checkout, with tables of somebody's own in it."""

from pathlib import Path


def prepare(folder, spark):
    (folder / "src").symlink_to(Path(__file__).parents[2] / "src")
    rows = ((1, 2, 500, 1), (2, 3, 450, 2), (3, 1, 400, 3), (3, 4, 20, 4))
    lines = ["src,dst,amount,day", *(",".join(map(str, row)) for row in rows)]
    (folder / "payments.csv").write_text("\n".join(lines) + "\n")
    for name, columns in (("r", "a,b"), ("s", "b,c"), ("t", "c,a")):
        (folder / f"{name}.csv").write_text(f"{columns}\n1,2\n2,3\n3,1\n")
