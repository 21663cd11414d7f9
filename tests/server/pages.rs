//! README.md, docs/, examples/ and packaging/ say what is so.
//!
//! Every transcript in them is run, each on a server of its own. A transcript is a fenced block whose
//! first line, comments aside, is a prompt:
//!
//! ```text
//! ann> LOCK.ACQUIRE market ann 10000
//! (integer) 1795236375515000
//! bob> LOCK.ACQUIRE market bob 10000 BLOCK 5000
//! # bob waits
//! ann> LOCK.RELEASE market ann
//! (integer) 1
//! bob: (integer) 1795236376080000
//! ```
//!
//! The word before `>` names a connection, `>` alone is one too, and `(TX)` may stand before it. What
//! follows up to the next prompt is the answer, as redis-cli shows it. A command without an answer
//! must wait in the server; its answer comes later, behind the connection's name and a colon. So does
//! what a connection hears that has said SUBSCRIBE. A line
//! that begins with `#` and a space is a comment. Where a client says `WAIT`, the server has one replica,
//! in sync.
//!
//! An answer must be the page's word for word, but for what can't be known beforehand:
//!
//! - `...` stands for anything; on a line of its own for any number of lines.
//! - Numbers of 13 and more digits (fencing numbers, times) are as long as the page's, and any two of
//!   one length in a transcript are equal, greater or less as the page's two are.
//! - A UUID matches any other.
//! - What LOCK.CHECK and PTTL answer, and `ttl` in an answer, is a time that runs: more than half of
//!   the number that was said (the least in the commands so far that is not below the page's), and
//!   not more than it.
//! - `held`, `waited`, `age` and `late` are under ten seconds; `client` is any number above 0.

mod alerts;
mod commands;
mod files;
mod likeness;
mod links;
mod planted;
mod play;
mod reference;
mod screen;
mod transcript;

use std::panic::catch_unwind;

#[test]
fn every_transcript_in_the_pages_is_what_the_server_answers() {
    let mut wrong = Vec::new();
    for page in files::pages() {
        for transcript in transcript::all_in(&page) {
            let played = catch_unwind(|| play::play(&transcript));
            wrong.extend(match played {
                Ok(Ok(())) => None,
                Ok(Err(words)) => Some(words),
                Err(_) => Some(format!("{}: see the panic above", transcript.place(0))),
            });
        }
    }
    assert!(wrong.is_empty(), "\n\n{}\n", wrong.join("\n\n"));
}

#[test]
fn no_page_shows_commands_that_are_not_tried() {
    let pages = files::pages();
    let untried: Vec<_> = pages.iter().flat_map(transcript::said_by_no_prompt).collect();
    assert!(untried.is_empty(), "no prompt at {untried:?}");
}

#[test]
fn the_readme_and_every_page_of_a_command_have_a_transcript() {
    for page in files::pages() {
        let shows = page.name == "README.md" || page.name.starts_with("docs/commands/");
        assert!(
            !shows || !transcript::all_in(&page).is_empty(),
            "{} shows nothing that can be tried",
            page.name
        );
    }
}
