//! Bad connections: clients that hang up, that vanish without a word, that ask twice at once.

use super::proxy::Proxy;
use super::run::{Plan, run};
use crate::support::*;

#[test]
#[ignore = "seconds of load and faults: scripts/test --test server -- --ignored histories"]
fn no_two_hold_a_lock_while_clients_hang_up_in_the_middle() {
    let server = Server::start();
    let plan = Plan {
        hang_up_one_in: Some(6),
        ..Plan::default()
    };
    let outcome = run(server.address(), plan, |stage, _| {
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    assert!(outcome.unknown() > 50, "{}", outcome.unknown());
    cmd!(server.client(), "FLUSHALL");
    server.wait_until_unloaded();
}

/// A client that the network has forgotten gives up and asks again, with the same owner, while the
/// server still believes that it waits on the first connection.
#[test]
#[ignore = "seconds of load and faults: scripts/test --test server -- --ignored histories"]
fn no_two_hold_a_lock_while_connections_are_half_open() {
    let server = Server::start();
    let proxy = Proxy::before(server.address());
    let outcome = run(proxy.address(), Plan::default(), |stage, chance| {
        while stage.goes_on() {
            stage.let_work(100 + chance.below(300));
            proxy.forget_all();
        }
        stage.let_work(300);
    });
    assert!(outcome.unknown() > 5, "{}", outcome.unknown());
}

#[test]
#[ignore = "seconds of load and faults: scripts/test --test server -- --ignored histories"]
fn an_owner_on_two_connections_is_one_holder() {
    let server = Server::start();
    let plan = Plan {
        in_pairs: true,
        hang_up_one_in: Some(40),
        ..Plan::default()
    };
    run(server.address(), plan, |stage, _| {
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    cmd!(server.client(), "FLUSHALL");
    server.wait_until_unloaded();
}
