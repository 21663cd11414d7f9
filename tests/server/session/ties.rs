//! Which connection a hold ends with, and when that is forgotten.

use super::{modes, tied};
use crate::support::*;

#[test]
fn the_owners_last_acquire_decides_which_connection_the_hold_ends_with() {
    let server = Server::start();
    let mut observer = server.client();
    for mode in modes() {
        let untied = [args!["LOCK.ACQUIRE", "k", "a", LONG], mode.clone()].concat();
        // From another connection, without the word: no connection at all.
        let mut client = server.client();
        let fence = client.run(&tied("k", "a", &mode)).fence();
        let id = client.id();
        assert_eq!(observer.run(&untied), fence);
        client.close();
        server.wait_for_the_end_of(id);
        assert!(observer.is_held_by("k", "a"), "{mode:?}");

        // From another connection, with the word: that one.
        let mut first = server.client();
        assert_eq!(first.run(&tied("k", "a", &mode)), fence);
        let mut second = server.client();
        assert_eq!(second.run(&tied("k", "a", &mode)), fence);
        let id = first.id();
        first.close();
        server.wait_for_the_end_of(id);
        assert!(observer.is_held_by("k", "a"), "{mode:?}");
        second.close();
        eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);

        // From the same connection, without the word, and with it again.
        let mut client = server.client();
        client.run(&tied("k", "a", &mode)).fence();
        client.run(&untied).fence();
        let id = client.id();
        client.close();
        server.wait_for_the_end_of(id);
        assert!(observer.is_held_by("k", "a"), "{mode:?}");
        let mut client = server.client();
        client.run(&untied).fence();
        client.run(&tied("k", "a", &mode)).fence();
        client.close();
        eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
    }
}

#[test]
fn a_hold_that_was_not_tied_at_first_can_be_tied_also_one_by_set_nx() {
    let server = Server::start();
    let mut observer = server.client();
    for taken in [
        args!["LOCK.ACQUIRE", "k", "a", LONG],
        args!["SET", "k", "a", "NX", "PX", LONG],
        args!["SET", "k", "a", "NX"],
    ] {
        assert!(!observer.run(&taken).is_nil());
        let mut client = server.session("k", "a");
        let again = client.run(&tied("k", "a", &args!["SHARED"])).fence();
        assert_eq!(client.run(&tied("k", "a", &args![])), again);
        client.close();
        eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
    }
}

/// What others ask about the hold, or do with it, moves no tie.
#[test]
fn renew_check_guard_and_info_keep_the_tie() {
    let server = Server::start();
    let mut observer = server.client();
    for mode in modes() {
        for by_itself in [true, false] {
            let mut client = server.client();
            client.run(&tied("k", "a", &mode)).fence();
            let asks = if by_itself {
                &mut client
            } else {
                &mut observer
            };
            assert_eq!(cmd!(asks, "LOCK.RENEW", "k", "a", 2 * LONG), 1);
            assert!(cmd!(asks, "LOCK.CHECK", "k", "a").int() > 0);
            assert_eq!(cmd!(asks, "LOCK.GUARD", "k", "a", "SET", "x", 1), "OK");
            cmd!(asks, "LOCK.INFO", "k");
            // Tries of others.
            for word in [args![], args!["SESSION"], args!["LIMIT", 1, "SESSION"]] {
                let command = args!["LOCK.ACQUIRE", "k", "b", LONG];
                assert!(asks.run(&[command, word].concat()).is_nil());
            }
            client.close();
            eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
        }
    }
}

#[test]
fn a_tie_goes_with_its_hold_from_share_to_upgrade() {
    let server = Server::start();
    let mut observer = server.client();
    // The upgrade decides, as every last ACQUIRE does.
    for (before, after, ends) in [
        (true, true, true),
        (false, true, true),
        (true, false, false),
    ] {
        let word = |tied: bool| if tied { args!["SESSION"] } else { args![] };
        let mut client = server.client();
        let share = args!["LOCK.ACQUIRE", "k", "a", LONG, "SHARED"];
        client.run(&[share, word(before)].concat()).fence();
        let alone = args!["LOCK.ACQUIRE", "k", "a", LONG];
        client.run(&[alone, word(after)].concat()).fence();
        let id = client.id();
        client.close();
        server.wait_for_the_end_of(id);
        assert_eq!(!observer.is_held_by("k", "a"), ends, "{before}, {after}");
        cmd!(observer, "DEL", "k");
    }
    // One that waits has a share, which ends with the connection.
    let mut client = server.client();
    client.run(&tied("k", "a", &args!["SHARED"])).fence();
    observer.share("k", "b");
    client.send_and_block(&[tied("k", "a", &args![]), args!["BLOCK", 0]].concat());
    let mut reader = server.reader_for("k", "r");
    client.close();
    reader.answer().fence();
    eventually("the share is over", || observer.sharers("k") == ["b", "r"]);
}

/// Both what it was granted and what it had before end with it.
#[test]
fn a_connection_killed_in_the_moment_of_its_upgrade_leaves_no_share_behind() {
    let server = Server::start();
    let mut observer = server.client();
    for upgrade in [args!["SESSION"], args![]] {
        let mut client = server.client();
        client.run(&tied("k", "a", &args!["SHARED"])).fence();
        observer.share("k", "b");
        let id = client.id();
        let alone = args!["LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", 0];
        client.send_and_block(&[alone, upgrade.clone()].concat());
        let answers = observer.transaction(&[
            args!["LOCK.RELEASE", "k", "b"],
            args!["CLIENT", "KILL", "ID", id],
        ]);
        assert_eq!(answers, [1, 1].map(Value::Int));
        server.wait_for_the_end_of(id);
        eventually(&format!("the lock is free, {upgrade:?}"), || {
            cmd!(observer, "EXISTS", "k") == 0
        });
    }
}

/// The share of a connection that lives, although the upgrade was another one's.
#[test]
fn an_upgrade_that_nobody_hears_of_leaves_the_share_tied_as_it_was() {
    let server = Server::start();
    let mut observer = server.client();
    let mut client = server.client();
    client.run(&tied("k", "a", &args!["SHARED"])).fence();
    observer.share("k", "b");
    let mut upgrade = server.waiter_for("k", "a");
    observer.transaction(&[
        args!["LOCK.RELEASE", "k", "b"],
        args!["CLIENT", "KILL", "ID", upgrade.id()],
    ]);
    eventually("it is a share again", || observer.mode("k") == "shared");
    client.close();
    eventually("the share is over", || cmd!(observer, "EXISTS", "k") == 0);
}

#[test]
fn swapdb_moves_ties_with_the_holds() {
    let server = Server::start();
    let mut observer = server.client();
    for mode in modes() {
        let mut client = server.client();
        client.run(&tied("k", "a", &mode)).fence();
        let id = client.id();
        assert_eq!(cmd!(observer, "SWAPDB", 0, 3), "OK");
        // Another one's, untied, stands where it was.
        observer.acquire("k", "a");
        client.close();
        server.wait_for_the_end_of(id);
        assert!(observer.is_held_by("k", "a"), "{mode:?}");
        observer.select(3);
        assert_eq!(cmd!(observer, "EXISTS", "k"), 0, "{mode:?}");
        observer.select(0);
        cmd!(observer, "FLUSHALL");
    }
    // The connection closes in the turn of the loop in which they change places.
    let mut client = server.session("k", "a");
    observer.transaction(&[
        args!["CLIENT", "KILL", "ID", client.id()],
        args!["SWAPDB", 0, 3],
    ]);
    client.wait_until_closed();
    observer.select(3);
    eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
}

#[test]
fn flush_and_reload_forget_the_ties() {
    let server = Server::start();
    let mut observer = server.client();
    for mode in modes() {
        // What comes after a flush is another hold.
        for way in [
            args!["FLUSHALL"],
            args!["FLUSHDB"],
            args!["DEBUG", "RELOAD"],
        ] {
            let mut client = server.client();
            client.run(&tied("k", "a", &mode)).fence();
            let id = client.id();
            assert_eq!(observer.run(&way), "OK");
            if way[0] != b"DEBUG" {
                observer.acquire("k", "a");
            }
            client.close();
            server.wait_for_the_end_of(id);
            assert!(observer.is_held_by("k", "a"), "{mode:?}, {way:?}");
            cmd!(observer, "DEL", "k");
        }
    }
    // Only the database that is emptied.
    let mut client = server.session("k", "a");
    client.select(3);
    client.run(&tied("k", "a", &args![])).fence();
    assert_eq!(cmd!(observer, "FLUSHDB"), "OK");
    observer.acquire("k", "a");
    let id = client.id();
    client.close();
    server.wait_for_the_end_of(id);
    assert!(observer.is_held_by("k", "a"));
    observer.select(3);
    assert_eq!(cmd!(observer, "EXISTS", "k"), 0);
}

#[test]
fn demotion_forgets_the_ties() {
    let server = Server::with().append_only().start();
    let other = Server::start();
    other.client().share("k", "a");
    let mut client = server.session("k", "a");
    let mut short = server.session("short", "a");
    // One closes while the server is a replica, and one afterwards.
    server.follow(&other);
    server.wait_until_in_sync_with(&other);
    let id = short.id();
    short.close();
    server.wait_for_the_end_of(id);
    assert_eq!(server.client().sharers("k"), ["a"]);
    server.promote();
    let id = client.id();
    client.close();
    server.wait_for_the_end_of(id);
    assert_eq!(server.client().sharers("k"), ["a"]);
    let commands = server.aof_commands();
    assert!(!commands.iter().any(|line| line.contains("LOCK.")));
    // Demoted and promoted in one breath, so that the keys stay.
    let mut client = server.session("l", "a");
    let id = client.id();
    server.client().pipeline(&[
        args!["REPLICAOF", "127.0.0.1", 1],
        args!["REPLICAOF", "NO", "ONE"],
    ]);
    client.close();
    server.wait_for_the_end_of(id);
    assert!(server.client().is_held_by("l", "a"));
    // And from then on all is as ever.
    let mut client = server.client();
    client.run(&tied("l", "a", &args![])).fence();
    client.close();
    let mut observer = server.client();
    eventually("the hold is over", || cmd!(observer, "EXISTS", "l") == 0);
}

#[test]
fn a_module_that_is_unloaded_and_loaded_again_has_forgotten_the_ties() {
    let server = Server::start();
    let path = server.module_path();
    let mut observer = server.client();
    let mut before = server.session("k", "a");
    let id = before.id();
    let mut while_away = server.session("l", "a");
    let id_away = while_away.id();
    server.wait_until_unloaded();
    while_away.close();
    server.wait_for_the_end_of(id_away);
    assert_eq!(cmd!(observer, "MODULE", "LOAD", path), "OK");
    before.close();
    server.wait_for_the_end_of(id);
    assert!(observer.is_held_by("k", "a"));
    assert!(observer.is_held_by("l", "a"));
    let again = server.session("k", "a");
    again.close();
    eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
}

/// All of its waiters are answered with one grant, and the one that asked last decides.
#[test]
fn of_several_waiters_of_one_owner_the_last_one_that_lives_decides() {
    let server = Server::start();
    let mut observer = server.client();
    let waits = |key: &str, word: &Command| {
        let command = args!["LOCK.ACQUIRE", key, "a", LONG, "BLOCK", 0];
        server.waiter(&[command, word.clone()].concat())
    };
    let (with, without) = (args!["SESSION"], args![]);
    for (first, last, last_dies_first, ends) in [
        (&with, &without, false, false),
        (&without, &with, false, true),
        (&with, &with, false, true),
        (&without, &with, true, false),
        (&with, &without, true, true),
    ] {
        let case = format!("{first:?}, {last:?}, {last_dies_first}");
        observer.acquire("k", "h");
        let mut first = waits("k", first);
        let mut last = waits("k", last);
        if last_dies_first {
            last.close();
            eventually("it has left", || observer.queue("k") == ["a"]);
            observer.release("k", "h");
            first.answer().fence();
            last = first;
        } else {
            observer.release("k", "h");
            let fence = first.answer().fence();
            assert_eq!(last.answer(), fence);
            let id = first.id();
            first.close();
            server.wait_for_the_end_of(id);
            assert!(observer.is_held_by("k", "a"), "{case}");
        }
        let id = last.id();
        last.close();
        server.wait_for_the_end_of(id);
        if ends {
            eventually(&case, || cmd!(observer, "EXISTS", "k") == 0);
        } else {
            assert!(observer.is_held_by("k", "a"), "{case}");
            observer.release("k", "a");
        }
    }
}

/// An upgrade that still waits has decided nothing.
#[test]
fn a_share_ends_with_its_connection_while_another_waits_for_its_upgrade() {
    let server = Server::start();
    let mut observer = server.client();
    let mut client = server.client();
    client.run(&tied("k", "a", &args!["SHARED"])).fence();
    observer.share("k", "b");
    let mut upgrade = server.waiter_for("k", "a");
    client.close();
    eventually("the share is over", || observer.sharers("k") == ["b"]);
    assert!(upgrade.still_waits());
    observer.release("k", "b");
    upgrade.answer().fence();
    assert_eq!(observer.holder("k"), "a");
}

#[test]
fn a_connection_that_ends_in_the_transaction_that_ties_it_holds_nothing() {
    let server = Server::start();
    let mut observer = server.client();
    for mode in modes() {
        let mut client = server.client();
        let id = client.id();
        client.send_pipeline(&[
            args!["MULTI"],
            tied("k", "a", &mode),
            args!["CLIENT", "KILL", "ID", id, "SKIPME", "no"],
            args!["EXEC"],
        ]);
        server.wait_for_the_end_of(id);
        eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
    }
}

/// What ends with the connection has not been given back by then.
#[test]
fn a_hold_taken_up_in_the_turn_in_which_its_connection_ends_is_left_to_its_owner() {
    let server = Server::start();
    let mut observer = server.client();
    for mode in modes() {
        let again = [args!["LOCK.ACQUIRE", "k", "a", LONG], mode.clone()].concat();
        for (deeds, stays) in [
            (vec![again.clone()], true),
            (vec![tied("k", "a", &mode)], true),
            (vec![args!["LOCK.RELEASE", "k", "a"], again.clone()], true),
            (vec![args!["DEL", "k"], again.clone()], true),
            (
                vec![args!["DEL", "k"], args!["SET", "k", "a", "NX", "PX", LONG]],
                true,
            ),
            (vec![args!["LOCK.RENEW", "k", "a", LONG]], false),
            (vec![args!["LOCK.CHECK", "k", "a"]], false),
            (vec![args!["LOCK.ACQUIRE", "k", "b", LONG]], false),
        ] {
            let mut client = server.client();
            client.run(&tied("k", "a", &mode)).fence();
            let id = client.id();
            let kill = args!["CLIENT", "KILL", "ID", id];
            let answers = observer.transaction(&[&[kill][..], &deeds].concat());
            let case = format!("{mode:?}, {deeds:?}: {answers:?}");
            assert_eq!(answers[0], 1, "{case}");
            server.wait_for_the_end_of(id);
            if stays {
                assert!(observer.is_held_by("k", "a"), "{case}");
            } else {
                eventually(&case, || cmd!(observer, "EXISTS", "k") == 0);
            }
            cmd!(observer, "DEL", "k");
        }
    }
}
