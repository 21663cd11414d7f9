//! What users may do. They come and go, and a handle of one that has gone is deadly: so a user is kept
//! by name, and its handle for as long as a question takes.

use std::ffi::{CStr, c_int};
use std::rc::Rc;

use crate::lock::{Db, Name};
use crate::protocol::{KeyPositions, Spec};

use crate::server::ffi::api::{self, RawString};
use crate::server::ffi::constants::{KEY_ACCESS, KEY_UPDATE, NO_DATABASE, OK};
use crate::server::ffi::text::Text;

/// A user, for the length of a question: never kept.
pub struct User(*mut api::User);

impl User {
    /// The user of this name, if there is one.
    ///
    /// # Safety
    /// No command may run while it is there: one may delete the user.
    pub unsafe fn of(name: &Text<'_>) -> Option<Self> {
        // SAFETY: the name lives. The server gives us a handle, or null.
        let raw = unsafe { api::get_module_user_from_user_name(name.raw()) };
        // Not made before it is known that there is one: it would be given back.
        (!raw.is_null()).then(|| Self(raw))
    }

    /// May it read this key?
    pub fn may_read(&self, key: &Text<'_>) -> bool {
        self.may_use(key, KEY_ACCESS)
    }

    fn may_use(&self, key: &Text<'_>, flags: c_int) -> bool {
        // SAFETY: the user and the key live.
        unsafe { api::acl_check_key_permissions(self.0, key.raw(), flags) == OK }
    }

    /// May it say this, in this database?
    fn may_say(&self, words: &[&Text<'_>], db: Db) -> Verdict {
        let mut argv: Vec<*mut RawString> = words.iter().map(|word| word.raw()).collect();
        let (argv, argc) = (argv.as_mut_ptr(), c_int::try_from(words.len()));
        let (Ok(argc), Ok(db)) = (argc, c_int::try_from(db)) else {
            return Verdict::No;
        };
        let mut missing = 0;
        // SAFETY: the user and the words live, so many of them, and there is room for what is missing.
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
        // SAFETY: we got it from the server, and nobody else has it.
        unsafe { api::free_module_user(self.0) }
    }
}

/// Who has asked for locks and waits for them, and by which command.
pub struct Asker {
    /// The name of its user.
    user: Text<'static>,
    /// What it has said.
    command: &'static CStr,
    /// Where the keys stand in that.
    keys: KeyPositions,
}

impl Asker {
    /// By this command, and a user of this name.
    pub fn new(user: Text<'static>, spec: &Spec) -> Self {
        Self {
            user,
            command: spec.name,
            keys: spec.keys,
        }
    }

    /// Asks what the server asked when the command came. If its user must not issue it any more, this
    /// is what the server says then.
    pub fn denial(&self, names: &[Name]) -> Option<Rc<str>> {
        // SAFETY: no command runs before the user is given back.
        let Some(user) = (unsafe { User::of(&self.user) }) else {
            return Some(self.no_command());
        };
        let keys: Vec<Text<'_>> = names.iter().map(|name| Text::new(&name.key)).collect();
        let command = Text::new(self.command.to_bytes());
        let count = Text::new(names.len().to_string().as_bytes());
        // Whatever the owner and the ttl are: no right depends on them.
        let (owner, ttl) = (Text::new(b"*"), Text::new(b"1"));
        let count = (self.keys == KeyPositions::Counted).then_some(&count);
        let words: Vec<&Text<'_>> = [&command]
            .into_iter()
            .chain(count)
            .chain(&keys)
            .chain([&owner, &ttl])
            .collect();
        let db = names.first().map_or(0, |name| name.db);
        match user.may_say(&words, db) {
            Verdict::Yes => None,
            Verdict::NoDatabase => Some(Rc::from("No permissions to access database")),
            Verdict::No => Some(if keys.iter().all(|key| user.may_use(key, KEY_UPDATE)) {
                self.no_command()
            } else {
                Rc::from("No permissions to access a key")
            }),
        }
    }

    fn no_command(&self) -> Rc<str> {
        let (user, command) = (self.user.show(), self.command.to_string_lossy());
        Rc::from(format!(
            "User {user} has no permissions to run the '{command}' command"
        ))
    }
}
