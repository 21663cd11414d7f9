//! `LOCK.SCAN cursor [MATCH pattern] [COUNT n] [ALL]`

use crate::protocol::{Access, Args, Argument, Call, Command, Fault, Kind, Outcome, Spec};

pub struct Scan;

impl Command for Scan {
    const SPEC: Spec = Spec {
        name: c"lock.scan",
        flags: c"readonly",
        summary: c"Iterates over the locks of the database that are held.",
        complexity: c"O(1) for every call, O(N) for a whole iteration, with N the number of keys in the database.",
        access: Access::Read,
        arguments: &[
            Argument::new(
                c"cursor",
                Kind::Integer,
                c"0 to begin with, then what the last call has replied.",
            ),
            Argument::new(
                c"pattern",
                Kind::Pattern,
                c"Which locks, by their names.",
            )
            .after(c"MATCH")
            .optional(),
            Argument::new(
                c"count",
                Kind::Integer,
                c"About how many keys to look at in this call.",
            )
            .after(c"COUNT")
            .optional(),
            Argument::new(
                c"all",
                Kind::Word,
                c"Also those that this server did not grant: every string of 1 to 1024 bytes that expires.",
            )
            .after(c"ALL")
            .optional(),
        ],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let cursor = call.words.one()?;
        let (words, all) = options(cursor, call.words);
        Ok(Outcome::Scan { words, all })
    }
}

/// The words for the server's SCAN, and whether ALL is among them. What is wrong with them the server says, in
/// its own words and order.
fn options<'w>(cursor: &'w [u8], mut words: Args<'w>) -> (Vec<&'w [u8]>, bool) {
    let (mut said, mut all) = (vec![cursor], false);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"ALL") {
            all = true;
        } else if word.eq_ignore_ascii_case(b"MATCH") || word.eq_ignore_ascii_case(b"COUNT") {
            said.push(word);
            said.extend(words.next());
        } else {
            // An empty word, which SCAN does not know either: it might know the one that was given.
            said.push(b"");
        }
    }
    (said, all)
}
