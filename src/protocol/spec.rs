//! How a command is described to the server, and by `COMMAND DOCS` to its users.

use std::ffi::CStr;

pub struct Spec {
    /// Its name, in lower case, as the server's own errors say it.
    pub name: &'static CStr,
    /// The server's command flags.
    pub flags: &'static CStr,
    pub summary: &'static CStr,
    pub complexity: &'static CStr,
    /// What it does with them.
    pub access: Access,
    pub arguments: &'static [Argument],
}

impl Spec {
    pub const fn name(&self) -> &'static str {
        match self.name.to_str() {
            Ok(name) => name,
            Err(_) => "",
        }
    }

    /// Where its keys stand.
    pub const fn keys(&self) -> KeyPositions {
        match self.arguments {
            [Argument { kind: Kind::Key, .. }, ..] => KeyPositions::First,
            [_, Argument { kind: Kind::Key, .. }, ..] => KeyPositions::Counted,
            _ => KeyPositions::None,
        }
    }

    /// The least number of words, the command's name among them; negative if there may be more.
    pub const fn arity(&self) -> i32 {
        let (mut least, mut more, mut left) = (1_i32, false, self.arguments);
        while let [argument, rest @ ..] = left {
            least = least.saturating_add(!argument.optional as i32);
            more |= argument.optional || argument.multiple;
            left = rest;
        }
        if more { least.saturating_neg() } else { least }
    }
}

/// Is this the name of a command of this module?
pub fn is_ours(name: &[u8]) -> bool {
    name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"lock."))
}

/// Where a command's keys stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPositions {
    /// The first word is the key.
    First,
    /// The first word says how many keys follow it.
    Counted,
    None,
}

/// What a command does with its keys, by the server's key specification flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    /// Names none, and reads those of all databases that it comes by.
    Oversee,
    /// Reads it, and may set, overwrite or prolong it.
    Set,
    Update,
    /// Reads it, and may delete it or hand it to another owner.
    Delete,
    /// Reads it, may hand it to another owner, and then runs the command that follows the owner,
    /// whose keys are this command's keys too.
    Guard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: &'static CStr,
    pub kind: Kind,
    /// The word that goes before it.
    pub token: Option<&'static CStr>,
    pub summary: &'static CStr,
    /// May it be left out?
    pub optional: bool,
    /// May there be more than one?
    pub multiple: bool,
    /// The version that first had it, if that is not the command's own first.
    pub since: Option<&'static CStr>,
}

impl Argument {
    /// One that is given once.
    pub const fn new(name: &'static CStr, kind: Kind, summary: &'static CStr) -> Self {
        Self { name, kind, token: None, summary, optional: false, multiple: false, since: None }
    }

    /// It follows this word.
    pub const fn after(self, token: &'static CStr) -> Self {
        Self { token: Some(token), ..self }
    }

    pub const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    pub const fn multiple(self) -> Self {
        Self { multiple: true, ..self }
    }

    /// It came with this version of the module.
    pub const fn since(self, version: &'static CStr) -> Self {
        Self { since: Some(version), ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Key,
    Bytes,
    Integer,
    /// The token alone.
    Word,
    Pattern,
    /// One of these.
    OneOf(&'static [Argument]),
    /// These, one after the other.
    Block(&'static [Argument]),
}
