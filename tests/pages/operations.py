"""The bundled graph, copied as the quick start says."""

import shutil
from importlib.resources import files


def prepare(folder, spark):
    shutil.copy(str(files("bigjoin.data") / "soc-Epinions1.txt.gz"), folder)
