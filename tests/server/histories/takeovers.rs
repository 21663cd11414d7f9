//! Another server, or another module, takes over.

use super::history::Kind;
use super::run::{Plan, Stage, run};
use crate::support::*;

#[test]
#[ignore = "seconds of load and faults: scripts/test --test server -- --ignored histories"]
fn no_two_hold_a_lock_while_the_module_is_unloaded_and_loaded_again() {
    let server = Server::start();
    // Redis 8 looks no command up that is its connection's last one: it runs what it has freed.
    skip_unless!(
        !server.version().is_at_least((8, 0), (u32::MAX, 0)),
        "this server crashes when a command of an unloaded module is repeated"
    );
    let path = server.module_path();
    let mut loads = 0;
    // So few that there are moments in which nobody waits.
    let plan = Plan {
        clients: 3,
        ..Plan::default()
    };
    run(server.address(), plan, |stage, _| {
        let mut client = server.client();
        while stage.goes_on() {
            stage.let_work(2);
            // Refused while anybody waits: it goes through in a quiet moment.
            let before = stage.now();
            if cmd!(client, "MODULE", "UNLOAD", "lock") == "OK" {
                assert_eq!(cmd!(client, "MODULE", "LOAD", path), "OK");
                stage.tell_since(Kind::Forgotten, before);
                loads += 1;
            }
        }
    });
    assert!(loads > 2, "{loads}");
    cmd!(server.client(), "FLUSHALL");
    server.wait_until_unloaded();
}

#[test]
#[ignore = "seconds of load and faults: scripts/test --test server -- --ignored histories"]
fn no_two_hold_a_lock_while_the_data_are_loaded_anew() {
    let server = Server::start();
    run(server.address(), Plan::default(), |stage, chance| {
        let mut client = server.client();
        while stage.goes_on() {
            stage.let_work(20 + chance.below(60));
            stage.tell(Kind::Forgotten, || {
                assert_eq!(cmd!(client, "DEBUG", "RELOAD"), "OK");
            });
        }
    });
    cmd!(server.client(), "FLUSHALL");
    server.wait_until_unloaded();
}

/// The master dies and its replica is promoted: whatever had not come over is lost.
fn fail_over(stage: &Stage, master: &Server, replica: &Server) {
    stage.tell(Kind::Failover, || {
        master.kill_9();
        replica.promote();
        stage.move_to(replica.address());
    });
}

#[test]
#[ignore = "seconds of load and faults: scripts/test --test server -- --ignored histories"]
fn no_two_hold_a_lock_after_its_replica_has_taken_over() {
    let master = Server::start();
    let replica = master.replica();
    run(master.address(), Plan::default(), |stage, _| {
        stage.let_work(700);
        fail_over(stage, &master, &replica);
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    cmd!(replica.client(), "FLUSHALL");
    replica.wait_until_unloaded();
}

/// The restarted master's numbers are far ahead of its clock, and the replica's must be as well.
#[test]
#[ignore = "seconds of load and faults: scripts/test --test server -- --ignored histories"]
fn numbers_rise_when_a_replica_takes_over_within_a_second_of_a_restart() {
    let master = Server::with()
        .config("appendonly yes")
        .config("appendfsync always")
        .start();
    let replica = master.replica();
    run(master.address(), Plan::default(), |stage, _| {
        stage.let_work(400);
        stage.tell(Kind::Forgotten, || {
            master.kill_9();
            master.restart();
        });
        replica.wait_until_in_sync_with(&master);
        stage.let_work(200);
        fail_over(stage, &master, &replica);
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    cmd!(replica.client(), "FLUSHALL");
    replica.wait_until_unloaded();
}
