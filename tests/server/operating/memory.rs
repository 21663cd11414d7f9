//! `INFO lock_memory`: what the module has in memory. Each test's server is asked for it when it is
//! dropped, and must say 0 everywhere; here it is seen that it can say something else.

use super::*;

#[test]
fn what_is_remembered_is_counted_and_forgotten() {
    let server = Server::start();
    let mut client = server.client();
    remembers(&mut client, &[]);

    client.acquire("k", "a");
    remembers(&mut client, &["holds"]);
    client.share("shared", "a");
    client.share("shared", "b");
    remembers(&mut client, &["holds", "holds", "holds"]);
    cmd!(client, "LOCK.RELEASE", "shared", "a");
    cmd!(client, "DEL", "shared");
    remembers(&mut client, &["holds"]);

    let mut tied = server.client();
    cmd!(tied, "LOCK.ACQUIRE", "tied", "t", LONG, "SESSION").fence();
    remembers(&mut client, &["holds", "holds", "sessions"]);
    tied.close();
    remembers(&mut client, &["holds"]);

    let waits = |owner: &str| args!["LOCK.ACQUIRE", "k", owner, LONG, "BLOCK", LONG];
    let waiter = server.waiter(&waits("w"));
    // Two times: the wait's end, and the hold's.
    let of_one = ["holds", "queues", "waiters", "blocked", "owners", "alarms", "alarms", "timers"];
    remembers(&mut client, &of_one);
    let other = server.waiter(&waits("v"));
    remembers(&mut client, &[&of_one[..], &["waiters", "blocked", "owners", "alarms"]].concat());
    waiter.close();
    remembers(&mut client, &of_one);
    other.reset();
    remembers(&mut client, &["holds"]);

    client.release("k", "a");
    remembers(&mut client, &[]);
}

#[test]
fn the_section_can_be_asked_for_alone() {
    let server = Server::start();
    let mut client = server.client();
    let alone = client.info("lock_memory");
    assert_eq!(alone.len(), 10, "{alone:?}");
    assert!(alone.keys().all(|name| name.starts_with("lock_memory_")));
    for section in ["lock", "everything", "modules"] {
        let info = client.info(section);
        assert!(alone.keys().all(|name| info.contains_key(name)));
    }
    assert!(!client.info("memory").contains_key("lock_memory_holds"));
}

/// A moment later exactly these are remembered, each as often as it is named.
#[track_caller]
fn remembers(client: &mut Client, expected: &[&str]) {
    let mut read = || -> BTreeMap<String, usize> {
        let section = client.info("lock_memory").into_iter();
        section
            .map(|(name, count)| (name, count.parse().unwrap()))
            .filter(|&(_, count)| count > 0)
            .collect()
    };
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for what in expected {
        *wanted.entry(format!("lock_memory_{what}")).or_default() += 1;
    }
    eventually(&format!("{wanted:?} is remembered, not {:?}", read()), || read() == wanted);
}
