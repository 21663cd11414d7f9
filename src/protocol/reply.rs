//! The replies that a connection gets.

use std::borrow::Cow;
use std::rc::Rc;

use super::Fault;

/// A reply, in the server's own types. A map is a map in RESP3 and a flat list in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Integer(i64),
    /// Nothing, where a value could be.
    Null,
    /// Nothing, where a list could be.
    NullList,
    Bytes(Rc<[u8]>),
    List(Vec<Reply>),
    /// Names and what they stand for.
    Map(Vec<(&'static str, Reply)>),
    Ok,
    /// An error, which begins with its code word.
    Error(Cow<'static, str>),
}

impl Reply {
    /// A number that can't be negative. All that we have are below 2^53.
    pub fn number(number: impl TryInto<i64>) -> Self {
        Self::Integer(number.try_into().unwrap_or(i64::MAX))
    }

    pub fn text(text: &str) -> Self {
        Self::Bytes(Rc::from(text.as_bytes()))
    }

    /// 1 or 0.
    pub fn yes_or_no(yes: bool) -> Self {
        Self::Integer(i64::from(yes))
    }
}

impl From<Fault> for Reply {
    fn from(fault: Fault) -> Self {
        Self::Error(Cow::Owned(fault.to_string()))
    }
}
