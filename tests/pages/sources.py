"""A table of payments."""


def prepare(folder, spark):
    (folder / "pays.csv").write_text("payer,payee,amount\nann,bob,900\nbob,cat,40\n")
