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
