//! Waits for several locks: they are handed over as one, and leave nothing behind.

use crate::support::*;

#[test]
fn a_release_of_several_hands_all_of_them_over_and_they_are_never_free_in_between() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b", "c"];
    for release in [
        vec![[counted("LOCK.MRELEASE", &keys), args!["x"]].concat()],
        keys.map(|key| args!["LOCK.RELEASE", key, "x"]).to_vec(),
    ] {
        let first = client.acquire_all(&keys, "x");
        let mut waiter = server.waiter_for_all(&keys, "w");
        let mut next = server.waiter_for_all(&keys, "next");
        let mut commands = release;
        commands.extend(keys.map(|key| args!["LOCK.ACQUIRE", key, "barger", LONG]));
        commands.push(macquire(&keys, "barger"));
        commands.push(args!["SET", "a", "barger", "NX", "PX", LONG]);
        let answers = client.transaction(&commands);
        assert!(answers[commands.len() - 5..].iter().all(Value::is_nil), "{answers:?}");
        let fence = waiter.answer().fence();
        assert!(fence > first);
        assert_eq!(client.holders(&keys), ["w", "w", "w"]);
        client.release_all(&keys, "w");
        assert!(next.answer().fence() > fence);
        client.release_all(&keys, "next");
    }
}
