//! Places and claims in `LOCK.INFO` and `INFO lock`.

use super::*;

#[test]
fn info_shows_places_and_what_keeps_them() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut other = server.client();
    let asked = args!["LOCK.ACQUIRE", "k", "b", LONG, "LIMIT", 3, "QUEUE", 50_000];
    assert_eq!(other.run(&asked), -1);
    let _blocked = server.waiter_for("k", "c");
    assert_eq!(client.run(&queue("k", "d")), -3);
    for mut asking in [server.client(), server.client3()] {
        let info = cmd!(asking, "LOCK.INFO", "k");
        assert_eq!(info["queue"], 3);
        let waiters = info["waiters"].items();
        assert_eq!(waiters[0]["owner"], "b");
        assert_eq!(waiters[0]["mode"], "limit");
        assert_eq!(waiters[0]["limit"], 3);
        assert_eq!(waiters[0]["client"], other.id());
        assert_eq!(waiters[0]["place"], 1);
        assert!((1..=50_000).contains(&waiters[0]["lease"].int()));
        assert!(waiters[0].field("asleep").is_none());
        assert!(waiters[1].field("place").is_none() && waiters[1].field("lease").is_none());
        assert_eq!(waiters[2]["place"], 3);
        assert!(info["holders"][0].field("claim").is_none());
    }
    other.close();
    eventually("the connection is gone", || {
        cmd!(client, "LOCK.INFO", "k")["waiters"][0]["client"].is_nil()
    });
    assert_eq!(counter(&mut client, "places"), 2);
    assert_eq!(counter(&mut client, "waiters"), 3);
    assert_eq!(counter(&mut client, "queue_places"), 3);
}

#[test]
fn info_shows_a_hold_that_is_to_be_claimed_and_a_place_that_sleeps() {
    let server = Server::start();
    let mut client = server.client();
    let mut ear = listener(&server, "ch");
    cmd!(client, "CONFIG", "SET", "lock.claim-time", 500);
    client.acquire("k", "a");
    client.run(&notified("k", "b", "ch", "b"));
    client.run(&queue("k", "c"));
    client.release("k", "a");
    assert_eq!(next_message(&mut ear), "b");
    let info = cmd!(client, "LOCK.INFO", "k");
    assert_eq!(info["holders"][0]["owner"], "b");
    let claim = info["holders"][0]["claim"].int();
    assert!((1..=500).contains(&claim), "{claim}");
    eventually("the next has its turn", || client.holder("k") == "c");
    client.run(&queue("k", "c")).fence();
    let info = cmd!(client, "LOCK.INFO", "k");
    assert!(info["holders"][0].field("claim").is_none(), "{info:?}");
    let sleeper = &info["waiters"][0];
    assert_eq!(sleeper["owner"], "b");
    assert_eq!(sleeper["asleep"], 1);
    assert!(sleeper["lease"].int() > 0);
}
