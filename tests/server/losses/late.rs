//! An owner that comes back too late.

use super::*;

#[test]
fn an_owner_that_comes_back_too_late_is_noted_with_what_and_how_late() {
    let server = Server::start();
    let mut client = server.client();
    for (command, with) in [
        (args!["LOCK.RELEASE", "k", "a"], "release"),
        (args!["LOCK.MRELEASE", 2, "other", "k", "a"], "release"),
        (args!["LOCK.RENEW", "k", "a", LONG], "renew"),
        (args!["LOCK.MRENEW", 2, "other", "k", "a", LONG], "renew"),
        (args!["LOCK.CHECK", "k", "a"], "check"),
        (args!["LOCK.GUARD", "k", "a", "SET", "data", 1], "guard"),
    ] {
        let fence = client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        cmd!(client, "DEL", "k");
        waiter.answer().fence();
        assert!(client.only_loss()["returned"].is_nil());
        // Another's mistake is none of its.
        assert_eq!(cmd!(client, "LOCK.RENEW", "k", "b", LONG), 0);
        assert!(client.only_loss()["returned"].is_nil());
        let age = eventually_some("a while has gone by", || {
            let age = client.only_loss()["age"].int();
            (age >= 20).then_some(age)
        });
        client.run(&command);
        let line = client.only_loss();
        says(&line, "deleted", "a", fence);
        assert_eq!(line["returned"], with);
        let late = line["late"].int();
        assert!((age..=line["age"].int()).contains(&late), "{line:?}");
        // The first time is what counts.
        assert!(cmd!(client, "LOCK.CHECK", "k", "a").is_nil());
        cmd!(client, "LOCK.RENEW", "k", "a", LONG);
        assert_eq!(client.only_loss()["returned"], with);
        assert_eq!(client.only_loss()["late"], late);
        client.release("k", "w");
        cmd!(client, "LOCK.LOG", "RESET");
    }
}
