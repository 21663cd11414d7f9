//! Many who wait by asking, beside those who are blocked.

use super::aftermath::assert_all_is_well_at;
use super::clients::locks;
use super::history::{Kind, MS, Micros};
use super::run::{Plan, run};
use crate::support::*;

/// So short that a client that dies before its claim does not hold up the run.
const CLAIM_TIME: Micros = 120 * MS;

/// They poll, are told and do not listen, come too late, die at every step, and withdraw at any moment.
/// Others take the locks as the documented pattern does, and delete them.
#[test]
fn places_are_served_in_order_whatever_becomes_of_their_owners() {
    let server = Server::start();
    let mut client = server.client();
    let set = cmd!(client, "CONFIG", "SET", "lock.claim-time", CLAIM_TIME / MS);
    assert_eq!(set, "OK");
    let plan = Plan {
        clients: 12,
        queueing: 75,
        claim_time: Some(CLAIM_TIME),
        places: 200,
        ends_are_prompt: false,
        ..Plan::default()
    };
    run(server.address(), plan, |stage, chance| {
        let keys: Vec<_> = locks().collect();
        while stage.goes_on() {
            stage.let_work(10 + chance.below(40));
            let key = keys[usize::try_from(chance.below(3)).unwrap()];
            match chance.below(12) {
                0..5 => {
                    let ttl = 5 + chance.below(25);
                    cmd!(client, "SET", key, "another", "NX", "PX", ttl);
                }
                // As an operator ends what holds there are.
                5..7 => _ = stage.tell(Kind::Break { key }, || cmd!(client, "DEL", key)),
                _ => {}
            }
        }
    });
    assert_all_is_well_at(&server);
}
