//! What a server answers, kept exactly as it came: RESP2's nil, its null array and RESP3's null are
//! three values, and an error is a value too.

use std::borrow::Cow;
use std::fmt;
use std::ops::Index;

#[derive(Clone, PartialEq)]
pub enum Value {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Array(Vec<Value>),
    /// RESP2's null bulk string, `$-1`.
    Nil,
    /// RESP2's null array, `*-1`.
    NilArray,
    /// RESP3's `_`.
    Null,
    Map(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Push(Vec<Value>),
    Double(f64),
    Bool(bool),
    BigNumber(String),
    Verbatim(String),
}

impl Value {
    /// Any of the three ways to say "nothing"; compare with the one that is meant where it matters.
    pub fn is_nil(&self) -> bool {
        matches!(self, Value::Nil | Value::NilArray | Value::Null)
    }

    /// Whether this is an error that begins with this code word (or these words).
    pub fn is_error(&self, code: &str) -> bool {
        matches!(self, Value::Error(text) if text.starts_with(code))
    }

    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Value::Int(number) => *number,
            other => panic!("expected an integer, got {other:?}"),
        }
    }

    #[track_caller]
    pub fn error(&self) -> &str {
        match self {
            Value::Error(text) => text,
            other => panic!("expected an error, got {other:?}"),
        }
    }

    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        self.as_bytes().unwrap_or_else(|| panic!("expected a string, got {self:?}"))
    }

    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    #[track_caller]
    pub fn items(&self) -> &[Value] {
        self.as_items().unwrap_or_else(|| panic!("expected an array, got {self:?}"))
    }

    /// A field of a map, or of the flat array that stands for a map in RESP2.
    pub fn field(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Map(pairs) => pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value),
            _ => self.as_items()?.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| &pair[1]),
        }
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bulk(bytes) => Some(bytes),
            Value::Simple(text) | Value::Verbatim(text) | Value::BigNumber(text) => {
                Some(text.as_bytes())
            }
            _ => None,
        }
    }

    fn as_items(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => Some(items),
            _ => None,
        }
    }

    /// The first value in `bytes` and how long it is; `None` while it has not come to its end.
    pub fn parse(bytes: &[u8]) -> Option<(Value, usize)> {
        let mut reader = Reader { bytes, at: 0 };
        let value = reader.value()?;
        Some((value, reader.at))
    }
}

impl PartialEq<i64> for Value {
    fn eq(&self, other: &i64) -> bool {
        *self == Value::Int(*other)
    }
}

/// A string of any kind with this text. An error equals no string.
impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == Some(other.as_bytes())
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl PartialEq<String> for Value {
    fn eq(&self, other: &String) -> bool {
        *self == **other
    }
}

impl<T, const N: usize> PartialEq<[T; N]> for Value
where
    Value: PartialEq<T>,
{
    fn eq(&self, other: &[T; N]) -> bool {
        self.as_items().is_some_and(|items| {
            items.len() == N && items.iter().zip(other).all(|(item, other)| item == other)
        })
    }
}

impl Index<usize> for Value {
    type Output = Value;

    #[track_caller]
    fn index(&self, index: usize) -> &Value {
        &self.items()[index]
    }
}

impl Index<&str> for Value {
    type Output = Value;

    #[track_caller]
    fn index(&self, name: &str) -> &Value {
        self.field(name).unwrap_or_else(|| panic!("no field {name:?} in {self:?}"))
    }
}

/// Short, so that a failed assertion can be read.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Simple(text) => write!(f, "+{text}"),
            Value::Error(text) => write!(f, "-{text}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Value::Array(items) => f.debug_list().entries(items).finish(),
            Value::Nil => write!(f, "nil"),
            Value::NilArray => write!(f, "nil array"),
            Value::Null => write!(f, "null"),
            Value::Map(pairs) => {
                f.debug_map().entries(pairs.iter().map(|(key, value)| (key, value))).finish()
            }
            Value::Set(items) => f.debug_set().entries(items).finish(),
            Value::Push(items) => {
                write!(f, "push ")?;
                f.debug_list().entries(items).finish()
            }
            Value::Double(number) => write!(f, "{number:?}"),
            Value::Bool(yes) => write!(f, "{yes}"),
            Value::BigNumber(digits) => write!(f, "({digits}"),
            Value::Verbatim(text) => write!(f, "={text:?}"),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Option<Value> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).expect("an empty line in an answer");
        Some(match kind {
            "+" => Value::Simple(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Int(rest.parse().expect("an integer")),
            "$" if rest == "-1" => Value::Nil,
            "$" => Value::Bulk(self.bulk(rest)?.to_vec()),
            "*" if rest == "-1" => Value::NilArray,
            "*" => Value::Array(self.items(length(rest))?),
            "_" => Value::Null,
            "%" => Value::Map(self.pairs(length(rest))?),
            "~" => Value::Set(self.items(length(rest))?),
            ">" => Value::Push(self.items(length(rest))?),
            "," => Value::Double(rest.parse().expect("a double")),
            "#" => Value::Bool(rest == "t"),
            "(" => Value::BigNumber(rest.to_owned()),
            // Its first four bytes name the format: `txt:`.
            "=" => Value::Verbatim(String::from_utf8_lossy(&self.bulk(rest)?[4..]).into_owned()),
            "!" => Value::Error(String::from_utf8_lossy(self.bulk(rest)?).into_owned()),
            _ => panic!("not RESP: {line:?}"),
        })
    }

    fn items(&mut self, count: usize) -> Option<Vec<Value>> {
        (0..count).map(|_| self.value()).collect()
    }

    fn pairs(&mut self, count: usize) -> Option<Vec<(Value, Value)>> {
        (0..count).map(|_| Some((self.value()?, self.value()?))).collect()
    }

    fn bulk(&mut self, header: &str) -> Option<&'a [u8]> {
        let end = self.at + length(header);
        let bytes = self.bytes.get(self.at..end)?;
        self.bytes.get(end..end + 2)?;
        self.at = end + 2;
        Some(bytes)
    }

    /// An error may have bytes in it that a client has sent.
    fn line(&mut self) -> Option<Cow<'a, str>> {
        let rest = &self.bytes[self.at..];
        let length = rest.windows(2).position(|pair| pair == b"\r\n")?;
        self.at += length + 2;
        Some(String::from_utf8_lossy(&rest[..length]))
    }
}

fn length(digits: &str) -> usize {
    digits.parse().expect("a length")
}
