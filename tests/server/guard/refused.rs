//! What runs under no guard.

use super::*;

#[test]
fn words_that_are_wrong_are_refused() {
    let mut all = Mistakes::default();
    let arity = "ERR wrong number of arguments for 'lock.guard' command";
    all.get(arity, "LOCK.GUARD | LOCK.GUARD k | LOCK.GUARD k a");
    for (text, owner) in owners() {
        all.get(text, &format!("LOCK.GUARD k {owner} SET x 1"));
    }
    all.change_nothing(&["k"]);
}

#[test]
fn a_command_of_the_module_is_refused_inside() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let before = digest(&server);
    for command in [
        args!["LOCK.ACQUIRE", "j", "a", LONG],
        args!["LOCK.RELEASE", "k", "a"],
        args!["lock.release", "k", "a"],
        args!["LoCk.ReNeW", "k", "a", 1],
        args!["lOCK.cHECK", "k", "a"],
        args!["LOCK.INFO", "k"],
        args!["LOCK.MACQUIRE", 1, "j", "a", LONG],
        args!["LOCK.MRELEASE", 1, "k", "a"],
        args!["LOCK.MRENEW", 1, "k", "a", LONG],
        args!["LOCK.GUARD", "k", "a", "SET", "x", 1],
        args!["lock.guard", "k", "a", "LOCK.GUARD", "k", "a", "PING"],
        args!["LOCK.GUARD"],
        args!["LOCK.NOPE"],
        args!["LOCK."],
    ] {
        let answer = client.run(&guarded(&command));
        assert_eq!(
            answer,
            Value::Error("ERR LOCK commands can't be run inside LOCK.GUARD".into()),
            "{}",
            shown(&command)
        );
        assert_eq!(digest(&server), before, "{}", shown(&command));
    }
}

/// Each level would take room on the server's stack, in the run and in the question for its keys.
#[test]
fn commands_nested_twenty_thousand_deep_are_one_refusal() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    for level in [
        args!["LOCK.GUARD", "k", "a"],
        args!["lock.Guard", "k", "a"],
        args!["LOCK.GUARD", "k", "a", "COMMAND", "GETKEYS"],
        args!["LOCK.GUARD", "k", "a", "COMMAND", "GETKEYSANDFLAGS"],
    ] {
        for deep in [2, 20_000] {
            for end in [args![], args!["PING"], args!["SET", "x", 1]] {
                let mut command: Command = (0..deep).flat_map(|_| level.clone()).collect();
                command.extend(end);
                client.run(&command);
                let keys = [args!["COMMAND", "GETKEYS"], command].concat();
                client.run(&keys);
            }
        }
    }
    let deep: Command = (0..20_000).flat_map(|_| guarded(&[])).collect();
    for (answer, expected) in [
        (client.run(&deep), "ERR"),
        (client.run(&guarded(&deep)), "ERR LOCK commands can't"),
        (
            cmd!(
                client,
                "EVAL",
                "local t = {'LOCK.GUARD', 'k', 'a'} for i = 1, 7 do for j = 1, #t do t[#t + 1] = t[j] end end return redis.call(unpack(t))",
                0
            ),
            "ERR LOCK commands can't",
        ),
    ] {
        assert!(answer.is_error(expected), "{answer:?}");
    }
    assert_eq!(cmd!(client, "EXISTS", "x"), 0);
    assert_eq!(client.run(&guarded(&args!["PING"])), "PONG");
}

const NOT_FOR_SCRIPTS: &str = "
    MULTI; EXEC; DISCARD; WATCH k; UNWATCH; SUBSCRIBE c; PSUBSCRIBE c*; SSUBSCRIBE c; UNSUBSCRIBE; MONITOR;
    CLIENT REPLY OFF; CLIENT REPLY SKIP; CLIENT KILL TYPE normal SKIPME no; CLIENT PAUSE 60000;
    CLIENT TRACKING ON; CLIENT SETNAME name; CLIENT NO-EVICT ON; AUTH any; HELLO 3; RESET; QUIT;
    SELECT 2; ReadOnly; READWRITE; ASKING;
    EVAL return 0; EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0; FCALL f 0; FCALL_RO f 0; SCRIPT FLUSH;
    FUNCTION FLUSH; CONFIG SET maxmemory 1; ACL SETUSER default off; MODULE UNLOAD lock;
    REPLICAOF 127.0.0.1 1; FAILOVER; SHUTDOWN NOSAVE; SAVE; BGREWRITEAOF; SYNC; PSYNC ? -1; DEBUG RELOAD;
    DEBUG SLEEP 0";

#[test]
fn what_scripts_may_not_run_is_refused_and_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    cmd!(
        client,
        "FUNCTION",
        "LOAD",
        "#!lua name=l\nredis.register_function('f', function() return 1 end)"
    );
    let before = digest(&server);
    for line in each(NOT_FOR_SCRIPTS, ';') {
        let command = words(line);
        let answer = client.run(&guarded(&command));
        // QUIT has become a command only lately, and is none of those that can be called.
        let name = String::from_utf8(command[0].to_ascii_lowercase()).unwrap();
        let said = answer.error();
        let is_named = said.starts_with(&format!("ERR '{name}"));
        let is_refused = is_named && said.ends_with("' can't be run inside LOCK.GUARD")
            || line == "QUIT" && answer.is_error("ERR");
        assert!(is_refused, "{line}: {answer:?}");
        // The connection is what it was: it speaks RESP2, answers, is in no transaction, hears
        // nothing that it did not ask for.
        let answers = client.pipeline(&[args!["PING"], args!["GET", "missing"]]);
        assert_eq!(answers[0], Value::Simple("PONG".into()), "{line}");
        assert_eq!(answers[1], Value::Nil, "{line}");
        assert_eq!(cmd!(server.client(), "ECHO", "other"), "other");
        assert!(client.no_answer_yet(), "{line}");
        assert_eq!(digest(&server), before, "{line}");
    }
    assert!(cmd!(client, "CLIENT", "GETNAME").is_nil());
    assert_eq!(cmd!(client, "FCALL", "f", 0), 1);
}
