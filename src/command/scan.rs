//! `LOCK.SCAN cursor [MATCH pattern] [COUNT n] [ALL]`

use crate::protocol::{
    Access, Args, Argument, Call, Command, Fault, Kind, Outcome, Spec, integer, shown,
};

pub struct Scan;

impl Command for Scan {
    const SPEC: Spec = Spec {
        name: c"lock.scan",
        flags: c"readonly",
        summary: c"Iterates over the held locks of the database.",
        complexity: c"O(1) for every call, O(N) for a whole iteration, with N the number of keys in the database.",
        access: Access::Read,
        arguments: &[
            Argument::new(
                c"cursor",
                Kind::Integer,
                c"0 to start; then the cursor that the last call returned.",
            ),
            Argument::new(
                c"pattern",
                Kind::Pattern,
                c"List only locks whose names match.",
            )
            .after(c"MATCH")
            .optional(),
            Argument::new(
                c"count",
                Kind::Integer,
                c"About how many keys to scan in this call.",
            )
            .after(c"COUNT")
            .optional(),
            Argument::new(
                c"all",
                Kind::Word,
                c"Also list locks that this server did not grant: every string of 1 to 1024 bytes with an expiry.",
            )
            .after(c"ALL")
            .optional(),
        ],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let cursor = call.words.one()?;
        let (words, all) = options(cursor, call.words)?;
        Ok(Outcome::Scan { words, all })
    }
}

/// The words for the server's SCAN, and whether ALL is among them. The server checks the cursor, and calls one that is
/// wrong by its name.
fn options<'w>(cursor: &'w [u8], mut words: Args<'w>) -> Result<(Vec<&'w [u8]>, bool), Fault> {
    let (mut said, mut all) = (vec![cursor], false);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"ALL") {
            all = true;
        } else if word.eq_ignore_ascii_case(b"MATCH") {
            said.extend([word, words.next().ok_or(Fault::Words("MATCH needs a pattern"))?]);
        } else if word.eq_ignore_ascii_case(b"COUNT") {
            let number = words.next().ok_or(Fault::NoNumber("COUNT"))?;
            match integer(number) {
                Some(1..) => said.extend([word, number]),
                // SCAN calls that a syntax error.
                Some(_) => return Err(Fault::Words("COUNT must be 1 or more")),
                None => {
                    let is = format!("the number after COUNT is {}", shown(number));
                    return Err(Fault::Integer(is));
                }
            }
        } else {
            return Err(Fault::NoOption(shown(word)));
        }
    }
    Ok((said, all))
}
