"""Files that are wrong in the ways that the page explains."""

import json

import pyarrow as pa

import bigjoin as bj
from bigjoin.index.manifest_file import MANIFEST


def prepare(folder, spark):
    texts = {
        "edges.txt": "".join(f"{a} {b}\n" for a in range(5) for b in range(5) if a != b),
        "payments.csv": "relationship,payer,payee\npays,A1,B2\npays,B2,C3\n",
        "semicolons.csv": "src;dst;amount\n1;2;5\n2;3;6\n",
        "words.txt": "alpha\nbeta\n",
        "edges.zip": "PK\x03\x04",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes("src,dst\nann\u00e9,bob\n".encode("latin-1"))
    (folder / "empty").mkdir()
    friends = [(a, b) for a in range(5) for b in range(5) if a != b]
    bj.build_index(friends, folder / "friends.index")
    payments = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1], "amount": [50, 60, 70]})
    for name in ("bank.index", "damaged.index", "newer.index"):
        bj.build_index(payments, folder / name)
    damaged = max((folder / "damaged.index").glob("build-*/*.values.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x7f")
    manifest = folder / "newer.index" / MANIFEST
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": 99}))
    (folder / "updates").mkdir()
    (folder / "updates" / "002.csv").write_text("src,dst,amount,op\n3,4,80,+\n")
    (folder / "other").mkdir()
    (folder / "other" / "001.csv").write_text("src,dst,amount,op\n4,5,80,+\n")
    (folder / "wrong").mkdir()
    (folder / "odd").mkdir()
    (folder / "wrong" / "001.csv").write_text("payer,payee,op\n1,2,+\n")
