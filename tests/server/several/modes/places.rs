//! Places of requests with modes: what keeps one, what loses it, and its turn.

use super::*;

const BACKWARDS: [&str; 2] = ["ann", "all"];

#[test]
fn a_place_is_kept_by_the_same_modes_in_any_order_of_the_keys() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire_all(&JOB, "x");
    assert_eq!(client.run(&job(&JOB, "w1", "QUEUE 60000")), -1);
    assert_eq!(client.run(&job(&JOB, "w2", "QUEUE 60000")), -2);
    for same in [
        job(&JOB, "w1", "QUEUE 60000"),
        with_words(&BACKWARDS, "w1", "QUEUE 60000 MODES 1 2"),
        with_words(&["all", "ann", "all"], "w1", "MODES 2 1 2 QUEUE 60000"),
    ] {
        assert_eq!(client.run(&same), -1, "{same:?}");
        assert_eq!(client.queue("all"), ["w1", "w2"]);
        assert_eq!(client.queue("ann"), ["w1", "w2"]);
    }
}

#[test]
fn one_that_asks_for_other_modes_joins_at_the_end() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire_all(&JOB, "x");
    for other in [
        with_words(&JOB, "w1", "MODES 1 2 QUEUE 60000"),
        with_words(&BACKWARDS, "w1", "MODES 2 1 QUEUE 60000"),
        with_words(&JOB, "w1", "MODES 2 2 QUEUE 60000"),
        with_words(&JOB, "w1", "LIMIT 2 QUEUE 60000"),
        with_words(&JOB, "w1", "QUEUE 60000"),
    ] {
        assert_eq!(client.run(&job(&JOB, "w1", "QUEUE 60000")), -1);
        assert_eq!(client.run(&job(&JOB, "w2", "QUEUE 60000")), -2);
        assert_eq!(client.run(&other), -2, "{other:?}");
        assert_eq!(client.queue("all"), ["w2", "w1"]);
        for owner in ["w1", "w2"] {
            client.run(&mrelease(&JOB, owner));
        }
        assert_eq!(client.queue("ann"), [""; 0]);
    }
}

#[test]
fn one_mode_for_all_is_the_same_as_that_mode_for_each() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire_all(&JOB, "x");
    for (of_all, of_each) in [
        ("", "MODES EXCLUSIVE EXCLUSIVE"),
        ("SHARED", "MODES SHARED SHARED"),
        ("LIMIT 2", "MODES 2 2"),
    ] {
        let place = |owner: &str, modes: &str| {
            let more = format!("{modes} QUEUE 60000");
            with_words(&JOB, owner, &more)
        };
        assert_eq!(client.run(&place("w1", of_all)), -1);
        assert_eq!(client.run(&place("w2", of_each)), -2);
        assert_eq!(client.run(&place("w1", of_each)), -1, "{of_each}");
        assert_eq!(client.run(&place("w2", of_all)), -2, "{of_all}");
        for owner in ["w1", "w2"] {
            client.run(&mrelease(&JOB, owner));
        }
    }
}

#[test]
fn a_message_says_that_all_of_them_have_room_and_the_place_is_claimed_by_one_number() {
    let server = Server::start();
    let mut client = server.client();
    let mut ear = server.client();
    assert_eq!(cmd!(ear, "SUBSCRIBE", "ch")[0], "subscribe");
    client.run(&job(&JOB, "a", "")).fence();
    client.permit("all", "b", 2);
    let place = job(&JOB, "w", "QUEUE 60000 NOTIFY ch turn");
    assert_eq!(client.run(&place), -1);
    client.release("all", "b");
    // No word of it: one of the tenant's runs.
    cmd!(client, "PUBLISH", "ch", "room in the lock of all");
    client.release("ann", "a");
    for message in ["room in the lock of all", "turn"] {
        assert_eq!(ear.answer()[2], message);
    }
    assert_eq!(client.sharers("ann"), ["w"]);
    let fence = client.run(&place).fence();
    assert_eq!(client.number_of("ann"), fence);
    assert_eq!(client.run(&job(&JOB, "w", "")), fence);
}

#[test]
fn releasing_one_of_them_gives_up_the_place_in_both_queues() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire_all(&JOB, "x");
    for key in JOB {
        assert_eq!(client.run(&job(&JOB, "w", "QUEUE 60000")), -1);
        assert_eq!(cmd!(client, "LOCK.RELEASE", key, "w"), 0);
        assert_eq!(client.queue("all"), [""; 0]);
        assert_eq!(client.queue("ann"), [""; 0]);
    }
}
