"""PNG pictures of eight bits a channel, without interlace: what a browser writes. Standard library only."""
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {2: 3, 6: 4}  # by colour type


class Picture:
    """Rows of (red, green, blue)."""

    def __init__(self, data):
        assert data.startswith(SIGNATURE), "no PNG"
        at, packed = len(SIGNATURE), b""
        while at < len(data):
            length, kind = struct.unpack(">I4s", data[at:at + 8])
            body = data[at + 8:at + 8 + length]
            if kind == b"IHDR":
                self.width, self.height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", body)
                assert depth == 8 and colour in CHANNELS and interlace == 0, "a PNG of another kind"
                self._channels = CHANNELS[colour]
            elif kind == b"IDAT":
                packed += body
            at += length + 12
        self._rows = self._unfiltered(zlib.decompress(packed))

    def _unfiltered(self, raw):
        step, stride = self._channels, self.width * self._channels
        rows, above = [], bytearray(stride)
        for y in range(self.height):
            begin = y * (stride + 1)
            row = bytearray(raw[begin + 1:begin + 1 + stride])
            self._add_predicted(raw[begin], row, above, step)
            rows.append(row)
            above = row
        return rows

    @staticmethod
    def _add_predicted(kind, row, above, step):
        for i in range(len(row)) if kind else ():
            left = row[i - step] if i >= step else 0
            corner = above[i - step] if i >= step else 0
            if kind == 1:
                predicted = left
            elif kind == 2:
                predicted = above[i]
            elif kind == 3:
                predicted = (left + above[i]) // 2
            else:
                guess = left + above[i] - corner
                predicted = min((abs(guess - left), 0, left), (abs(guess - above[i]), 1, above[i]),
                                (abs(guess - corner), 2, corner))[2]
            row[i] = (row[i] + predicted) & 0xFF

    def pixel(self, x, y):
        begin = x * self._channels
        return tuple(self._rows[y][begin:begin + 3])

    def colours(self, left=0, top=0, width=None, height=None, step=1):
        """{colour: pixels} of a rectangle, of which every `step`-th pixel is looked at."""
        counts = {}
        for y in range(top, min(self.height, top + (height or self.height)), step):
            for x in range(left, min(self.width, left + (width or self.width)), step):
                colour = self.pixel(x, y)
                counts[colour] = counts.get(colour, 0) + 1
        return counts


def luminance(colour):
    """Relative luminance of sRGB, 0 to 1, as contrast is defined by."""
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def with_palette(data, most=256):
    """The same picture in at most `most` colours, nearly all of them exact: a third of the size."""
    picture = Picture(data)
    counts = picture.colours()
    palette = sorted(counts, key=counts.get, reverse=True)[:most]
    number = {colour: i for i, colour in enumerate(palette)}
    for colour in counts:
        if colour not in number:
            number[colour] = min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(colour, palette[i])))
    raw = b"".join(b"\0" + bytes(number[picture.pixel(x, y)] for x in range(picture.width))
                   for y in range(picture.height))
    header = struct.pack(">IIBBBBB", picture.width, picture.height, 8, 3, 0, 0, 0)
    return SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in ((b"IHDR", header), (b"PLTE", b"".join(map(bytes, palette))),
                           (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b"")))
