//! `LOCK.PROVOKE place passes`, for tests alone: the module panics when it has come by there so often,
//! and comes there again.

use crate::protocol::{
    Access, Argument, Call, Command, Fault, Kind, Outcome, Reply, Spec, integer, shown,
};
use crate::provoke;

pub struct Provoke;

impl Command for Provoke {
    const SPEC: Spec = Spec {
        name: c"lock.provoke",
        flags: c"readonly",
        summary: c"Makes the module panic.",
        complexity: c"O(1)",
        access: Access::Read,
        arguments: &[
            Argument::new(c"place", Kind::Bytes, c"Where."),
            Argument::new(c"passes", Kind::Integer, c"How often it is come by before that."),
        ],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let place = call.words.one()?;
        let passes = call.words.one()?;
        let passes = integer(passes).ok_or_else(|| Fault::Integer(shown(passes)))?;
        provoke::ask_for(place, passes);
        Ok(Outcome::Reply(Reply::Integer(1)))
    }
}
