"""Answers one line for each line that it is asked: `acquire KEY TTL`, `wait KEY TTL MS`, `adopt KEY TOKEN`, `extend TTL`, `release`."""

import sys


def answer_each(**verbs):
    for line in sys.stdin:
        verb, *args = line.split()
        try:
            got = verbs[verb](*args)
            print(got if isinstance(got, str) else "yes" if got else "no", flush=True)
        except Exception as error:
            print("error", error, flush=True)
