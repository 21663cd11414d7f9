//! All of several locks, or none.

use super::*;

const BOTH: [Lock; 2] = [LOCK, OTHER];

#[test]
fn they_are_written_in_the_order_in_which_they_are_named() {
    let mut server = server();
    server.takes(&[THIRD, LOCK, OTHER], alone("ann"));
    let set = |lock| Write::Set(lock, token("ann", Some(START + 100)));
    assert_eq!(written(&mut server), [THIRD, LOCK, OTHER].map(set));
}

#[test]
fn a_queue_that_moved_up_because_one_of_several_gave_up_is_served() {
    let fates: [Fate; 3] = [Server::unblock, Server::unblock_by_error, Server::kill];
    for fate in fates {
        let mut server = server();
        server.takes(&[LOCK], alone("ann"));
        let ben = server.queues(&BOTH, alone("ben"));
        let cid = server.queues(&[OTHER], alone("cid"));
        fate(&mut server, ben);
        server.at(0);
        assert!(server.was_granted(cid).is_some());
    }
}

#[test]
fn it_cannot_be_starved() {
    let mut server = server();
    let longer = |owner, ttl| Request { ttl, ..alone(owner) };
    server.takes(&[LOCK], alone("ann"));
    server.takes(&[OTHER], longer("ben", 150));
    let cid = server.queues(&BOTH, alone("cid"));
    // The locks come free in turn, and others ask all the time.
    for ms in 1..=151 {
        server.at(ms);
        for lock in BOTH {
            let got = server.asks(&[lock], longer("dot", 20));
            assert_eq!(got, Ok(Acquired::Busy), "at {ms}");
        }
    }
    assert!(server.was_granted(cid).is_some());
}

#[test]
fn a_release_of_one_lock_writes_no_other_that_the_server_was_not_asked_about() {
    let mut server = server();
    server.takes(&[LOCK], alone("ann"));
    let ben = server.queues(&BOTH, alone("ben"));
    server.keys.closed.insert(OTHER);
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.happened().offences, [""; 0]);
    server.keys.closed.clear();
    server.at(120);
    assert!(server.was_granted(ben).is_some());
}

#[test]
fn one_behind_a_waiter_whose_time_is_up_is_served_whichever_queue_that_is_found_in() {
    let mut server = late_server();
    server.takes(&[LOCK], Request { ttl: 1000, ..sharing("ann") });
    server.queues(&[LOCK], Request { patience: Patience::Until(START + 20), ..alone("ben") });
    let cid = server.queues(&[LOCK], Request { mode: Mode::Limit(2), ..alone("cid") });
    server.takes(&[OTHER], alone("eve"));
    server.queues(&[OTHER, LOCK], alone("dot"));
    server.lags_until(30);
    // Who waits for both is looked at, and finds ben before it.
    server.release(OTHER, "eve").unwrap();
    server.at(30);
    assert!(server.was_granted(cid).is_some());
}

#[test]
fn a_queue_hears_of_the_new_end_of_what_its_holder_is_granted_beside_another_lock() {
    let mut server = server();
    server.gets("ann", 100);
    server.takes(&[OTHER], alone("cid"));
    let ben = server.waits("ben", 50);
    server.foreign(Write::Persist(LOCK));
    server.tick();
    server.queues(&BOTH, alone("ann"));
    server.release(OTHER, "cid").unwrap();
    // The hold without an end has one again.
    server.at(101);
    assert!(server.was_granted(ben).is_some());
}

#[test]
fn a_request_that_the_server_refuses_keeps_no_client_from_what_runs_out() {
    let mut server = server();
    server.gets("ann", 37);
    let short = Request { ttl: 20, ..alone("dot") };
    server.takes(&[OTHER], short);
    let ben = server.waits("ben", 50);
    server.queues(&BOTH, alone("ann"));
    server.keys.closed.insert(OTHER);
    // From now on the second request is tried again and again.
    server.at(22);
    server.foreign(Write::PExpireAt(LOCK, START + 37));
    server.tick();
    server.at(37);
    assert_eq!(server.was_granted(ben), None);
    server.at(38);
    assert!(server.was_granted(ben).is_some());
}

#[test]
fn one_whose_time_is_up_is_in_no_client_s_way_whichever_of_its_queues_is_looked_at() {
    let mut server = late_server();
    server.takes(&BOTH, alone("dot"));
    server.queues(&BOTH, Request { patience: Patience::Until(START + 21), ..sharing("cid") });
    let ann = server.queues(&BOTH, alone("ann"));
    server.foreign(Write::Set(LOCK, token("ann", None)));
    server.foreign(Write::Del(OTHER));
    server.lags_until(22);
    // She holds the one, and comes to hold the other as soon as any client looks.
    assert_eq!(server.renew(LOCK, "ann", 100), Ok(true));
    server.turn();
    assert!(server.was_granted(ann).is_some());
}
