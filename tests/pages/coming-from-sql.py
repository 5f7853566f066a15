"""The tables of the page about SQL as files."""


def prepare(folder, spark):
    (folder / "payments.csv").write_text("src,dst,amount\n1,2,100\n1,2,150\n2,3,90\n3,1,80\n3,4,20\n")
    (folder / "accounts.csv").write_text("id,name\n1,ann\n2,bob\n3,cat\n4,dan\n")
