"""Makes small pictures of every kind and what Pillow reads in them.

    python tests/unit/data/picture_values.py tests/fuzz/corpus/picture > tests/unit/data/picture_values.def

A row is PICTURE(name, height, width, sum, sum of the picture halved): weighted sums of the bytes of convert("RGB"), and of
its resize to half of the size, along the rows first. The files are seeds of the fuzz target too.
"""
import io
import os
import struct
import sys
import zlib

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 13, 19
out = sys.argv[1]


def pixels(channels, seed=0):
    y, x, c = np.mgrid[0:HEIGHT, 0:WIDTH, 0:channels]
    return ((x * 11 + y * 7 * (c + 1) + (x * y + seed) % 13) % 256).astype(np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(depth, colour, rows, extra=b""):
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, 0)
    packed = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def saved(image, **options):
    file = io.BytesIO()
    image.save(file, **options)
    return file.getvalue()


def packed_grey(depth):
    values = pixels(1)[:, :, 0] >> (8 - depth)
    rows = []
    for row in values:
        bits = "".join(format(v, f"0{depth}b") for v in row)
        bits += "0" * (-len(bits) % 8)
        rows.append(bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)))
    return png(depth, 0, rows)


def interlaced():
    """Adam7 by hand: Pillow reads it, but does not write it."""
    image, data = pixels(3), b""
    for top, left, down, across in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
                                    (1, 0, 2, 1)):
        part = image[top::down, left::across]
        if part.size:
            data += b"".join(b"\0" + row.tobytes() for row in part)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 1)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def oriented():
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(Image.fromarray(pixels(3)), format="JPEG", quality=85, exif=exif)


rgb, grey = Image.fromarray(pixels(3)), Image.fromarray(pixels(1)[:, :, 0])
palette = rgb.quantize(16)
palette.info["transparency"] = 3
wide = (pixels(3).astype(np.uint16) << 8 | 0x81).astype(">u2")
files = {
    "grey1.png": packed_grey(1), "grey2.png": packed_grey(2), "grey4.png": packed_grey(4),
    "grey8.png": saved(grey, format="PNG"),
    "grey16.png": png(16, 0, [row[:, 0].tobytes() for row in wide]),
    "grey_alpha.png": saved(Image.merge("LA", [grey, grey]), format="PNG"),
    "palette.png": saved(rgb.quantize(16), format="PNG"),
    "palette_clear.png": saved(palette, format="PNG", transparency=3),
    "rgb8.png": saved(rgb, format="PNG"),
    "rgb16.png": png(16, 2, [row.tobytes() for row in wide]),
    "rgba.png": saved(Image.merge("RGBA", [*rgb.split(), grey]), format="PNG"),
    "interlaced.png": interlaced(),
    "grey.jpg": saved(grey, format="JPEG", quality=80),
    "420.jpg": saved(rgb, format="JPEG", quality=85),
    "422.jpg": saved(rgb, format="JPEG", quality=85, subsampling=1),
    "444.jpg": saved(rgb, format="JPEG", quality=85, subsampling=0),
    "progressive.jpg": saved(rgb, format="JPEG", quality=85, progressive=True),
    "cmyk.jpg": saved(Image.fromarray(pixels(4), "CMYK"), format="JPEG", quality=90),
    "oriented.jpg": oriented(),
}


def weighted(array):
    flat = array.astype(np.uint64).reshape(-1)
    return int((flat * np.arange(1, len(flat) + 1, dtype=np.uint64)).sum()) % 2**32


print("/* Made by picture_values.py: Pillow's. */")
for name, data in files.items():
    with open(os.path.join(out, name), "wb") as file:
        file.write(data)
    if name == "grey16.png":  # Pillow would cut off at 255
        image = Image.fromarray(np.repeat(pixels(3)[:, :, :1], 3, 2))
    else:
        image = Image.open(io.BytesIO(data)).convert("RGB")
    half = image.resize((WIDTH // 2, HEIGHT), Image.BILINEAR).resize((WIDTH // 2, HEIGHT // 2), Image.BILINEAR)
    print('PICTURE("%s", %d, %d, 0x%x, 0x%x)' % (name, HEIGHT, WIDTH, weighted(np.array(image)), weighted(np.array(half))))
print("#undef PICTURE")
