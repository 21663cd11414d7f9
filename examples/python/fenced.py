"""Resources that refuse a holder who comes too late: rows of PostgreSQL, a file, an object behind HTTP.

`number` is the fencing token that LOCK.ACQUIRE has returned. check_fenced.py beside it runs this, with holders that
sleep past the end of their holds; docs/resource.md has the reasons.
"""

import fcntl
import json
import os
from urllib.error import HTTPError
from urllib.request import Request, urlopen

TABLES = """
CREATE TABLE items (name TEXT PRIMARY KEY, price BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0);
CREATE TABLE locks (name TEXT PRIMARY KEY, fence BIGINT NOT NULL DEFAULT 0);
INSERT INTO locks VALUES ('market')
"""


class TooLate(Exception):
    """A later holder has been here: stop, and ask for the lock again."""


def set_price(shop, number, item, price):
    """One row, written without reading it first: the row itself remembers the largest number."""
    with shop.transaction():
        written = shop.execute(
            "UPDATE items SET price = %(price)s, fence = %(n)s WHERE name = %(item)s AND fence <= %(n)s",
            {"n": number, "item": item, "price": price})
    if written.rowcount == 0:
        raise TooLate


def add(shop, number, item, price):
    """A row that may not be there yet."""
    with shop.transaction():
        written = shop.execute(
            "INSERT INTO items VALUES (%(item)s, %(price)s, %(n)s) ON CONFLICT (name) DO UPDATE "
            "SET price = excluded.price, fence = excluded.fence WHERE items.fence <= excluded.fence",
            {"n": number, "item": item, "price": price})
    if written.rowcount == 0:
        raise TooLate


def show(shop, number):
    """First in each transaction that reads, or that writes several rows: no smaller number gets past it any more."""
    shown = shop.execute("UPDATE locks SET fence = %(n)s WHERE name = 'market' AND fence <= %(n)s", {"n": number})
    if shown.rowcount == 0:
        raise TooLate


def write_file(path, number, text):
    """A file on a local disk, and beside it the largest number."""
    with open(path + ".fence", "a+") as seen:
        fcntl.flock(seen, fcntl.LOCK_EX)  # only while it compares and writes
        seen.seek(0)
        if int(seen.read() or 0) > number:
            raise TooLate
        seen.truncate(0)
        seen.write(str(number))
        seen.flush()
        os.fsync(seen.fileno())  # on disk before the text: a crash between the two lets no late writer in
        with open(path + ".new", "w") as new:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())
        os.replace(path + ".new", path)


def put_price(url, number, price):
    """An object with an ETag, which keeps the number with its data."""
    while True:
        with urlopen(url) as reply:
            tag, item = reply.headers["ETag"], json.load(reply)
        if item["fence"] > number:
            raise TooLate
        text = json.dumps({**item, "price": price, "fence": number}).encode()
        try:
            return urlopen(Request(url, text, {"If-Match": tag}, method="PUT")).close()
        except HTTPError as error:
            if error.code not in (409, 412):
                raise
            # Another has written since we looked. It may have been our own request, whose reply was lost: look again.
