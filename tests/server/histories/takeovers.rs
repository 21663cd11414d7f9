//! Another server, or another module, takes over.

use super::aftermath::{assert_all_are_served, assert_all_is_well_at, assert_nothing_is_left_at};
use super::clients::{LONGEST, locks};
use super::history::{Kind, MS};
use super::run::{Plan, Stage, run};
use crate::support::*;

#[test]
fn no_two_hold_a_lock_while_the_module_is_unloaded_and_loaded_again() {
    // It has looked up the command that a thread of its has read before, and stops if that is gone.
    skip_unless!(
        !has_io_threads(),
        "with io-threads servers unload no module that clients go on to use"
    );
    let server = Server::start();
    let path = server.module_path();
    // Redis 8 looks no command up that is its connection's last one: it runs what it has freed.
    let close_first = server.version().is_at_least((8, 0), (u32::MAX, 0));
    let mut loads = 0;
    // So few that there are moments in which none waits.
    let plan = Plan { clients: 3, ..Plan::default() };
    run(server.address(), plan, |stage, _| {
        let mut client = server.client();
        while stage.goes_on_until(loads > 2) {
            stage.let_work(if close_first { 40 } else { 2 });
            // Refused while a client waits: it goes through in a quiet moment.
            let before = stage.now();
            if unload(&mut client, close_first) == "OK" {
                assert_eq!(cmd!(client, "MODULE", "LOAD", path), "OK");
                stage.tell_since(Kind::Forgotten, before);
                loads += 1;
            }
        }
    });
    assert!(loads > 2, "{loads}");
    assert_all_is_well_at(&server);
}

fn unload(client: &mut Client, close_first: bool) -> Value {
    let unload = args!["MODULE", "UNLOAD", "lock"];
    if close_first {
        let close = args!["CLIENT", "KILL", "TYPE", "normal"];
        return client.transaction(&[close, unload]).remove(1);
    }
    client.run(&unload)
}

#[test]
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
    assert_all_is_well_at(&server);
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
    assert_all_is_well_at(&replica);
}

/// With a disk and without one, under load; in the end it takes over with what it has loaded.
#[test]
fn no_two_hold_a_lock_while_a_replica_loads_everything_anew() {
    let master = Server::start();
    // Or it would go on from the file of the last time.
    let replica = master.replica_with(Setup::new().config("rdb-del-sync-files yes"));
    run(master.address(), Plan::default(), |stage, chance| {
        let mut client = master.client();
        for turn in 0..4 {
            stage.let_work(50 + chance.below(100));
            let diskless = if turn % 2 == 0 { "yes" } else { "no" };
            assert_eq!(cmd!(client, "CONFIG", "SET", "repl-diskless-sync", diskless), "OK");
            let before = master.info("sync_full");
            replica.restart();
            replica.wait_until_in_sync_with(&master);
            assert_ne!(master.info("sync_full"), before);
        }
        stage.let_work(100);
        fail_over(stage, &master, &replica);
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    assert_all_is_well_at(&replica);
}

/// Nothing reaches the replica for a moment before its master dies, so that there is something to lose.
#[test]
fn no_two_hold_a_lock_over_a_failover_with_a_quarantine() {
    let master = Server::start();
    let link = Proxy::before(master.address());
    let to_link = format!("replicaof 127.0.0.1 {}", link.address().port());
    let replica = Server::with().config(&to_link).start();
    replica.wait_until_in_sync_with(&master);
    let set = args!["CONFIG", "SET", "lock.quarantine", LONGEST / MS];
    assert_eq!(replica.client().run(&set), "OK");
    run(master.address(), Plan::default(), |stage, _| {
        stage.let_work(500);
        link.forget_all();
        stage.let_work(60);
        stage.tell(Kind::Quarantined, || {
            master.kill_9();
            replica.promote();
            stage.move_to(replica.address());
        });
        stage.let_work(LONGEST / MS + 300);
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    assert_all_is_well_at(&replica);
}

/// The restarted master's numbers are far ahead of its clock, and the replica's must be as well.
#[test]
fn numbers_rise_when_a_replica_takes_over_within_a_second_of_a_restart() {
    let master = Server::with().config("appendonly yes").config("appendfsync always").start();
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
    assert_all_is_well_at(&replica);
}

#[test]
fn no_two_hold_a_lock_after_the_sentinels_have_named_another_master() {
    let master = Server::start();
    let replica = master.replica();
    let sentinels = Sentinels::over(&master);
    run(master.address(), Plan::default(), |stage, _| {
        stage.let_work(400);
        stage.tell(Kind::Failover, || {
            master.kill_9();
            sentinels.wait_until_they_name(&replica);
            replica.wait_for_role(Role::Master);
            stage.move_to(replica.address());
        });
        stage.let_work(400);
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    assert_all_is_well_at(&replica);
}

/// The replica asks its master, or takes the slots without asking it, or without asking any; and the
/// old master comes back as a replica, to take over in its turn.
#[test]
fn no_two_hold_a_lock_while_a_replica_and_its_master_change_places() {
    let mut cluster = Cluster::start(3);
    let key = locks().next().unwrap();
    let one = cluster.index_of(key);
    let other = cluster.add_replica_of(one, Setup::new());
    let plan = Plan { ends_are_prompt: false, ..Plan::default() };
    run(cluster.node(one).address(), plan, |stage, _| {
        let ways: [&[&str]; 3] = [&[], &["FORCE"], &["TAKEOVER"]];
        for (turn, way) in ways.into_iter().enumerate() {
            stage.let_work(400);
            let (old, new) = if turn % 2 == 0 { (one, other) } else { (other, one) };
            let (master, heir) = (cluster.node(old), cluster.node(new));
            stage.tell(Kind::Failover, || {
                let command = [&["CLUSTER", "FAILOVER"], way].concat();
                assert_eq!(heir.client().run(&command), "OK");
                heir.wait_for_role(Role::Master);
                master.wait_for_role(Role::Replica);
                stage.move_to(heir.address());
            });
            master.wait_until_in_sync_with(heir);
            cluster.wait_until_known_as_replica(old, new);
        }
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    assert_all_are_served(cluster.node(other).address());
    for node in cluster.nodes() {
        assert_nothing_is_left_at(node);
    }
}
