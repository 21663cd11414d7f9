//! Requests that would wait for themselves are refused at once, with the deadlock in words; all others
//! wait.

mod crowd;
mod found;
mod graph;
mod words;

use crate::support::*;

/// LOCK.ACQUIRE of this lock, waiting for as long as it takes; more words may follow.
fn waiting(key: impl Arg, owner: impl Arg, more: &str) -> Command {
    let mut command = args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0];
    command.extend(more.split_whitespace().map(|word| word.as_bytes().to_vec()));
    command
}

/// The words behind DEADLOCK, which this must be the answer to.
#[track_caller]
fn refused(client: &mut Client, command: &Command) -> String {
    let answer = client.run(command);
    let text = match &answer {
        Value::Error(text) => text.strip_prefix("DEADLOCK "),
        _ => None,
    };
    text.unwrap_or_else(|| panic!("not refused: {answer:?}")).to_owned()
}

#[track_caller]
fn assert_refused(client: &mut Client, command: &Command, words: &str) {
    assert_eq!(refused(client, command), words);
}
