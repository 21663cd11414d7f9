//! The server's keys as the core sees them: read, written, replicated; and announced afterwards.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use crate::lock::{Db, Epoch, Keyspace, Ms, NameRef, Now, Stored};

use super::api;
use super::call;
use super::context::Ctx;
use super::key::{Key, Purpose};
use super::module::{self, Module};
use super::text::{self, Text};

/// On whose behalf keys are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A client's command that only reads, and that runs also when nothing may be written.
    Reader,
    /// A client's command that writes. Before it runs, the server has asked whether it may.
    Writer,
    /// Our own. We have to ask.
    Ourselves,
}

/// The words of a command, as the server has them and as bytes, so that no string has to be made for
/// one of them.
#[derive(Clone, Copy, Default)]
pub struct Said<'a> {
    /// The server's strings.
    pub strings: &'a [*mut api::RawString],
    /// The bytes of each.
    pub words: &'a [&'a [u8]],
}

/// The server's keys, for the length of one callback.
pub struct Keys<'a> {
    module: &'a Module,
    ctx: Ctx<'a>,
    authority: Authority,
    said: Said<'a>,
    open: Option<Open>,
    announcements: Vec<Announcement>,
}

/// The key that was last looked at stays open: what is looked at is often written next.
struct Open {
    db: Db,
    key: Key,
    /// Those of `name`.
    bytes: *const [u8],
    name: Text,
}

/// What others are to be told of a change, when the core is through.
pub struct Announcement {
    db: Db,
    name: Text,
    class: c_int,
    event: &'static CStr,
}

impl<'a> Keys<'a> {
    /// The keys, for whoever has this context and has said this.
    pub fn new(module: &'a Module, ctx: Ctx<'a>, authority: Authority, said: Said<'a>) -> Self {
        Self {
            module,
            ctx,
            authority,
            said,
            open: None,
            announcements: module.room.take(),
        }
    }

    /// Closes what is open, and hands over what is to be announced.
    pub fn close(self) -> Vec<Announcement> {
        self.announcements
    }

    /// This key, open.
    fn open(&mut self, name: NameRef<'_>) -> &mut Open {
        let is_open =
            (self.open.as_ref()).is_some_and(|open| open.db == name.db && open.is_named(name.key));
        if !is_open {
            // The server may want to change it when it opens another.
            self.open = None;
        }
        let (ctx, authority, said) = (self.ctx, self.authority, self.said);
        self.open
            .get_or_insert_with(|| Open::new(ctx, authority, said.text(name.key), name.db))
    }

    /// Tells replicas, the append-only file, transactions and caches of a change to the open key.
    fn changed(&mut self, name: &Text, write: Write<'_>) {
        let Some(replicate) = api::replicate() else {
            return;
        };
        let (ctx, key) = (self.ctx.raw(), name.raw());
        let mut room = [0; DIGITS];
        // SAFETY: the context and the names live, and each format asks for what follows it: strings
        // of the server's, and bytes with their number.
        unsafe {
            api::signal_modified_key(ctx, key);
            match write {
                Write::Set { owner, deadline } => {
                    let owner = self.said.text(owner);
                    let at = digits(deadline, &mut room);
                    replicate(
                        ctx,
                        c"SET".as_ptr(),
                        c"sssb".as_ptr(),
                        key,
                        owner.raw(),
                        self.module.pxat.raw(),
                        at.as_ptr(),
                        at.len(),
                    )
                }
                Write::PExpireAt { deadline } => {
                    let at = digits(deadline, &mut room);
                    replicate(
                        ctx,
                        c"PEXPIREAT".as_ptr(),
                        c"sb".as_ptr(),
                        key,
                        at.as_ptr(),
                        at.len(),
                    )
                }
                Write::Del => replicate(ctx, c"DEL".as_ptr(), c"s".as_ptr(), key),
            };
        }
    }

    fn announce(&mut self, db: Db, name: &Text, class: c_int, event: &'static CStr) {
        if self.module.audience.hears(class) {
            self.announcements.push(Announcement {
                db,
                name: name.clone(),
                class,
                event,
            });
        }
    }
}

/// What is written, in the server's own commands.
enum Write<'a> {
    Set { owner: &'a [u8], deadline: Ms },
    PExpireAt { deadline: Ms },
    Del,
}

/// The most digits that a number of 64 bits has.
const DIGITS: usize = 20;

/// A number in words. The server's own way to take one makes two strings of it.
fn digits(mut number: u64, room: &mut [u8; DIGITS]) -> &[u8] {
    let mut start = DIGITS;
    for (index, digit) in room.iter_mut().enumerate().rev() {
        *digit = b'0'.saturating_add(u8::try_from(number % 10).unwrap_or_default());
        number /= 10;
        start = index;
        if number == 0 {
            break;
        }
    }
    room.get(start..).unwrap_or_default()
}

impl Open {
    fn new(ctx: Ctx<'_>, authority: Authority, name: Text, db: Db) -> Self {
        if authority == Authority::Ourselves {
            ctx.select(db);
        }
        let purpose = match authority {
            Authority::Reader => Purpose::Read,
            Authority::Writer | Authority::Ourselves => Purpose::Write,
        };
        let key = Key::open(ctx, &name, purpose);
        // SAFETY: the name lives as long as we have it, and strings don't change.
        let bytes = unsafe { text::bytes(name.raw()) };
        Self {
            db,
            key,
            bytes,
            name,
        }
    }

    fn is_named(&self, key: &[u8]) -> bool {
        // SAFETY: the name lives as long as we have it, and strings don't change.
        std::ptr::eq(self.bytes, key) || unsafe { &*self.bytes } == key
    }
}

impl Said<'_> {
    /// The server's own string, if these bytes are one of the words; else one that we make.
    fn text(self, bytes: &[u8]) -> Text {
        (self.words.iter().zip(self.strings))
            .find(|&(&word, _)| std::ptr::eq(word, bytes))
            .map_or_else(|| Text::new(bytes), |(_, &string)| Text::Lent(string))
    }
}

impl Keyspace for Keys<'_> {
    fn look(&mut self, name: NameRef<'_>) -> Stored<'_> {
        self.open(name).key.stored()
    }

    fn deadline(&mut self, name: NameRef<'_>) -> Option<Ms> {
        self.open(name).key.deadline()
    }

    fn hold(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms) {
        let open = self.open(name);
        open.key.set(owner);
        open.key.expire_at(deadline);
        let text = open.name.clone();
        self.changed(&text, Write::Set { owner, deadline });
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_STRING, c"set");
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_GENERIC, c"expire");
    }

    fn move_deadline(&mut self, name: NameRef<'_>, deadline: Ms) {
        let open = self.open(name);
        open.key.expire_at(deadline);
        let text = open.name.clone();
        self.changed(&text, Write::PExpireAt { deadline });
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_GENERIC, c"expire");
    }

    fn remove(&mut self, name: NameRef<'_>) {
        let open = self.open(name);
        open.key.delete();
        let text = open.name.clone();
        self.changed(&text, Write::Del);
        self.announce(name.db, &text, raw::REDISMODULE_NOTIFY_GENERIC, c"del");
    }

    fn epoch(&mut self, now: Now) -> Epoch {
        self.module.epochs.now(self.ctx, now)
    }

    fn is_writable(&mut self) -> bool {
        match self.authority {
            Authority::Reader => false,
            Authority::Writer => true,
            Authority::Ourselves => is_writable(self.ctx),
        }
    }

    fn may_write(&mut self, name: NameRef<'_>) -> bool {
        match self.authority {
            Authority::Reader => false,
            Authority::Writer => true,
            Authority::Ourselves => {
                let name = self.open(name).name.clone();
                // The server may change the key while it is asked, so it is not open then.
                self.open = None;
                let accepted = call::would_accept_a_write(self.ctx, &name);
                self.module.refusals.heard(accepted, module::now());
                accepted
            }
        }
    }
}

fn is_writable(ctx: Ctx<'_>) -> bool {
    let flags = ctx.flags();
    // A write while clients are paused, or while the server hands over to a replica, would stop it.
    // SAFETY: asks for nothing.
    flags.master() && !flags.loading() && unsafe { api::avoid_replica_traffic() } == 0
}

impl Announcement {
    /// Sends it, as the server's own commands would.
    pub fn send(&self, ctx: Ctx<'_>, authority: Authority) {
        if authority == Authority::Ourselves {
            ctx.select(self.db);
        }
        // SAFETY: context and name live.
        unsafe {
            api::notify_keyspace_event(ctx.raw(), self.class, self.event.as_ptr(), self.name.raw());
        }
    }

    /// The server's own handle of the key's name.
    pub fn name(&self) -> *mut api::RawString {
        self.name.raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_digits() {
        for number in [0, 9, 10, 1_795_234_208_385, u64::MAX] {
            assert_eq!(
                digits(number, &mut [0; DIGITS]),
                number.to_string().as_bytes()
            );
        }
    }
}
