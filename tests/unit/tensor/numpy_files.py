"""numpy_files.py FOLDER: the files that test_npy.c reads, written by NumPy itself.

They are also the seeds of the fuzz target: python tests/unit/tensor/numpy_files.py tests/fuzz/corpus/npy
Every array holds 0 to 11 in the shape (2, 3, 2).
"""
import sys
import zipfile

import numpy
from numpy.lib import format as npy_format

folder = sys.argv[1] + "/"
values = numpy.arange(12).reshape(2, 3, 2)
types = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split()

for version in (1, 2, 3):
    with open(f"{folder}v{version}.npy", "wb") as file:
        npy_format.write_array(file, values.astype("f4"), version=(version, 0))
numpy.save(folder + "columns.npy", numpy.asfortranarray(values.astype("f8")))
numpy.save(folder + "big.npy", values.astype(">i4"))
numpy.save(folder + "big_columns.npy", numpy.asfortranarray(values.astype(">f2")))
numpy.save(folder + "flags.npy", values % 2 == 1)
numpy.save(folder + "scalar.npy", numpy.float32(3.5))
numpy.save(folder + "empty.npy", numpy.zeros((0, 4), "f4"))
numpy.save(folder + "row.npy", numpy.arange(3, dtype="i8"))
numpy.save(folder + "objects.npy", numpy.array([{}, None], dtype=object), allow_pickle=True)
numpy.save(folder + "texts.npy", numpy.array(["a", "bc"]))
numpy.save(folder + "records.npy", numpy.zeros(2, dtype=[("a", "f4"), ("b", "i4")]))
numpy.save(folder + "rank6.npy", numpy.zeros((1, 1, 1, 1, 1, 1), "u1"))
numpy.save(folder + "large.npy", numpy.array([1, 2**63], dtype="u8"))
numpy.savez(folder + "stored.npz", **{t: values.astype(t) for t in types})
numpy.savez_compressed(folder + "packed.npz", **{t: values.astype(t) for t in types})
# ZIP64 fields are for archives beyond 4 GiB; with the limits lowered Python writes them here.
zipfile.ZIP64_LIMIT = zipfile.ZIP_FILECOUNT_LIMIT = 0
numpy.savez(folder + "zip64.npz", f4=values.astype("f4"))
with open(folder + "zip64.npz", "r+b") as file:
    file.seek(-14, 2)
    file.write(b"\xff" * 12)  # counts, size and place of the directory: only the ZIP64 record has them
