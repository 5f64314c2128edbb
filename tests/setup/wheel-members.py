#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wheel-members.py URL DEST PATTERN...: brings those members of a wheel whose names match a shell pattern into DEST.

Of a wheel of half a gigabyte only the parts that are wanted are read, where its server answers requests for a range of bytes;
exit status 3 says that it does not (or that the address is no such thing), and that the whole must be downloaded. URL may also be
a file that is here. Every member's checksum is verified (zipfile does it); the wheel's own hash cannot be."""
import fnmatch
import io
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
import zipfile

GAP = 256 << 10   # what lies between two wanted members and is smaller than this is read as well: a request costs more
TAIL = 1 << 20    # the table of contents is at the end, and smaller than this
TRIES = 4


class NoRanges(Exception):
    pass


class Remote(io.RawIOBase):
    """The bytes of URL; read() serves what fetch() has brought, and brings the rest in small pieces."""

    def __init__(self, url):
        super().__init__()
        self.url, self.at, self.spans, self.total = url, 0, [], 0
        self.context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
        self.size = 0
        self.request(f"bytes=-{TAIL}")

    def request(self, wanted):
        for attempt in range(TRIES):
            try:
                ask = urllib.request.Request(self.url, headers={"Range": wanted})
                with urllib.request.urlopen(ask, timeout=60, context=self.context) as answer:
                    where = answer.headers.get("Content-Range", "")
                    if answer.status != 206 or not where.startswith("bytes "):
                        raise NoRanges(f"{self.url}: status {answer.status}, range '{where}'")
                    span, size = where[6:].split("/")
                    start, end = map(int, span.split("-"))
                    data = answer.read()
                if len(data) != end + 1 - start:
                    raise OSError("the answer was cut short")
                self.size = int(size)
                self.spans.append((start, data))
                self.total += len(data)
                return
            except urllib.error.HTTPError as error:
                if error.code < 500 or attempt == TRIES - 1:
                    raise NoRanges(f"{self.url}: {error}") from error
            except OSError:
                if attempt == TRIES - 1:
                    raise
            time.sleep(2 ** attempt)

    def fetch(self, start, end):
        self.request(f"bytes={start}-{end - 1}")

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=os.SEEK_SET):
        self.at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: self.size}[whence]
        return self.at

    def read(self, size=-1):
        if size < 0 or self.at + size > self.size:
            size = self.size - self.at
        if not size:
            return b""
        for start, data in self.spans:
            if start <= self.at < start + len(data):
                piece = data[self.at - start:self.at - start + size]
                break
        else:
            self.fetch(self.at, min(self.size, self.at + max(size, 64 << 10)))
            piece = self.spans[-1][1][:size]
        self.at += len(piece)
        return piece + (self.read(size - len(piece)) if len(piece) < size else b"")


def spans_of(archive, wanted, size):
    """From where to where the wanted members lie, those together that are near each other."""
    offsets = sorted(info.header_offset for info in archive.infolist()) + [size]
    ends = dict(zip(offsets, offsets[1:]))
    spans = []
    for start in sorted(info.header_offset for info in wanted):
        if spans and start - spans[-1][1] < GAP:
            spans[-1][1] = ends[start]
        else:
            spans.append([start, ends[start]])
    return spans


def extract(file, dest, patterns):
    with zipfile.ZipFile(file) as archive:
        wanted = [info for info in archive.infolist() if any(fnmatch.fnmatch(info.filename, p) for p in patterns)]
        if not wanted:
            raise SystemExit(f"nothing in it matches {' '.join(patterns)}")
        for span in spans_of(archive, wanted, file.size) if isinstance(file, Remote) else ():
            file.fetch(*span)
        for info in wanted:
            archive.extract(info, dest)
    return wanted


def main():
    url, dest, *patterns = sys.argv[1:]
    start = time.monotonic()
    try:
        with Remote(url) if "://" in url else open(url, "rb") as file:
            wanted = extract(file, dest, patterns)
            read = getattr(file, "total", 0)
    except NoRanges as error:
        print(f"wheel-members.py: {error}", file=sys.stderr)
        return 3
    print(f"{len(wanted)} members, {sum(i.file_size for i in wanted) / 1e6:.1f} MB, of which {read / 1e6:.1f} MB were "
          f"downloaded, in {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
