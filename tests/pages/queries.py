"""Payments and people, and ids to start from."""


def prepare(folder, spark):
    payments = ("1,2,500,2024-05-01 10:00:00,invoice 7", "2,3,480,2024-05-01 20:00:00,", "3,1,20,2024-06-01 10:00:00,lunch")
    (folder / "pays.csv").write_text("\n".join(["src,dst,amount,time,note", *payments]) + "\n")
    (folder / "people.csv").write_text("id,name,city\n1,ann,Ghent\n2,bob,Ghent\n3,cat,Lyon\n")
    (folder / "suspects.txt").write_text("5\n7\n")
    (folder / "pairs.csv").write_text("a1,a3\n5,7\n7,9\n")
    (folder / "known.txt").write_text("9\n10\n")
