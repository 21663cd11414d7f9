//! Commands within commands within commands.

use crate::support::*;

const DEEP: usize = 20_000;

fn nested(start: Command, levels: usize, name: &str) -> Command {
    let mut command = start;
    for _ in 0..levels {
        command.extend(args![name, "k", "a"]);
    }
    command.extend(args!["SET", "x", 1]);
    command
}

#[test]
fn a_guard_in_a_guard_in_a_guard_is_refused_however_deep() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    for name in ["LOCK.GUARD", "lock.guard", "GUARD"] {
        for levels in [2, DEEP] {
            let mut command = nested(args!["LOCK.GUARD", "k", "a"], levels - 1, name);
            let refusal = client.run(&command);
            assert!(refusal.is_error("ERR"), "{refusal:?}");
            for how in ["GETKEYS", "GETKEYSANDFLAGS"] {
                let mut question = args!["COMMAND", how];
                question.append(&mut command.clone());
                client.run(&question);
            }
            let answers = client.transaction(&[command.clone()]);
            assert!(answers[0].is_error("ERR"), "{answers:?}");
            command.truncate(3000);
            let mut script = args!["EVAL", "return redis.call(unpack(ARGV))", 0];
            script.append(&mut command);
            let refusal = client.run(&script);
            assert!(refusal.is_error("ERR"), "{refusal:?}");
        }
    }
    assert!(client.holder("x").is_nil());
    assert_eq!(cmd!(client, "LOCK.GUARD", "k", "a", "SET", "x", 1), "OK");
}
