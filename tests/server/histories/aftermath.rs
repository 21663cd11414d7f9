//! When the faults have stopped: all who wait are served, and nothing is left.

use super::clients::locks;
use crate::support::*;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// More than any lock is held for by an owner that will never release it.
const SOON: Duration = Duration::from_secs(15);

/// A server by itself.
#[track_caller]
pub fn assert_all_is_well_at(server: &Server) {
    assert_all_are_served(server.address());
    assert_nothing_is_left_at(server);
}

/// Many ask for all the locks in all the ways; none has to do more than to wait and to release.
#[track_caller]
pub fn assert_all_are_served(address: SocketAddr) {
    let all: Vec<_> = locks().collect();
    thread::scope(|scope| {
        for number in 0..12 {
            let keys = match number % 4 {
                0 => all.clone(),
                one => vec![all[one - 1]],
            };
            scope.spawn(move || is_served(address, &format!("after-{number}"), number, &keys));
        }
    });
}

#[track_caller]
fn is_served(address: SocketAddr, owner: &str, number: usize, keys: &[&str]) {
    let mut client = Client::connect(address);
    let mut ask = counted("LOCK.MACQUIRE", keys);
    ask.extend(args![owner, LONG]);
    // The time of none would be up in time.
    let asks_again = number % 4 == 1 || number % 8 == 4;
    let how = if asks_again { "QUEUE" } else { "BLOCK" };
    ask.extend(args![how, SOON.as_millis().to_string()]);
    match number % 3 {
        0 => {}
        1 => ask.extend(args!["SHARED"]),
        _ => ask.extend(args!["LIMIT", 2]),
    }
    let answer = eventually_some(&format!("{owner} is served"), || {
        let answer = client.run(&ask);
        let is_placed = matches!(answer, Value::Int(..0));
        (!is_placed).then_some(answer)
    });
    assert!(matches!(answer, Value::Int(1..)), "{owner} waits for {keys:?}: {answer:?}");
    let mut release = counted("LOCK.MRELEASE", keys);
    release.extend(args![owner]);
    assert_eq!(usize::try_from(client.run(&release).int()).unwrap(), keys.len());
}

/// No hold, no waiter, no line; and the module can go, so there is no timer and no tie either.
#[track_caller]
pub fn assert_nothing_is_left_at(server: &Server) {
    let mut client = server.client();
    for key in locks() {
        eventually(&format!("nothing is left of {key}"), || {
            let info = cmd!(client, "LOCK.INFO", key);
            // In a cluster it may be another node's.
            info.is_nil() || info.is_error("MOVED")
        });
    }
    // A place whose grant another client has ended is in no queue until its owner asks, or its time is up.
    eventually("no owner has a place", || client.info("lock")["lock_places"] == "0");
    let info = client.info("everything");
    for counter in ["lock_waiters", "lock_contended_keys"] {
        assert_eq!(info[counter], "0", "{counter}");
    }
    server.wait_until_unloaded();
}
