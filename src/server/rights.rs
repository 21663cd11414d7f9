//! What users may do. They come and go, and a handle of one that has gone is deadly: so a user is kept
//! by name, and its handle for as long as a question takes.

use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::Rc;

use super::ffi::{
    CHANNEL_PUBLISH, Ctx, KEY_ACCESS, KEY_UPDATE, NO_DATABASE, OK, RawString, Said, Text, api, call,
};
use crate::lock::{AskedBy, Asker, Db, Name};

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

    /// May it say this, in this database? If not, which right it lacks, by the server's number, if it has one.
    ///
    /// # Safety
    /// The words must live.
    unsafe fn may_say(&self, words: &mut [*mut RawString], db: Db) -> Result<(), c_int> {
        let (argv, argc) = (words.as_mut_ptr(), c_int::try_from(words.len()));
        let (Ok(argc), Ok(db)) = (argc, c_int::try_from(db)) else { return Err(0) };
        let mut missing = 0;
        // SAFETY: the user lives, and so do the words, as our caller has promised; so many of them are there,
        // and there is room for what is missing.
        let allowed = unsafe {
            match api::check_permissions() {
                Some(check) => check(self.0, argv, argc, db, &raw mut missing),
                None => api::acl_check_command_permissions(self.0, argv, argc),
            }
        };
        if allowed == OK { Ok(()) } else { Err(missing) }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: we got it from the server, and nothing else has it.
        unsafe { api::free_module_user(self.0) }
    }
}

/// What is asked about users, at every grant to a client that has waited.
pub struct Rights {
    acquire: Text<'static>,
    macquire: Text<'static>,
    /// The command that publishes: in a cluster to the shard that has the channel's slot.
    publish: Text<'static>,
    /// An owner, and a ttl: whatever they are, no right depends on them.
    any: Text<'static>,
    /// The user that has asked for locks last. Mostly it is the next to ask too, and need not be remembered
    /// twice.
    last_asker: RefCell<Option<Rc<Asker>>>,
    /// The name of the user that was asked about last.
    last_user: RefCell<Text<'static>>,
}

impl Rights {
    pub fn new(in_cluster: bool) -> Self {
        Self {
            acquire: Text::new(b"lock.acquire"),
            macquire: Text::new(b"lock.macquire"),
            publish: Text::new(if in_cluster { b"spublish" } else { b"publish" }),
            any: Text::new(b"1"),
            last_asker: RefCell::default(),
            last_user: RefCell::new(Text::new(b"default")),
        }
    }

    /// The user that asks for locks by this command, in this context. A call by another module may have none: its
    /// name is empty.
    pub fn asker(&self, ctx: Ctx<'_>, command: AskedBy) -> Rc<Asker> {
        let name = call::user_name(ctx);
        let user = name.as_ref().map_or(&[][..], Text::bytes);
        let mut last = self.last_asker.borrow_mut();
        drop(last.take_if(|last| last.command != command || *last.user != *user));
        let asker = last.get_or_insert_with(|| Rc::new(Asker { user: user.into(), command }));
        Rc::clone(asker)
    }

    /// Checks again what the server checked when the command of this user came, which waits for these locks. If the
    /// user must not issue it any more, this is what the server says then.
    pub fn denial(&self, asker: &Asker, said: Said<'_>, names: &[Name]) -> Option<String> {
        // A call by another module has no user, and is not asked about.
        if asker.user.is_empty() {
            return None;
        }
        let mut name = self.last_user.borrow_mut();
        if name.bytes() != &*asker.user {
            *name = Text::new(&asker.user);
        }
        let command = match asker.command {
            AskedBy::Acquire => &self.acquire,
            AskedBy::Macquire => &self.macquire,
        };
        // SAFETY: no command runs before the user is given back.
        let Some(user) = (unsafe { User::of(&name) }) else {
            return Some(no_command(&name, command));
        };
        let (key, db) =
            (|one: &Name| said.text_like(&one.key), names.first().map_or(0, |name| name.db));
        // SAFETY: the words live until the answer is there.
        let allowed = unsafe {
            if let (AskedBy::Acquire, [name]) = (asker.command, names) {
                let key = key(name);
                user.may_say(&mut [command, &key, &self.any, &self.any].map(Text::raw), db)
            } else {
                let count = Text::new(names.len().to_string().as_bytes());
                let keys: Vec<Text<'_>> = names.iter().map(key).collect();
                let words = [command, &count].into_iter().chain(&keys);
                let words = words.chain([&self.any, &self.any]).map(Text::raw);
                user.may_say(&mut words.collect::<Vec<_>>(), db)
            }
        };
        match allowed {
            Ok(()) => None,
            Err(NO_DATABASE) => Some("No permissions to access database".to_owned()),
            Err(_) if names.iter().all(|name| user.may_use(&key(name), KEY_UPDATE)) => {
                Some(no_command(&name, command))
            }
            Err(_) => Some("No permissions to access a key".to_owned()),
        }
    }

    /// Why this must not be published for the user that asked for a place, in the server's words.
    pub fn publishing_denial(
        &self,
        asker: &Asker,
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
            Some(user) if user.may_publish(&self.publish, channel, text) => None,
            Some(user) if !user.may_use_channel(channel) => {
                Some("No permissions to access a channel".to_owned())
            }
            _ => Some(no_command(&name, &self.publish)),
        }
    }
}

fn no_command(user: &Text<'_>, command: &Text<'_>) -> String {
    let [user, command] = [user, command].map(|text| String::from_utf8_lossy(text.bytes()));
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
