//! While the server lets nothing be written.

use super::*;

/// `ben` waits for a lock that has expired, and that may not be handed on.
fn refused(close: Action) -> (Server, Ticket) {
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 30);
    close(&mut server);
    server.at(101);
    assert_eq!(server.was_granted(ben), None);
    (server, ben)
}

fn pause(server: &mut Server) {
    server.keys.paused = true;
}

fn close(server: &mut Server) {
    server.keys.closed.insert(LOCK);
}

#[test]
fn the_more_locks_may_be_refused_the_later_each_is_tried_again() {
    for (locks, pause) in [(1, 10), (100, 10), (1000, 20)] {
        let many: Vec<Lock> = (0..locks).map(|number| (0, &*format!("{number}").leak())).collect();
        let mut server = Server::new(Flavour::default(), &many);
        for &lock in &many {
            server.takes(&[lock], alone("ann"));
            server.queues(&[lock], alone(lock.1));
            server.keys.closed.insert(lock);
        }
        let comes_to = |server: &mut Server, ms: Ms| {
            server.set_clock(ms);
            while server.due().is_some_and(|due| due <= ms) {
                server.tick();
                server.turn();
            }
        };
        let due = server.due().unwrap();
        comes_to(&mut server, due);
        let again = server.due().unwrap() - server.now().ms();
        assert!((pause - 5..=pause).contains(&again), "{again} for {locks}");
        server.keys.closed.clear();
        comes_to(&mut server, due + 2 * pause);
        assert!(many.iter().all(|&lock| server.queue(lock).is_empty()));
    }
}

#[test]
fn a_refused_grant_says_that_the_slot_may_be_leaving() {
    let mut server = server_like(Flavour { in_cluster: true, ..Flavour::default() });
    let known = |server: &Server| format!("{:?}", server.locks.clock.known_slots());
    server.gets("ann", 100);
    server.waits("ben", 100);
    close(&mut server);
    assert!(known(&server).contains("Ours"));
    server.lags_until(101);
    server.tick();
    assert!(known(&server).contains("Refused"));
}

#[test]
fn where_no_client_waits_nothing_is_put_off_that_writes_no_key() {
    let mut server = server();
    server.gets("ann", 100);
    pause(&mut server);
    server.set(LOCK, token("cid", Some(START + 1000)));
    server.tick();
    assert_eq!(server.due(), None);
}

#[test]
fn a_pause_does_not_last_longer_because_the_clock_is_set_back() {
    let (mut server, ben) = refused(pause);
    server.keys.paused = false;
    server.step(-3_600_000);
    server.del(LOCK);
    server.at(111);
    assert!(server.was_granted(ben).is_some());
}
