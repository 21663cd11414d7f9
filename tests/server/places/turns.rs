//! Who comes when, and by what.

use super::*;

#[test]
fn a_place_is_a_number_below_zero_until_it_is_the_owners_turn() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        let first = client.acquire("k", "a");
        assert_eq!(client.run(&queue("k", "b")), -1);
        assert_eq!(client.run(&queue("k", "c")), -2);
        assert_eq!(client.run(&queue("k", "d")), -3);
        assert_eq!(client.run(&queue("k", "c")), -2);
        assert_eq!(client.queue("k"), ["b", "c", "d"]);
        client.release("k", "a");
        assert_eq!(client.holder("k"), "b");
        assert_eq!(client.run(&queue("k", "c")), -1);
        assert_eq!(client.run(&queue("k", "d")), -2);
        let second = client.run(&queue("k", "b")).fence();
        assert!(second > first);
        assert_eq!(client.run(&queue("k", "b")), second);
        client.release("k", "b");
        client.run(&queue("k", "c")).fence();
        client.release("k", "c");
        client.run(&queue("k", "d")).fence();
        client.release("k", "d");
    }
}

#[test]
fn a_place_belongs_to_its_owner_and_not_to_a_connection() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut other = server.client();
    assert_eq!(other.run(&queue("k", "b")), -1);
    assert_eq!(client.run(&queue("k", "c")), -2);
    other.reset();
    assert_eq!(client.run(&queue("k", "c")), -2);
    assert_eq!(server.client().run(&queue("k", "b")), -1);
    client.release("k", "a");
    server.client().run(&queue("k", "b")).fence();
}

#[test]
fn places_and_blocked_clients_stand_in_one_queue() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut first = server.waiter_for("k", "b");
    assert_eq!(client.run(&queue("k", "c")), -2);
    let mut third = server.waiter_for("k", "d");
    assert_eq!(client.run(&queue("k", "e")), -4);
    assert_eq!(client.queue("k"), ["b", "c", "d", "e"]);
    client.release("k", "a");
    first.answer().fence();
    client.release("k", "b");
    client.run(&queue("k", "c")).fence();
    assert!(third.still_waits());
    client.release("k", "c");
    third.answer().fence();
    client.release("k", "d");
    client.run(&queue("k", "e")).fence();
}

#[test]
fn a_try_does_not_overtake_a_place() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "a");
    assert_eq!(client.run(&queue("k", "b")), -1);
    let tried = cmd!(client, "LOCK.ACQUIRE", "k", "c", LONG, "SHARED");
    assert!(tried.is_nil());
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 1);
    client.run(&queue("k", "b")).fence();
}

#[test]
fn a_place_can_be_had_in_a_transaction_a_script_and_a_function() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let placed = client.transaction(&[queue("k", "b"), queue("k", "c"), queue("k", "b")]);
    assert_eq!(placed, [-1, -2, -1].map(Value::Int));
    assert_eq!(client.run(&in_lua(&queue("k", "d"))), -3);
    let library = "#!lua name=l\nredis.register_function('f', function(keys, args) return redis.call(unpack(args)) end)";
    assert_eq!(cmd!(client, "FUNCTION", "LOAD", library), "l");
    let mut call = args!["FCALL", "f", 0];
    call.extend(queue("k", "e"));
    assert_eq!(client.run(&call), -4);
    client.release("k", "a");
    for owner in ["b", "c", "d", "e"] {
        client.run(&in_lua(&queue("k", owner))).fence();
        client.release("k", owner);
    }
}

#[test]
fn a_place_for_several_locks_is_the_worst_of_its_queues() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.acquire("j", "a");
    assert_eq!(client.run(&queue("j", "b")), -1);
    assert_eq!(client.run(&queue("j", "c")), -2);
    let both = |first, second| args!["LOCK.MACQUIRE", 2, first, second, "m", LONG, "QUEUE", LEASE];
    assert_eq!(client.run(&both("k", "j")), -3);
    assert_eq!(client.run(&both("j", "k")), -3);
    for owner in ["a", "b", "c"] {
        cmd!(client, "LOCK.MRELEASE", 2, "k", "j", owner);
    }
    let fence = client.run(&both("k", "j")).fence();
    assert_eq!(client.run(&both("j", "k")), fence);
    assert_eq!(cmd!(client, "LOCK.MRELEASE", 2, "k", "j", "m"), 2);
}

#[test]
fn a_lock_that_others_let_go_goes_to_the_first_place() {
    let server = Server::start();
    let mut client = server.client();
    for (set_up, let_go) in [
        (args!["SET", "k", "x", "PX", LONG], args!["DEL", "k"]),
        (args!["SET", "k", "x", "PX", LONG], args!["PEXPIRE", "k", 1]),
        (args!["SET", "k", "x", "PX", LONG], args!["FLUSHALL"]),
        (
            args!["SET", "k", "x", "PX", LONG],
            args!["RENAME", "k", "o"],
        ),
        (
            args!["LOCK.ACQUIRE", "k", "x", LONG, "SHARED"],
            args!["ZREM", "k", "x"],
        ),
        (
            args!["LOCK.ACQUIRE", "k", "x", LONG, "SHARED"],
            args!["LOCK.BREAK", "k"],
        ),
    ] {
        client.run(&set_up);
        assert_eq!(client.run(&queue("k", "b")), -1, "{set_up:?}");
        client.run(&let_go);
        eventually("the lock is handed on", || {
            !client.holder("k").is_nil() && client.holder("k") == "b"
        });
        client.run(&queue("k", "b")).fence();
        client.release("k", "b");
    }
}

/// What frees a permit is told as a new value of the sorted set.
#[test]
fn a_permit_that_somebody_takes_away_goes_to_the_first_place() {
    let server = Server::start();
    let mut client = server.client();
    client.permit("k", "a", 2);
    client.permit("k", "b", 2);
    let asks = args!["LOCK.ACQUIRE", "k", "c", LONG, "LIMIT", 2, "QUEUE", LEASE];
    assert_eq!(client.run(&asks), -1);
    assert_eq!(cmd!(client, "ZREM", "k", "a"), 1);
    eventually("the permit is handed on", || {
        !cmd!(client, "ZSCORE", "k", "c").is_nil()
    });
    client.run(&asks).fence();
}

#[test]
fn a_place_that_would_wait_for_its_own_owner_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("x", "a");
    client.acquire("y", "b");
    assert_eq!(client.run(&queue("x", "b")), -1);
    let refused = client.run(&queue("y", "a"));
    assert!(refused.is_error("DEADLOCK"), "{refused:?}");
    assert_eq!(client.run(&queue("x", "b")), -1);
    assert_eq!(client.queue("y"), [""; 0]);
}

#[test]
fn a_place_is_for_locks_of_which_its_owner_holds_none() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("j", "a");
    client.acquire("k", "x");
    let some = cmd!(
        client,
        "LOCK.MACQUIRE",
        2,
        "k",
        "j",
        "a",
        LONG,
        "QUEUE",
        LEASE
    );
    assert!(
        some.is_error("ERR QUEUE is for locks that their owner does not hold"),
        "{some:?}"
    );
    client.share("s", "a");
    client.share("s", "b");
    let upgrade = client.run(&queue("s", "a"));
    assert!(
        upgrade.is_error("ERR QUEUE is for locks that their owner does not hold"),
        "{upgrade:?}"
    );
    // What it holds already is a retry.
    client.run(&queue("j", "a")).fence();
    assert_eq!(counter(&mut client, "places"), 0);
}

#[test]
fn the_queues_limits_count_places() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "CONFIG", "SET", "lock.max-waiters", 2);
    client.acquire("k", "a");
    assert_eq!(client.run(&queue("k", "b")), -1);
    let _blocked = server.waiter_for("k", "c");
    let full = client.run(&queue("k", "d"));
    assert!(full.is_error("QUEUEFULL"), "{full:?}");
    // Whoever has a place keeps it.
    cmd!(client, "CONFIG", "SET", "lock.max-waiters", 1);
    assert_eq!(client.run(&queue("k", "b")), -1);
}

#[test]
fn a_key_that_is_no_lock_is_no_place_to_wait_at() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "RPUSH", "k", "x");
    assert!(client.run(&queue("k", "a")).is_error("WRONGTYPE"));
    assert_eq!(counter(&mut client, "places"), 0);
}

#[test]
fn two_hundred_tasks_on_one_connection_are_served_in_order() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let tasks: Vec<String> = (0..200).map(|number| format!("task-{number}")).collect();
    let asks: Vec<Command> = tasks.iter().map(|task| queue("k", task)).collect();
    let places = client.pipeline(&asks);
    assert!((1..).zip(places).all(|(place, said)| said == -place));
    client.release("k", "a");
    let mut last = 0;
    for (task, ask) in tasks.iter().zip(&asks) {
        let fence = client.run(ask).fence();
        assert!(fence > last);
        last = fence;
        client.release("k", task);
    }
    assert_eq!(counter(&mut client, "places"), 0);
}
