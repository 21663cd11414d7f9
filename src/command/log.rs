//! `LOCK.LOG [count | RESET]`

use crate::lock::{Ahead, Hold, HolderNow, LateUse, LogEntry, Now, Truncated, to_wall};
use crate::protocol::{
    Access, Argument, Call, Command, Connection, Fault, Kind, Outcome, Reply, Spec, escaped,
    integer, shown as quoted,
};

pub struct Log;

/// How many lines are shown if nothing is said: as many as ACL LOG shows.
const USUAL: usize = 10;

impl Command for Log {
    const SPEC: Spec = Spec {
        name: c"lock.log",
        // The flags of ACL LOG.
        flags: c"admin deny-script allow-loading allow-stale",
        summary: c"Lists the latest holds that their owners lost, and why.",
        complexity: c"O(N) with N the number of entries returned or cleared.",
        access: Access::Oversee,
        arguments: &[Argument::new(
            c"operation",
            Kind::OneOf(&[
                Argument::new(
                    c"count",
                    Kind::Integer,
                    c"The maximum number of entries, newest first. Default: 10.",
                ),
                Argument::new(c"reset", Kind::Word, c"Clears the log.").after(c"RESET"),
            ]),
            c"List entries, or clear the log.",
        )
        .optional()],
    };

    fn run<'w>(call: &mut Call<'w, '_, '_>) -> Result<Outcome<'w>, Fault> {
        let word = call.words.next();
        if word.is_some_and(|word| word.eq_ignore_ascii_case(b"RESET")) {
            call.words.end()?;
            call.locks.log.reset();
            return Ok(Outcome::Reply(Reply::Ok));
        }
        let most = match word {
            Some(word) => {
                let wrong = || format!("{} is neither a count nor RESET", quoted(word));
                let count = integer(word).ok_or_else(|| Fault::Integer(wrong()))?;
                // A negative count shows none.
                usize::try_from(count).unwrap_or_default()
            }
            None => USUAL,
        };
        call.words.end()?;
        let (now, ahead) = (call.turn.now, call.locks.holds().wall.ahead());
        let losses = call.locks.reports().losses(&mut call.turn, most).into_iter();
        let lines = losses.map(|(line, holder)| {
            let client = line.lost.as_ref().and_then(|(_, hold)| hold.client());
            let connection = client.and_then(|client| call.caller.connection(client));
            describe(&line, connection.as_ref(), holder.as_ref(), now, ahead)
        });
        Ok(Outcome::Reply(Reply::List(lines.collect())))
    }
}

fn describe(
    line: &LogEntry,
    connection: Option<&Connection>,
    holder: Option<&HolderNow>,
    now: Now,
    ahead: Ahead,
) -> Reply {
    let [name, address] = Connection::fields(connection);
    let wall = |time: Now| to_wall(time.ms(), ahead);
    let number = |number: Option<u64>| number.map_or(Reply::Null, Reply::number);
    let text = |text: Option<&str>| text.map_or(Reply::Null, Reply::text);
    let cut = |cut: Option<&Truncated>| cut.map_or(Reply::Null, |cut| shown(cut.bytes()));
    let about = line.lost.as_ref().map(|(about, _)| about);
    let hold = line.lost.as_ref().map(|(_, hold)| hold);
    let came_back = line.came_back.as_ref();
    Reply::Map(vec![
        ("count", Reply::number(line.count)),
        ("reason", Reply::Bytes(line.reason.name().to_bytes().into())),
        ("database", line.db.map_or(Reply::Null, Reply::number)),
        ("key", cut(about.map(|about| &about.key))),
        ("owner", cut(about.map(|about| &about.owner))),
        ("fence", number(hold.and_then(|hold| hold.fence))),
        ("mode", text(hold.map(|hold| mode(hold.hold)))),
        ("held", number(hold.and_then(|hold| hold.held()))),
        ("client", number(hold.and_then(|hold| hold.client()))),
        name,
        address,
        ("queue", hold.map_or(Reply::Null, |hold| Reply::number(hold.queue))),
        ("holder", holder.map_or(Reply::Null, |holder| shown(&holder.owner))),
        ("holder-fence", number(holder.and_then(|holder| holder.fence))),
        ("returned", text(came_back.map(|came_back| command(came_back.with)))),
        ("late", number(came_back.and_then(|came_back| came_back.late))),
        ("age", Reply::number(now.ms().saturating_sub(line.updated.ms()))),
        ("entry-id", Reply::number(line.id)),
        ("timestamp-created", Reply::number(wall(line.created))),
        ("timestamp-last-updated", Reply::number(wall(line.updated))),
    ])
}

fn shown(bytes: &[u8]) -> Reply {
    Reply::text(&escaped(bytes))
}

pub(super) fn mode(hold: Hold) -> &'static str {
    match hold {
        Hold::Exclusive => "exclusive",
        Hold::Shared => "shared",
    }
}

fn command(with: LateUse) -> &'static str {
    match with {
        LateUse::Release => "release",
        LateUse::Renew => "renew",
        LateUse::Check => "check",
        LateUse::Guard => "guard",
    }
}
