//! `INFO lock`: each counter under its name, and how long waits were. When which of them rises is a
//! matter of the core.

use super::*;

const FIELDS: [&str; 34] = [
    "lock_acquired_total",
    "lock_acquired_after_wait_total",
    "lock_busy_total",
    "lock_wait_timeouts_total",
    "lock_released_total",
    "lock_release_refused_total",
    "lock_renewed_total",
    "lock_renew_refused_total",
    "lock_expired_total",
    "lock_evicted_total",
    "lock_broken_total",
    "lock_lost_total",
    "lock_held",
    "lock_deadlocks_total",
    "lock_undelivered_total",
    "lock_unacknowledged_total",
    "lock_replicated_total",
    "lock_replicas_refused_total",
    "lock_guard_total",
    "lock_guard_refused_total",
    "lock_unclaimed_total",
    "lock_places_lapsed_total",
    "lock_notified_total",
    "lock_waiters",
    "lock_waiters_peak",
    "lock_places",
    "lock_queue_places",
    "lock_contended_keys",
    "lock_wait_usec_p50",
    "lock_wait_usec_p99",
    "lock_wait_usec_p999",
    "lock_replica_usec_p50",
    "lock_replica_usec_p99",
    "lock_replica_usec_p999",
];

#[test]
fn a_new_server_has_all_the_counters_and_they_are_zero() {
    let server = Server::start();
    let mut client = server.client();
    for section in ["lock", "everything", "modules", "LOCK"] {
        let info = client.info(section);
        for name in FIELDS {
            assert_eq!(info.get(name).map(String::as_str), Some("0"), "{section}: {name}");
        }
        let about = ["lock_version", "lock_commit"];
        let counts =
            |name: &&String| !name.starts_with("lock_memory_") && !about.contains(&name.as_str());
        let ours = info.keys().filter(|name| name.starts_with("lock_"));
        let ours = ours.filter(counts);
        assert_eq!(ours.count(), FIELDS.len(), "{section}: {info:?}");
    }
    assert!(!client.info("clients").contains_key("lock_waiters"));
}

#[test]
fn each_counter_has_its_name() {
    let server = Server::start();
    let mut client = server.client();
    let mut counters = Counters::of(&server);
    for (line, name) in [
        ("LOCK.ACQUIRE k a 9000", "acquired"),
        ("LOCK.ACQUIRE k b 9000", "busy"),
        ("LOCK.ACQUIRE k b 9000 BLOCK 1", "wait_timeouts"),
        ("LOCK.RENEW k a 9000", "renewed"),
        ("LOCK.RENEW k b 9000", "renew_refused"),
        ("LOCK.GUARD k a PING", "guard"),
        ("LOCK.GUARD k b PING", "guard_refused"),
        ("LOCK.RELEASE k b", ""),
        ("LOCK.RELEASE k a", "released"),
        // A hold that was not granted here is not counted, nor is its end.
        ("SET k a", ""),
        ("LOCK.BREAK k FORCE", ""),
        ("LOCK.ACQUIRE k a 9000", "acquired"),
        ("LOCK.BREAK k", "broken"),
        ("LOCK.SCAN 0", ""),
        ("CONFIG RESETSTAT", ""),
        ("LOCK.ACQUIRE k a 1000", "acquired"),
        ("LOCK.LOG", "expired"),
        ("LOCK.MACQUIRE 3 x y z a 9000", "acquired acquired acquired"),
        ("LOCK.MRELEASE 4 x y z k a", "released released released release_refused"),
    ] {
        assert!(!client.run(&words(line)).is_error("ERR"), "{line}");
        let mut by: BTreeMap<_, i64> = BTreeMap::new();
        for name in each(name, ' ') {
            *by.entry(name).or_default() += 1;
        }
        counters.have_risen(line, &by.into_iter().collect::<Vec<_>>());
    }
    for (key, owner) in [("x", "a"), ("y", "b")] {
        client.acquire(key, owner);
    }
    counters.have_risen("granted", &[("acquired", 2)]);
    let _waiter = server.waiter_for("y", "a");
    assert!(cmd!(client, "LOCK.ACQUIRE", "x", "b", LONG, "BLOCK", 0).is_error("DEADLOCK"));
    counters.have_risen("a deadlock", &[("deadlocks", 1)]);
}
