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
fn a_lock_that_others_let_go_goes_to_the_first_place() {
    let server = Server::start();
    let mut client = server.client();
    for (set_up, let_go) in [
        (args!["SET", "k", "x", "PX", LONG], args!["DEL", "k"]),
        (args!["SET", "k", "x", "PX", LONG], args!["PEXPIRE", "k", 1]),
        (args!["SET", "k", "x", "PX", LONG], args!["FLUSHALL"]),
        (args!["SET", "k", "x", "PX", LONG], args!["RENAME", "k", "o"]),
        (args!["LOCK.ACQUIRE", "k", "x", LONG, "SHARED"], args!["ZREM", "k", "x"]),
        (args!["LOCK.ACQUIRE", "k", "x", LONG, "SHARED"], args!["LOCK.BREAK", "k"]),
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
