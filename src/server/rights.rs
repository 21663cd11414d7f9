//! What users may do. They come and go, and a handle of one that has gone is deadly: so a user is kept
//! by name, and its handle for as long as a question takes.

use std::cell::RefCell;
use std::ffi::{CStr, c_int};
use std::rc::Rc;

use super::ffi::{
    CHANNEL_PUBLISH, Ctx, KEY_ACCESS, KEY_UPDATE, NO_DATABASE, OK, RawString, Said, Text, api, call,
};
use crate::lock::{self, AskedBy, Db, Name};
use crate::protocol::KeyPositions;

/// A user, for the length of a question. It is never kept.
struct User(*mut api::User);

impl User {
    /// The user of this name, if there is one.
    ///
    /// # Safety
    /// No command may run while it is there: one may delete the user.
    unsafe fn of(name: &Text<'_>) -> Option<Self> {
        // SAFETY: the name lives. The server gives us a handle, or null.
        let raw = unsafe { api::get_module_user_from_user_name(name.raw()) };
        // Not made before it is known that there is one, because it is given back when it is dropped.
        (!raw.is_null()).then(|| Self(raw))
    }

    fn may_use(&self, key: &Text<'_>, flags: c_int) -> bool {
        // SAFETY: the user and the key live.
        unsafe { api::acl_check_key_permissions(self.0, key.raw(), flags) == OK }
    }

    /// May it publish this by this command? That is a right to the command and to the channel, and no
    /// matter of databases.
    fn may_publish(&self, command: &Text<'_>, channel: &Text<'_>, text: &Text<'_>) -> bool {
        let mut argv = [command.raw(), channel.raw(), text.raw()];
        // SAFETY: the user and the words live, three of them.
        unsafe { api::acl_check_command_permissions(self.0, argv.as_mut_ptr(), 3) == OK }
    }

    fn may_use_channel(&self, channel: &Text<'_>) -> bool {
        // SAFETY: the user and the channel live.
        unsafe { api::acl_check_channel_permissions(self.0, channel.raw(), CHANNEL_PUBLISH) == OK }
    }

    /// May it say this, in this database?
    ///
    /// # Safety
    /// The words must live.
    unsafe fn may_say(&self, words: &mut [*mut RawString], db: Db) -> Verdict {
        let (argv, argc) = (words.as_mut_ptr(), c_int::try_from(words.len()));
        let (Ok(argc), Ok(db)) = (argc, c_int::try_from(db)) else {
            return Verdict::No;
        };
        let mut missing = 0;
        // SAFETY: the user lives, and so do the words, as our caller has promised; so many of them are there,
        // and there is room for what is missing.
        let allowed = unsafe {
            match api::check_permissions() {
                Some(check) => check(self.0, argv, argc, db, &raw mut missing),
                None => api::acl_check_command_permissions(self.0, argv, argc),
            }
        };
        match missing {
            _ if allowed == OK => Verdict::Yes,
            NO_DATABASE => Verdict::NoDatabase,
            _ => Verdict::No,
        }
    }
}

/// What the server says of a user's rights to a command.
enum Verdict {
    Yes,
    /// It has no right to the database.
    NoDatabase,
    /// It has no right to the command, or to a key.
    No,
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: we got it from the server, and nothing else has it.
        unsafe { api::free_module_user(self.0) }
    }
}

/// What has been asked about users, and is asked again: at every grant to a client that has waited.
pub struct Rights {
    /// The names of the commands that wait, and of those that publish.
    commands: RefCell<Vec<(&'static CStr, Text<'static>)>>,
    /// An owner and a ttl: whatever they are, no right depends on them.
    owner: Text<'static>,
    ttl: Text<'static>,
    /// The user that has asked for a place last. Mostly it is the next to ask too, and need not be remembered
    /// twice.
    last_asker: RefCell<Option<Rc<lock::Asker>>>,
}

impl Rights {
    /// Nothing has been asked as yet.
    pub fn new() -> Self {
        Self {
            commands: RefCell::default(),
            owner: Text::new(b"*"),
            ttl: Text::new(b"1"),
            last_asker: RefCell::default(),
        }
    }

    fn command(&self, name: &'static CStr) -> Text<'static> {
        let mut commands = self.commands.borrow_mut();
        let kept = commands.iter().find(|(kept, _)| *kept == name);
        if let Some((_, text)) = kept {
            return text.clone();
        }
        let text = Text::new(name.to_bytes());
        commands.push((name, text.clone()));
        text
    }

    /// The user that asks for a place in a queue by this command, in this context.
    pub fn asker(&self, ctx: Ctx<'_>, command: AskedBy) -> Rc<lock::Asker> {
        let user = call::user_name(ctx);
        let user = user.as_ref().map_or(&[][..], Text::bytes);
        let mut last = self.last_asker.borrow_mut();
        drop(last.take_if(|last| last.command != command || *last.user != *user));
        let asker = last.get_or_insert_with(|| Rc::new(lock::Asker { user: user.into(), command }));
        Rc::clone(asker)
    }

    /// Has the user that asked for a place lost the right to these locks? A call by another module has no user, and
    /// is not asked about.
    pub fn is_denied(&self, asker: &lock::Asker, said: Said<'_>, names: &[Name]) -> bool {
        let (command, keys) = match asker.command {
            AskedBy::Acquire => (c"lock.acquire", KeyPositions::First),
            AskedBy::Macquire => (c"lock.macquire", KeyPositions::Counted),
        };
        let by_name = || Asker { user: Text::new(&asker.user), command, keys };
        !asker.user.is_empty() && by_name().denial(self, said, names).is_some()
    }

    /// Why this must not be published by this command for the user that asked for a place, in the server's words.
    pub fn publishing_denial(
        &self,
        asker: &lock::Asker,
        command: &'static CStr,
        channel: &Text<'_>,
        text: &Text<'_>,
    ) -> Option<String> {
        if asker.user.is_empty() {
            return None;
        }
        let name = Text::new(&asker.user);
        // SAFETY: no command runs before the user is given back.
        let user = unsafe { User::of(&name) };
        match user {
            Some(user) if user.may_publish(&self.command(command), channel, text) => None,
            Some(user) if !user.may_use_channel(channel) => {
                Some("No permissions to access a channel".to_owned())
            }
            _ => Some(no_command(&name, command)),
        }
    }
}

/// A user that has asked for locks and waits for them, and its command.
pub struct Asker {
    /// The name of its user.
    pub user: Text<'static>,
    /// The name of its command.
    pub command: &'static CStr,
    /// Where the keys stand in the command.
    pub keys: KeyPositions,
}

impl Asker {
    /// Checks again what the server checked when the command came. If the user must not issue it any more, this is
    /// what the server says then.
    pub fn denial(&self, rights: &Rights, said: Said<'_>, names: &[Name]) -> Option<Rc<str>> {
        // SAFETY: no command runs before the user is given back.
        let Some(user) = (unsafe { User::of(&self.user) }) else {
            return Some(self.no_command());
        };
        let db = names.first().map_or(0, |name| name.db);
        let command = rights.command(self.command);
        let verdict = match names {
            [name] if self.keys == KeyPositions::First => {
                let key = said.text_like(&name.key);
                let words = [&command, &key, &rights.owner, &rights.ttl];
                // SAFETY: the words live until the answer is there.
                unsafe { user.may_say(&mut words.map(Text::raw), db) }
            }
            _ => {
                let keys: Vec<Text<'_>> = names.iter().map(|name| Text::new(&name.key)).collect();
                let count = Text::new(names.len().to_string().as_bytes());
                let mut words: Vec<*mut RawString> = [&command, &count]
                    .into_iter()
                    .chain(&keys)
                    .chain([&rights.owner, &rights.ttl])
                    .map(Text::raw)
                    .collect();
                // SAFETY: the words live until the answer is there.
                unsafe { user.may_say(&mut words, db) }
            }
        };
        let may_use = |name: &Name| user.may_use(&Text::new(&name.key), KEY_UPDATE);
        match verdict {
            Verdict::Yes => None,
            Verdict::NoDatabase => Some(Rc::from("No permissions to access database")),
            Verdict::No if names.iter().all(may_use) => Some(self.no_command()),
            Verdict::No => Some(Rc::from("No permissions to access a key")),
        }
    }

    fn no_command(&self) -> Rc<str> {
        Rc::from(no_command(&self.user, self.command))
    }
}

fn no_command(user: &Text<'_>, command: &CStr) -> String {
    let (user, command) = (String::from_utf8_lossy(user.bytes()), command.to_string_lossy());
    format!("User {user} has no permissions to run the '{command}' command")
}

/// May the caller read this key, by its user's rights?
pub fn may_read(ctx: Ctx<'_>, key: &[u8]) -> bool {
    // A module's call may have no user, which some servers don't expect.
    if !ctx.flags().has_connection() {
        return false;
    }
    // SAFETY: no command runs before the user is given back.
    let user = call::user_name(ctx).and_then(|name| unsafe { User::of(&name) });
    user.is_some_and(|user| user.may_use(&Text::new(key), KEY_ACCESS))
}
