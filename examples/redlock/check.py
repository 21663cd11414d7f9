"""What must come of redlock.py. PORTS says where five servers with the module are.

python3 -m pip install redis

It ends by stopping three of them, so give it servers of its own: `scripts/test-clients redlock`.
"""

import os
import random
import time

from redlock import LockLost, NotLocked, Redlock


def refused(error, lock, during=lambda: None):
    try:
        with lock:
            during()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


class GivenUp(Exception):
    pass


class Hasty(Redlock):
    """Gives up in the middle of asking."""

    def ask(self, command, *words):
        if command == "LOCK.ACQUIRE":
            for thread, server in zip(self.threads, self.servers):
                thread.submit(server.execute_command, command, *words)
            time.sleep(random.uniform(0, 0.002))
            raise GivenUp
        return super().ask(command, *words)


def main():
    red = Redlock([int(port) for port in os.environ["PORTS"].split()])

    with red.lock("market", ttl=10_000) as hold:
        assert 9 < hold.time_left() < 10
        refused(NotLocked, red.lock("market", ttl=10_000))
    with red.lock("market", ttl=10_000):
        pass
    print("granted by a majority, to one at a time")

    first, again = (red.ask("LOCK.ACQUIRE", "market", "ann", 10_000) for _ in range(2))
    assert first == again and all(first)
    assert red.release("market", "ann")
    print("asked again, each server answers with the number that it gave before:", *first)

    for server in red.servers[:2]:
        server.execute_command("LOCK.ACQUIRE", "market", "ben", 60_000)
    with red.lock("market", ttl=10_000):
        pass
    red.servers[2].execute_command("LOCK.ACQUIRE", "market", "ben", 60_000)
    refused(NotLocked, red.lock("market", ttl=10_000))
    assert red.release("market", "ben")
    print("three votes of five are enough, two are not")

    with red.lock("market", ttl=1_000) as hold:
        for _ in range(4):
            time.sleep(0.4)
            hold.renew()
    print("renewed a long job")

    refused(LockLost, red.lock("market", ttl=100), during=lambda: time.sleep(0.2))
    print("a lost lock is noticed")

    hasty = Hasty([int(port) for port in os.environ["PORTS"].split()])
    for _ in range(1_000):
        refused(GivenUp, hasty.lock("market", ttl=60_000))
        assert not any(red.ask("EXISTS", "market")), "a client that gave up has left a vote behind"
    print("1000 gave up in the middle of asking, and left nothing behind")

    red.servers[0].execute_command("CLIENT", "PAUSE", 2_000)  # it hangs
    red.servers[1].shutdown(nosave=True)
    with red.lock("market", ttl=10_000) as hold:
        assert hold.time_left() > 8
    print("with one server down and one that hangs it goes on")

    for server in red.servers[2:4]:
        server.shutdown(nosave=True)
    refused(NotLocked, red.lock("market", ttl=10_000, wait=500))
    assert red.servers[4].exists("market") == 0
    print("without a majority nothing is granted, and nothing is left behind")


main()
