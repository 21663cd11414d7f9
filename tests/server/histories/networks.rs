//! Bad connections: clients that hang up, that vanish without a word, that ask twice at once.

use super::aftermath::assert_all_is_well_at;
use super::run::{Plan, run};
use crate::support::*;

#[test]
fn no_two_hold_a_lock_while_clients_hang_up_in_the_middle() {
    let server = Server::start();
    let plan = Plan { hang_up_one_in: Some(6), unknown: 50, ..Plan::default() };
    run(server.address(), plan, |stage, _| {
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    assert_all_is_well_at(&server);
}

/// A client that the network has forgotten gives up and retries, with the same owner, while the
/// server still believes that it waits on the first connection.
#[test]
fn no_two_hold_a_lock_while_connections_are_half_open() {
    let server = Server::start();
    let proxy = Proxy::before(server.address());
    let plan = Plan { unknown: 5, ends_are_prompt: false, ..Plan::default() };
    run(proxy.address(), plan, |stage, chance| {
        while stage.goes_on() {
            stage.let_work(100 + chance.below(300));
            proxy.forget_all();
        }
        stage.let_work(300);
    });
    drop(proxy);
    assert_all_is_well_at(&server);
}

#[test]
fn an_owner_on_two_connections_is_one_holder() {
    let server = Server::start();
    let plan = Plan { in_pairs: true, hang_up_one_in: Some(40), ..Plan::default() };
    run(server.address(), plan, |stage, _| {
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    assert_all_is_well_at(&server);
}
