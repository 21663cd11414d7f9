//! What is published, when, and to whom.

use super::*;

#[test]
fn a_message_says_that_it_is_the_owners_turn() {
    let server = Server::start();
    let mut client = server.client();
    let mut ear = listener(&server, "ch");
    client.acquire("k", "a");
    assert_eq!(client.run(&notified("k", "b", "ch", "task 7")), -1);
    assert_eq!(client.run(&queue("k", "quiet")), -2);
    assert_eq!(client.run(&notified("k", "c", "ch", "\u{1}task 8\r\n")), -3);
    client.release("k", "a");
    assert_eq!(next_message(&mut ear), "task 7");
    client.run(&queue("k", "b")).fence();
    client.release("k", "b");
    client.run(&queue("k", "quiet")).fence();
    client.release("k", "quiet");
    assert_eq!(next_message(&mut ear), "\u{1}task 8\r\n");
    client.run(&queue("k", "c")).fence();
    no_more_messages(&server, &mut ear, "ch");
    assert_eq!(counter(&mut client, "notified_total"), 3);
}

#[test]
fn a_message_comes_when_a_hold_has_run_out() {
    let server = Server::start();
    let mut client = server.client();
    let mut ear = listener(&server, "ch");
    cmd!(client, "LOCK.ACQUIRE", "k", "a", 50);
    assert_eq!(client.run(&notified("k", "b", "ch", "m")), -1);
    assert_eq!(next_message(&mut ear), "m");
    client.run(&queue("k", "b")).fence();
}

#[test]
fn a_message_says_that_a_place_was_given_up() {
    let server = Server::start();
    let mut client = server.client();
    let mut ear = listener(&server, "ch");
    client.acquire("k", "a");
    let short = args!["LOCK.ACQUIRE", "k", "b", LONG, "QUEUE", 50, "NOTIFY", "ch", "m"];
    assert_eq!(client.run(&short), -1);
    assert_eq!(next_message(&mut ear), "m");
    assert_eq!(client.queue("k"), [""; 0]);
    no_more_messages(&server, &mut ear, "ch");
}

/// Before Redis 7.2 a message to the caller's own connection would land in the middle of EXEC's reply.
#[test]
fn a_message_to_the_very_connection_whose_transaction_released_comes_after_its_reply() {
    let server = Server::start();
    let mut client = server.client3();
    client.send(&args!["SUBSCRIBE", "ch"]);
    assert_eq!(client.answer()[0], "subscribe");
    client.acquire("k", "a");
    assert_eq!(client.run(&notified("k", "b", "ch", "m")), -1);
    let answers =
        client.transaction(&[args!["PING"], args!["LOCK.RELEASE", "k", "a"], args!["PING"]]);
    assert_eq!(answers[0], "PONG");
    assert_eq!(answers[1], 1);
    assert_eq!(answers[2], "PONG");
    assert_eq!(next_message(&mut client), "m");
    client.run(&queue("k", "b")).fence();
}

/// A client of a user that may do everything.
fn eve(server: &Server) -> Client {
    let all = words("ACL SETUSER eve reset on nopass ~* &* +@all +lock.acquire");
    assert_eq!(server.client().run(&all), "OK");
    let mut eve = server.client();
    assert_eq!(cmd!(eve, "AUTH", "eve", "any"), "OK");
    eve
}

#[test]
fn a_user_that_has_lost_the_right_is_not_told() {
    let server = Server::start();
    let mut client = server.client();
    let mut ear = listener(&server, "ch");
    for rules in ["-publish", "resetchannels", "deleted"] {
        client.acquire("k", "a");
        let mut eve = eve(&server);
        assert_eq!(eve.run(&notified("k", "b", "ch", rules)), -1);
        if rules == "deleted" {
            // With the right to the lock goes the place.
            assert_eq!(cmd!(client, "ACL", "DELUSER", "eve"), 1);
        } else {
            assert_eq!(cmd!(client, "ACL", "SETUSER", "eve", rules), "OK");
        }
        let told = counter(&mut client, "notified_total");
        client.release("k", "a");
        eventually("it is settled", || client.queue("k").is_empty());
        no_more_messages(&server, &mut ear, "ch");
        assert_eq!(counter(&mut client, "notified_total"), told + 1);
        assert_eq!(client.holder("k").is_nil(), rules == "deleted", "{rules}");
        cmd!(client, "LOCK.RELEASE", "k", "b");
    }
}

#[test]
fn a_place_whose_user_has_lost_the_right_to_the_lock_is_passed_by() {
    let server = Server::start();
    let mut client = server.client();
    for rules in ["-lock.acquire", "resetkeys", "-@all"] {
        client.acquire("k", "a");
        let mut eve = eve(&server);
        assert_eq!(eve.run(&queue("k", "b")), -1);
        assert_eq!(client.run(&queue("k", "c")), -2);
        assert_eq!(cmd!(client, "ACL", "SETUSER", "eve", rules), "OK");
        client.release("k", "a");
        assert_eq!(client.holder("k"), "c", "{rules}");
        client.run(&queue("k", "c")).fence();
        client.release("k", "c");
    }
}

#[test]
fn a_place_whose_message_no_client_receives_is_passed_by_at_once_and_stands_where_it_stood_when_its_owner_asks()
 {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "CONFIG", "SET", "lock.claim-time", LEASE);
    client.acquire("k", "a");
    for owner in ["b", "c", "d"] {
        client.run(&notified("k", owner, "deaf", owner));
    }
    client.run(&queue("k", "e"));
    client.release("k", "a");
    // Nothing is left of the time to claim.
    eventually("the one that polls has it", || client.holder("k") == "e");
    client.run(&queue("k", "e")).fence();
    assert_eq!(counter(&mut client, "unclaimed_total"), 3);
    assert_eq!(client.run(&notified("k", "d", "deaf", "d")), -1);
    assert_eq!(client.run(&notified("k", "c", "deaf", "c")), -1);
    // The other one sleeps until its own owner asks.
    assert_eq!(client.queue("k"), ["c", "d", "b"]);
    let mut ear = listener(&server, "deaf");
    client.release("k", "e");
    assert_eq!(next_message(&mut ear), "c");
    assert_eq!(client.holder("k"), "c");
}

#[test]
fn two_thousand_places_of_a_process_that_is_gone_are_passed_by_in_a_moment() {
    const MANY: usize = 1000;
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "CONFIG", "SET", "lock.claim-time", LEASE);
    cmd!(client, "CONFIG", "SET", "lock.max-waiters", 0);
    client.acquire("one", "a");
    for number in 0..MANY {
        client.acquire(format!("k{number}"), "a");
        client.run(&notified(format!("k{number}"), format!("o{number}"), "gone", "m"));
        client.run(&notified("one", format!("p{number}"), "gone", "m"));
    }
    let mut waiter = server.waiter_for("one", "b");
    cmd!(client, "FLUSHALL");
    waiter.answer().fence();
    let passed_by = i64::try_from(2 * MANY).unwrap();
    eventually("all are passed by", || counter(&mut client, "unclaimed_total") == passed_by);
    assert_eq!(counter(&mut client, "held"), 1);
}

#[test]
fn a_thousand_tasks_of_one_process_are_told_each_once() {
    let server = Server::start();
    let mut client = server.client();
    let mut ear = listener(&server, "ch");
    let writer = client.acquire("k", "a");
    let reads = |number: usize| {
        let mut command = notified("k", format!("o{number}"), "ch", number);
        command.push(b"SHARED".to_vec());
        command
    };
    for number in 0..1000 {
        assert_eq!(client.run(&reads(number)), -1 - i64::try_from(number).unwrap());
    }
    client.release("k", "a");
    let mut told: Vec<usize> = (0..1000).map(|_| next_message(&mut ear).parse().unwrap()).collect();
    told.sort_unstable();
    assert!((0..1000).eq(told));
    for number in 0..1000 {
        assert!(client.run(&reads(number)).fence() > writer);
    }
    no_more_messages(&server, &mut ear, "ch");
}
