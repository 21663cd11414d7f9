"""A test for each promise in clients/README.md, by its number there. Each runs with every package."""

import re
import time

from program import Cannot
from resp import Connection
from server import eventually
from trial import promise

MINUTE = 60_000
ACQUIRE, RELEASE, RENEW = "LOCK.ACQUIRE", "LOCK.RELEASE", "LOCK.RENEW"


def released(worker, hold):
    assert worker.ask("release", hold) in ("ok", "done")


def lost(reply):
    if reply == "done":
        raise Cannot
    assert reply == "lost", reply


def waits(server, count, name="market"):
    eventually(lambda: server.waiters(name) == count, lambda: f"{server.waiters(name)} wait, and not {count}")


def comes_free(server, name="market", within=30):
    eventually(lambda: server.is_free(name), lambda: f"{name} is {server.owner(name)}'s", within)


def has_key(server, owner, name="market"):
    return server.say("SET", name, owner, "NX", "PX", MINUTE)


# The lock


@promise(1)
def a_hold_ends_no_other(trial):
    server = trial.server()
    worker = trial.worker(server)
    one, other = worker.grant("market", MINUTE), worker.grant("shop", MINUTE)
    assert 0 < one.fence() < other.fence()
    released(worker, one.hold())
    assert server.is_free("market") and server.owner("shop")
    later = worker.grant("market", MINUTE)
    assert later.fence() > other.fence()
    worker.ask("release", one.hold())
    assert server.owner("market") and worker.ask("held", later.hold()) == "yes"


@promise(2)
def the_key_is_the_name(trial):
    server = trial.server()
    worker = trial.worker(server)
    assert has_key(server, "another")
    assert worker.attempt("market", MINUTE) == "busy"
    server.say("DEL", "market")
    hold = worker.acquire("market", MINUTE)
    assert server.say("TYPE", "market") == "string" and 0 < server.say("PTTL", "market") <= MINUTE
    assert not has_key(server, "another")
    released(worker, hold)
    assert has_key(server, "another")


@promise(3)
def an_owner_says_which_process_it_is(trial):
    server = trial.server()
    worker = trial.worker(server)
    owners = []
    for prefix in ((), (), ("prefix=web-3",)):
        hold = worker.acquire("market", MINUTE, *prefix)
        owners.append(server.owner())
        released(worker, hold)
    uuid = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    for owner in owners[:2]:
        assert re.fullmatch(rf"[^:]+:{worker.process.pid}:{uuid}", owner), owner
    assert re.fullmatch(f"web-3:{uuid}", owners[2]) and len(set(owners)) == 3, owners


@promise(4)
def a_try_returns_at_once(trial):
    server = trial.server()
    one, other = trial.worker(server), trial.worker(server)
    hold = one.acquire("market", MINUTE)
    assert other.attempt("market", MINUTE) == "busy"
    assert server.waiters() == 0 and one.ask("held", hold) == "yes"
    released(one, hold)
    assert other.attempt("market", MINUTE).kind == "hold"


@promise(5)
def waiters_are_served_in_order(trial):
    server = trial.server()
    workers = [trial.worker(server) for _ in range(4)]
    holder, waiters = workers[0], workers[1:]
    hold = holder.acquire("market", MINUTE)
    for count, waiter in enumerate(waiters, 1):
        waiter.tell("acquire", "market", MINUTE, "wait=forever")
        waits(server, count)
    for waiter in waiters:
        released(holder, hold)
        holder, hold = waiter, waiter.hear().hold()
        assert all(other.is_quiet() for other in waiters)
    released(holder, hold)
    comes_free(server)


@promise(6)
def readers_share_a_lock(trial):
    server = trial.server()
    one, other = trial.worker(server), trial.worker(server)
    shares = [worker.acquire("market", MINUTE, "shared") for worker in (one, other)]
    assert server.info("market", "count") == 2
    assert one.attempt("market", MINUTE) == "busy"
    released(one, shares[0])
    released(other, shares[1])
    comes_free(server)


@promise(7)
def a_limit_lets_so_many_in(trial):
    server = trial.server()
    one, other = trial.worker(server), trial.worker(server)
    for worker in (one, other):
        worker.acquire("printer", MINUTE, "limit=2")
    assert one.attempt("printer", MINUTE, "limit=2") == "busy"


@promise(8)
def several_locks_are_held_together_or_not_at_all(trial):
    server = trial.server()
    worker = trial.worker(server)
    assert has_key(server, "another", "ben")
    assert worker.attempt("ann,ben", MINUTE) == "busy"
    assert server.is_free("ann")
    server.say("DEL", "ben")
    hold = worker.acquire("ann,ben", MINUTE)
    assert server.owner("ann") == server.owner("ben")
    released(worker, hold)
    assert server.is_free("ann") and server.is_free("ben")


# Deadlines, and giving up


@promise(9)
def a_wait_ends_at_its_deadline(trial):
    server = trial.server()
    worker = trial.worker(server)
    released(worker, worker.acquire("market", MINUTE))
    assert has_key(server, "another")
    began = time.monotonic()
    assert worker.attempt("market", MINUTE, "wait=300") == "busy"
    assert time.monotonic() - began >= 0.29
    waits(server, 0)
    server.say("DEL", "market")
    comes_free(server)


@promise(10)
def a_deadline_holds_with_a_silent_server(trial):
    server = trial.server()
    worker = trial.worker(server)
    hold = worker.acquire("shop", MINUTE)
    server.stop()
    for wait in ((), ("wait=300",)):
        began = time.monotonic()
        reply = worker.ask("acquire", "market", MINUTE, *wait)
        assert reply.kind in ("busy", "unknown"), reply
        took = time.monotonic() - began
        assert took < 10, took  # five seconds at most, on a machine that is not busy
    server.go_on()
    assert worker.ask("held", hold) == "yes"


@promise(11)
def a_request_that_arrives_late_is_withdrawn(trial):
    server = trial.server()
    worker = trial.worker(server)
    worker.needs("background")
    released(worker, worker.acquire("shop", MINUTE))  # it has a connection
    late = worker.proxy.delay(ACQUIRE)
    reply = worker.ask("acquire", "market", MINUTE, "wait=300")
    late.arrive.set()
    is_held = reply.kind == "hold"  # by a second request, over another connection
    eventually(lambda: server.calls(ACQUIRE) >= 2 + is_held)
    if is_held:
        assert worker.ask("held", reply.hold()) == "yes"
        released(worker, reply.hold())
    comes_free(server)


@promise(12)
def a_cancelled_wait_leaves_nothing(trial):
    server = trial.server()
    worker = trial.worker(server)
    assert has_key(server, "another")
    worker.tell("acquire", "market", MINUTE, "wait=forever", "cancellable")
    eventually(lambda: server.waiters() == 1 or not worker.is_quiet())
    if worker.is_quiet():
        worker.tell("cancel")
    assert worker.hear() == "cancelled"
    waits(server, 0)
    server.say("DEL", "market")
    comes_free(server)


@promise(13)
def a_killed_process_holds_up_others_for_its_ttl_at_most(trial):
    server = trial.server()
    killed, waiting, last = (trial.worker(server) for _ in range(3))
    for worker in (waiting, last):
        released(worker, worker.acquire("shop", MINUTE))  # its first connection takes a while on a busy machine
    killed.acquire("market", 5_000)
    waiting.tell("acquire", "market", MINUTE, "wait=forever")
    waits(server, 1)
    last.tell("acquire", "market", MINUTE, "wait=forever")
    waits(server, 2)
    killed.kill()
    waiting.kill()
    last.hear().hold()


# Lost replies and broken connections


@promise(14)
def an_acquire_whose_reply_is_lost_is_sent_again_by_the_same_owner(trial, module=True):
    server = trial.server(module)
    worker = trial.worker(server)
    released(worker, worker.acquire("shop", MINUTE))
    for lose in (worker.proxy.lose_reply_to, worker.proxy.lose_request):
        fault = lose(*([ACQUIRE] if module else ["SET", "EVAL", "EVALSHA"]))
        reply = worker.ask("acquire", "market", MINUTE, "wait=20000")
        assert reply.kind == "hold" and fault.hits == 1, reply
        owner = server.owner()
        assert owner
        if module:
            assert server.say("LOCK.ACQUIRE", "market", owner, 1) == reply.fence()
        released(worker, reply.hold())
        comes_free(server)


@promise(15)
def a_wait_goes_on_when_its_connection_breaks(trial):
    server = trial.server()
    worker = trial.worker(server)
    assert has_key(server, "another")
    worker.tell("acquire", "market", MINUTE, "wait=forever")
    for _ in range(2):
        waits(server, 1)
        before = worker.proxy.count(ACQUIRE)
        eventually(worker.sleeps)
        worker.proxy.break_connections()
        eventually(lambda: worker.proxy.count(ACQUIRE) > before, "it does not come back")
    waits(server, 1)
    server.say("DEL", "market")
    released(worker, worker.hear().hold())
    comes_free(server)


@promise(16)
def a_wait_goes_on_when_the_server_is_started_again(trial):
    server = trial.server()
    holder, waiter = trial.worker(server), trial.worker(server)
    hold = holder.acquire("market", MINUTE)
    waiter.tell("acquire", "market", MINUTE, "wait=forever")
    waits(server, 1)
    eventually(waiter.sleeps)
    server.kill()
    server.start()
    waiter.hear().hold()
    holder.ask("release", hold)
    assert server.owner()


@promise(17)
def a_release_whose_reply_is_lost_is_no_loss(trial):
    server = trial.server()
    worker = trial.worker(server)
    for lose in (worker.proxy.lose_reply_to, worker.proxy.lose_request):
        hold = worker.acquire("market", MINUTE)
        fault = lose(RELEASE)
        released(worker, hold)
        assert fault.hits == 1 and server.is_free()
        if "background" not in worker.lacks:
            assert worker.losses(hold) == 0


@promise(18)
def a_release_goes_on_in_the_background(trial):
    server = trial.server()
    worker = trial.worker(server)
    worker.needs("background")
    hold = worker.acquire("market", MINUTE)
    worker.proxy.go_down()
    worker.tell("release", hold)
    # It has failed, or it still tries: for five seconds in Go and Java, and in the background then.
    end = time.monotonic() + 7
    eventually(lambda: not worker.is_quiet() or time.monotonic() > end)
    assert server.owner()
    worker.proxy.come_up()
    comes_free(server)


@promise(19)
def a_release_outlasts_a_short_outage(trial):
    server = trial.server()
    worker = trial.worker(server)
    hold = worker.acquire("market", MINUTE)
    worker.proxy.go_down()
    worker.tell("release", hold)
    eventually(lambda: worker.proxy.refused >= 1 or not worker.is_quiet())
    worker.proxy.come_up()
    comes_free(server)


@promise(20)
def a_renewal_whose_reply_is_lost_is_sent_again(trial):
    server = trial.server()
    worker = trial.worker(server)
    for lose in (worker.proxy.lose_reply_to, worker.proxy.lose_request):
        hold = worker.acquire("market", 20_000)
        fault = lose(RENEW)
        assert worker.ask("renew", hold, MINUTE) == "ok"
        assert fault.hits == 1 and server.say("PTTL", "market") > 30_000
        assert worker.ask("held", hold) == "yes"
        released(worker, hold)


@promise(21)
def a_guarded_command_is_sent_once(trial, module=True):
    server = trial.server(module)
    worker = trial.worker(server)
    hold = worker.acquire("market", MINUTE)
    assert worker.ask("guard", hold, "INCR", "count") == "reply 1"
    names = ["LOCK.GUARD"] if module else ["EVAL", "EVALSHA", "EXEC"]
    worker.proxy.lose_reply_to(*names)
    assert worker.ask("guard", hold, "INCR", "count").kind == "unknown"
    assert server.say("GET", "count") == "2"
    worker.proxy.lose_request(*names)
    assert worker.ask("guard", hold, "INCR", "count").kind == "unknown"
    assert server.say("GET", "count") == "2"
    assert worker.ask("guard", hold, "INCR", "count") == "reply 3"


@promise(21)
def a_guarded_command_runs_only_while_the_lock_is_held(trial):
    server = trial.server()
    worker = trial.worker(server)
    hold = worker.acquire("market", MINUTE)
    server.say("SET", "market", "another")
    assert worker.ask("guard", hold, "SET", "price", 5) == "lost"
    assert worker.ask("held", hold) == "no" and not server.say("EXISTS", "price")


@promise(22)
def what_reaches_the_server_twice_is_done_once(trial):
    server = trial.server()
    worker = trial.worker(server)
    worker.proxy.duplicate(ACQUIRE, RELEASE, RENEW)
    first = worker.grant("market", 20_000)
    assert worker.ask("renew", first.hold(), MINUTE) == "ok" and server.say("PTTL", "market") > 30_000
    released(worker, first.hold())
    assert server.is_free()
    assert worker.grant("market", MINUTE).fence() > first.fence()


# The end of a hold


@promise(23)
def a_hold_is_renewed_until_it_is_released(trial, module=True):
    server = trial.server(module)
    worker = trial.worker(server)
    hold = worker.acquire("market", 2_000, "renew")
    owner, renewals = server.owner(), (RENEW, "EVAL", "EVALSHA", "SET")
    before = worker.proxy.count(*renewals)

    def is_renewed():
        assert server.owner() == owner
        return worker.proxy.count(*renewals) >= before + 4

    eventually(is_renewed, "it is not renewed")
    assert worker.ask("held", hold) == "yes"
    released(worker, hold)
    assert server.is_free() and worker.losses(hold) == 0


@promise(24)
def a_hold_that_is_not_renewed_is_over_by_the_own_clock(trial):
    server = trial.server()
    worker = trial.worker(server)
    hold = worker.acquire("market", 2_000)
    assert worker.ask("held", hold) == "yes"
    server.stop()
    eventually(lambda: worker.ask("held", hold) == "no")


@promise(24)
def what_replicas_had_before_its_owner_is_over_no_later(trial):
    for option, setting in (("replicas=1", 0), ("", 1)):
        server = trial.server()
        trial.server(master=server)
        server.say("CONFIG", "SET", "lock.replicas", setting)
        worker = trial.worker(server)
        worker.proxy.drops_messages = True  # that it is time to poll
        hold = worker.acquire("market", 8_000, *option.split())
        comes_free(server)
        assert worker.ask("held", hold) == "no"


@promise(25)
def a_loss_is_found_by_the_next_renewal_and_told_once(trial, module=True):
    server = trial.server(module)
    worker = trial.worker(server)
    hold = worker.acquire("market", 3_000, "renew")
    server.say("SET", "market", "another")
    eventually(lambda: worker.ask("held", hold) == "no", within=20)
    eventually(lambda: worker.losses(hold) == 1)
    lost(worker.ask("guard", hold, "SET", "price", 5))
    assert server.owner() == "another" and not server.say("EXISTS", "price")
    lost(worker.ask("release", hold))
    assert worker.losses(hold) == 1 and server.owner() == "another"


@promise(26)
def a_silent_server_is_a_loss_when_the_ttl_is_over(trial):
    server = trial.server()
    worker = trial.worker(server)
    hold = worker.acquire("market", 1_500, "renew")
    server.stop()
    began = time.monotonic()
    eventually(lambda: worker.losses(hold) == 1, "no loss was told")
    assert time.monotonic() - began < 10
    assert worker.ask("held", hold) == "no"


@promise(27)
def the_first_look_after_a_pause_is_right(trial):
    server = trial.server()
    worker = trial.worker(server)
    for look, expected in (("held", "no"), ("guard", "lost")):
        hold = worker.acquire("market", 2_000)
        guards = worker.proxy.count("LOCK.GUARD")
        assert worker.ask("held", hold) == "yes"
        worker.pause()
        eventually(worker.is_stopped)
        comes_free(server)
        worker.tell(look, hold, *(("SET", "price", 5) if look == "guard" else ()))
        worker.go_on()
        assert worker.hear() == expected
        assert worker.proxy.count("LOCK.GUARD") == guards and not server.say("EXISTS", "price")


@promise(28)
def the_release_of_a_lost_hold_says_so_and_ends_no_other(trial, module=True):
    server = trial.server(module)
    worker = trial.worker(server)
    hold = worker.acquire("market", MINUTE)
    server.say("SET", "market", "another", "PX", MINUTE)
    reply = worker.ask("release", hold)
    assert server.owner() == "another"
    lost(reply)


@promise(29)
def a_renewal_sets_the_end_anew_and_revives_nothing(trial, module=True):
    server = trial.server(module)
    worker = trial.worker(server)
    hold = worker.acquire("market", 20_000)
    assert worker.ask("renew", hold, MINUTE) == "ok"
    assert 30_000 < server.say("PTTL", "market") <= MINUTE
    assert worker.ask("renew", hold, 20_000) == "ok"
    assert server.say("PTTL", "market") <= 20_000
    server.say("DEL", "market")
    assert worker.ask("renew", hold, MINUTE) == "lost"
    assert worker.ask("held", hold) == "no" and server.is_free()


@promise(30)
def a_hold_whose_owner_was_granted_the_lock_again_is_lost(trial):
    server = trial.server()
    worker = trial.worker(server)
    first = worker.grant("market", MINUTE, "owner=ann")
    server.say("DEL", "market")
    later = worker.grant("market", MINUTE, "owner=ann")
    assert later.fence() > first.fence()
    assert worker.ask("guard", first.hold(), "SET", "price", 5) == "lost"
    assert worker.ask("held", first.hold()) == "no"
    lost(worker.ask("release", first.hold()))
    assert server.owner() == "ann" and not server.say("EXISTS", "price")
    assert worker.ask("guard", later.hold(), "SET", "price", 6).kind == "reply"
    released(worker, later.hold())


@promise(31)
def a_forked_child_ends_nothing_of_its_parent(trial):
    server = trial.server()
    worker = trial.worker(server)
    hold = worker.acquire("market", MINUTE)
    assert worker.ask("forked", hold) == "lost"
    assert server.owner() and worker.ask("held", hold) == "yes"
    released(worker, hold)


# What is refused


@promise(32)
def nonsense_is_refused_before_anything_is_sent(trial):
    server = trial.server()
    worker = trial.worker(server)
    cannot = 0
    for words in (["market", 0], ["market", MINUTE, "limit=0"], ["market", MINUTE, "owner=*"],
                  ["market", MINUTE, "owner=@lock:shared"]):
        try:
            assert worker.ask("acquire", *words).kind == "invalid", words
        except Cannot:
            cannot += 1
    assert cannot < 4 and worker.proxy.count(ACQUIRE) == 0


@promise(33)
def what_the_server_refuses_is_an_error_and_is_not_sent_again(trial):
    server = trial.server()
    worker = trial.worker(server)
    fault = worker.proxy.reply_to(b"", ACQUIRE)
    for code in ("REPLACED", "ONEWAIT", "NOUPGRADE", "DEADLOCK", "TOOCOMPLEX", "QUEUEFULL"):
        fault.reply = f"-{code} in the server's words\r\n".encode()
        try:
            reply = worker.ask("acquire", code, MINUTE, "wait=20000", "owner=ann")
        except Cannot:
            reply = worker.ask("acquire", code, MINUTE, "wait=20000")
        assert reply.kind == "refused" and code in reply, reply
    # By now a release would have come. It would end what another request of the owner has, or waits for.
    worker.ask("acquire", "shop", MINUTE)
    for code in ("REPLACED", "ONEWAIT", "NOUPGRADE"):
        assert [words[0] for words in worker.proxy.sent if code in words] == [ACQUIRE]
    assert worker.proxy.count(ACQUIRE) == 7


@promise(34)
def a_request_does_not_join_a_queue_that_is_too_long(trial):
    server = trial.server()
    one, other = trial.worker(server), trial.worker(server)
    assert has_key(server, "another")
    one.tell("acquire", "market", MINUTE, "wait=forever")
    waits(server, 1)
    reply = other.ask("acquire", "market", MINUTE, "wait=forever", "max-queue=1")
    assert reply.kind == "refused" and "QUEUEFULL" in reply, reply
    assert server.waiters() == 1


def refuses_max_queue(worker, info, word="MAXQUEUE"):
    """A module that does so, with this reply to INFO."""
    error = f'-ERR syntax error: there is no option "{word}"\r\n'.encode()
    worker.proxy.reply_to(error, ACQUIRE, when=lambda words: word in words)
    return worker.proxy.reply_to(info, "INFO", when=lambda words: words[1:] == ["lock"])


@promise(35)
def what_an_older_module_does_not_know_is_refused_in_words_and_its_version_is_asked_for_once(trial):
    for word, *options in (("MAXQUEUE", "max-queue=5"), ("REPLICAS", "replicas=1"), ("FAIR", "limit=2", "fair=ann")):
        server = trial.server()
        worker = trial.worker(server)
        info = refuses_max_queue(worker, b"$34\r\n# lock_build\r\nlock_version:1.0.0\r\n\r\n", word)
        for times in range(1, 4):
            reply = worker.ask("acquire", "market", MINUTE, "wait=20000", *options)
            assert reply.kind == "missing" and "2.0" in reply and "1.0.0" in reply, reply
            assert info.hits == 1 and sum(word in words for words in worker.proxy.sent) == times
        comes_free(server)
        assert worker.ask("acquire", "market", MINUTE, "wait=20000").kind == "hold"


@promise(35)
def a_module_that_does_not_say_its_version_is_an_older_one(trial):
    worker = trial.worker(trial.server())
    refuses_max_queue(worker, b"-NOPERM this user may not\r\n")
    reply = worker.ask("acquire", "market", MINUTE, "wait=20000", "max-queue=5")
    assert reply.kind == "missing" and "2.0" in reply and "older" in reply, reply


@promise(35)
def the_words_of_a_module_that_is_not_older_are_passed_on(trial):
    worker = trial.worker(trial.server())
    refuses_max_queue(worker, b"$20\r\nlock_version:2.0.0\r\n\r\n")
    reply = worker.ask("acquire", "market", MINUTE, "wait=20000", "max-queue=5")
    assert reply.kind == "refused" and "no option" in reply, reply


# Without the module


@promise(36)
def without_the_module_it_is_the_same_lock(trial):
    server = trial.server(module=False)
    one, other = trial.worker(server), trial.worker(server)
    assert has_key(server, "another")
    assert one.attempt("market", MINUTE) == "busy"
    server.say("DEL", "market")
    reply = one.grant("market", MINUTE)
    assert reply.fence() is None
    assert re.fullmatch(r"[^:]+:\d+:[-0-9a-f]{36}", server.owner())
    assert server.say("TYPE", "market") == "string" and 0 < server.say("PTTL", "market") <= MINUTE
    assert other.attempt("market", MINUTE) == "busy" and not has_key(server, "another")
    released(one, reply.hold())
    assert server.is_free()


@promise(37)
def without_the_module_waiters_poll(trial):
    server = trial.server(module=False)
    worker = trial.worker(server)
    assert has_key(server, "another")
    worker.tell("acquire", "market", MINUTE, "wait=forever")
    eventually(lambda: worker.proxy.count("SET", "EVAL", "EVALSHA") >= 10, "it does not poll")
    assert worker.is_quiet()
    server.say("DEL", "market")
    released(worker, worker.hear().hold())


@promise(38)
def without_the_module_lost_replies_are_survived(trial):
    an_acquire_whose_reply_is_lost_is_sent_again_by_the_same_owner(trial, module=False)
    server = trial.server(module=False)
    worker = trial.worker(server)
    hold = worker.acquire("market", MINUTE)
    worker.proxy.lose_reply_to("EVAL", "EVALSHA", "DELEX", "DELIFEQ")
    released(worker, hold)
    assert server.is_free()
    a_guarded_command_is_sent_once(trial, module=False)


@promise(39)
def without_the_module_losses_are_found(trial):
    a_renewal_sets_the_end_anew_and_revives_nothing(trial, module=False)
    server = trial.server(module=False)
    worker = trial.worker(server)
    hold = worker.acquire("market", MINUTE)
    server.say("SET", "market", "another", "PX", MINUTE)
    assert worker.ask("guard", hold, "SET", "price", 5) == "lost"
    worker.ask("release", hold)
    assert server.owner() == "another" and not server.say("EXISTS", "price")


@promise(40)
def what_needs_the_module_says_so(trial):
    server = trial.server(module=False)
    worker = trial.worker(server)
    able = 0
    for words in (["market", MINUTE, "shared"], ["market", MINUTE, "limit=3"], ["ann,ben", MINUTE],
                  ["market", MINUTE, "wait=forever", "max-queue=3"], ["market", MINUTE, "module"]):
        try:
            reply = worker.ask("acquire", *words)
            assert reply.kind == "missing" and "module" in reply, (words, reply)
            able += 1
        except Cannot:
            pass
    assert able >= 2 and server.is_free()


@promise(41)
def holds_and_waits_outlast_that_the_module_is_unloaded_and_loaded(trial):
    server = trial.server()
    holder, waiter = trial.worker(server), trial.worker(server)
    hold = holder.acquire("market", MINUTE)
    waiter.tell("acquire", "market", MINUTE, "wait=forever")
    waits(server, 1)
    server.unload()
    assert holder.ask("held", hold) == "yes" and waiter.is_quiet()
    released(holder, hold)
    hold = waiter.hear().hold()
    holder.tell("acquire", "market", MINUTE, "wait=forever")
    eventually(lambda: holder.proxy.count("SET", "EVAL", "EVALSHA") >= 3)
    server.load()
    waits(server, 1)
    assert waiter.ask("held", hold) == "yes"
    released(waiter, hold)
    assert holder.hear().fence()


# Replicas and fair limits


def too_few(reply):
    assert reply.kind == "refused" and "NOREPLICAS" in reply, reply


def a_hold_is_what_its_replica_has(worker, hold, server, replica):
    """The replica stands still then: what was renewed before stays held, and what is asked for is not."""
    assert replica.owner() == server.owner() is not None
    assert worker.ask("renew", hold, 2 * MINUTE) == "ok" and replica.say("PTTL", "market") > MINUTE
    replica.stop()
    too_few(worker.ask("renew", hold, 2 * MINUTE))
    assert worker.ask("held", hold) == "yes"
    too_few(worker.attempt("shop", MINUTE, "replicas=1"))
    comes_free(server, "shop")


@promise(43)
def a_hold_is_returned_when_so_many_replicas_have_it(trial):
    server = trial.server()
    replica = trial.server(master=server)
    worker, other = trial.worker(server), trial.worker(server)
    server.say("CONFIG", "SET", "lock.replicas", 2)  # what the package asks for counts
    hold = worker.acquire("market", MINUTE, "replicas=1")
    assert replica.owner() == server.owner() is not None
    other.tell("acquire", "market", MINUTE, "wait=20000", "replicas=1")
    waits(server, 1)
    released(worker, hold)
    hold = other.hear().hold()
    # The request that waits claims the lock, and no other.
    assert "lock_replicated_total:2\r" in server.say("INFO", "lock")
    for sent in worker.proxy.sent + other.proxy.sent:
        assert sent[0] != ACQUIRE or {"BLOCK", "QUEUE"} & set(sent) and "REPLICAS 1" in " ".join(sent), sent
    a_hold_is_what_its_replica_has(other, hold, server, replica)
    reply = worker.ask("acquire", "shop", MINUTE, "wait=3000", "replicas=1")
    assert reply.kind in ("refused", "busy"), reply
    comes_free(server, "shop")
    server.say("CONFIG", "SET", "lock.replicas", 0)
    assert worker.attempt("shop", MINUTE).kind == "hold"
    replica.go_on()
    released(other, hold)


@promise(43)
def with_fewer_replicas_there_is_no_hold(trial):
    server = trial.server()
    trial.server(master=server)
    worker = trial.worker(server)
    too_few(worker.attempt("market", MINUTE, "replicas=2"))
    comes_free(server)


@promise(43)
def with_none_the_server_s_own_number_does_not_count(trial):
    server = trial.server()
    worker = trial.worker(server)
    server.say("CONFIG", "SET", "lock.replicas", 1)
    too_few(worker.attempt("market", MINUTE))
    hold = worker.acquire("market", MINUTE, "replicas=0")
    assert worker.ask("renew", hold, 2 * MINUTE) == "ok" and server.say("PTTL", "market") > MINUTE
    released(worker, hold)
    comes_free(server)


@promise(43)
def where_the_server_asks_for_replicas_a_waiter_waits_for_them(trial):
    server = trial.server()
    server.say("CONFIG", "SET", "lock.replicas", 1)
    worker = trial.worker(server)
    worker.tell("acquire", "market", MINUTE, "wait=forever")
    eventually(lambda: server.waiters() == 1 or not worker.is_quiet())
    assert worker.is_quiet(), worker.hear()
    replica = trial.server(master=server)
    hold = worker.hear().hold()
    assert replica.owner() == server.owner() is not None
    released(worker, hold)
    comes_free(server)


def renewed_in_the_background(trial):
    server = trial.server()
    trial.server(master=server)
    worker = trial.worker(server)
    worker.needs("background")
    return server, worker, worker.acquire("market", 6_000, "renew", "replicas=1")


@promise(44)
def a_renewal_that_waits_for_replicas_holds_up_no_other_request(trial):
    server, worker, hold = renewed_in_the_background(trial)
    for _ in range(2):
        renewal = worker.proxy.delay(RENEW)
        eventually(lambda: renewal.hits, "it is not renewed")
        released(worker, worker.acquire("shop", MINUTE))
        assert renewal.delays_nothing_else()
        assert [words for words in worker.proxy.sent if words[0] == RENEW][-1][-2:] == ["REPLICAS", "1"]
        renewal.arrive.set()
    released(worker, hold)
    comes_free(server)


@promise(44)
def a_renewal_that_its_release_overtakes_is_no_loss(trial):
    server, worker, hold = renewed_in_the_background(trial)
    renewal, release = worker.proxy.delay(RENEW), worker.proxy.delay_reply_to(RELEASE)
    eventually(lambda: renewal.hits, "it is not renewed")
    worker.tell("release", hold)
    comes_free(server)
    before = server.calls(RENEW)
    renewal.arrive.set()
    eventually(lambda: server.calls(RENEW) > before)
    eventually(worker.sleeps)
    release.arrive.set()
    assert worker.hear() in ("ok", "done") and worker.losses(hold) == 0


@promise(45)
def without_the_module_the_same_replicas_are_waited_for(trial):
    server = trial.server(module=False)
    replica = trial.server(module=False, master=server)
    worker = trial.worker(server)
    hold = worker.acquire("market", MINUTE, "replicas=1")
    assert ["WAIT", "1"] in [words[:2] for words in worker.proxy.sent]
    a_hold_is_what_its_replica_has(worker, hold, server, replica)
    assert worker.attempt("shop", MINUTE, "replicas=0").kind == "hold"
    assert ["WAIT", "0"] not in [words[:2] for words in worker.proxy.sent]
    replica.go_on()
    released(worker, hold)


@promise(46)
def a_group_is_what_its_owners_begin_with(trial):
    server = trial.server()
    worker = trial.worker(server)
    limit = ("limit=2", "fair=ann")
    for words in (["market", MINUTE, "limit=2", "fair=ann:ben"], ["market", MINUTE, "fair=ann"],
                  ["market", MINUTE, "limit=2", "per=1"], ["market", MINUTE, *limit, "per=0"],
                  ["ann,ben", MINUTE, *limit]):
        assert worker.ask("acquire", *words).kind == "invalid", words
    assert worker.proxy.count(ACQUIRE, "LOCK.MACQUIRE") == 0
    uuid = "[-0-9a-f]{36}"
    for words, owner in (((), rf"ann:[^:]+:{worker.process.pid}:{uuid}"), (("prefix=web-3",), rf"ann:web-3:{uuid}")):
        released(worker, worker.acquire("market", MINUTE, *limit, *words))
        sent = [words for words in worker.proxy.sent if words[0] == ACQUIRE][-1]
        assert re.fullmatch(owner, sent[2]) and "LIMIT 2 FAIR" in " ".join(sent), sent
    bare = trial.server(module=False)
    reply = trial.worker(bare).ask("acquire", "market", MINUTE, *limit)
    assert reply.kind == "missing" and "module" in reply and bare.is_free(), reply


@promise(47)
def a_group_holds_no_more_than_its_share(trial):
    server = trial.server()
    worker = trial.worker(server)
    holds = [worker.acquire("market", MINUTE, "limit=3", "fair=ann", "per=2") for _ in range(2)]
    assert worker.attempt("market", MINUTE, "limit=3", "fair=ann", "per=2") == "busy"
    holds.append(worker.acquire("market", MINUTE, "limit=3", "fair=ben", "per=2"))
    for hold in holds:
        released(worker, hold)
    comes_free(server)
