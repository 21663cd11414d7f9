//! What a server answers, in RESP2.

use anyhow::{Result, bail};
use std::str;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A simple string: `OK`, `PONG`, `QUEUED`.
    Simple,
    Number(i64),
    Text(Box<[u8]>),
    /// Nothing: a null of either kind.
    Nil,
    List(Vec<Answer>),
    Error(Box<str>),
}

impl Answer {
    /// The first answer in these bytes and how long it is; `None` if it is not complete yet.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Answer, usize)>> {
        let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
            return Ok(None);
        };
        let Some((kind, rest)) = bytes.get(..end).and_then(<[u8]>::split_first) else {
            bail!("the server sent an empty line");
        };
        let line = str::from_utf8(rest)?;
        let body = end + 2;
        let whole = |answer| Ok(Some((answer, body)));
        match kind {
            b'+' => whole(Answer::Simple),
            b'-' => whole(Answer::Error(line.into())),
            b':' => whole(Answer::Number(line.parse()?)),
            b'$' | b'*' if line.starts_with('-') => whole(Answer::Nil),
            b'$' => {
                let size: usize = line.parse()?;
                Ok(match bytes.get(body..body + size + 2) {
                    None => None,
                    Some(text) => {
                        let text = text.get(..size).unwrap_or_default().into();
                        Some((Answer::Text(text), body + size + 2))
                    }
                })
            }
            b'*' => Answer::parse_list(bytes, body, line.parse()?),
            other => bail!("the server sent a line that begins with byte {other}"),
        }
    }

    fn parse_list(bytes: &[u8], body: usize, count: usize) -> Result<Option<(Answer, usize)>> {
        let mut items = Vec::with_capacity(count.min(1024));
        let mut at = body;
        for _ in 0..count {
            match Answer::parse(bytes.get(at..).unwrap_or_default())? {
                None => return Ok(None),
                Some((item, size)) => {
                    items.push(item);
                    at += size;
                }
            }
        }
        Ok(Some((Answer::List(items), at)))
    }

    pub fn number(&self) -> Result<i64> {
        match self {
            Answer::Number(number) => Ok(*number),
            Answer::Text(text) => Ok(str::from_utf8(text)?.parse()?),
            other => bail!("expected a number, got {other:?}"),
        }
    }

    pub fn text(&self) -> Result<&str> {
        match self {
            Answer::Text(text) => Ok(str::from_utf8(text)?),
            other => bail!("expected text, got {other:?}"),
        }
    }

    pub fn items(&self) -> &[Answer] {
        match self {
            Answer::List(items) => items,
            _ => &[],
        }
    }

    pub fn is_nil(&self) -> bool {
        *self == Answer::Nil
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> Option<(Answer, usize)> {
        Answer::parse(bytes).ok().flatten()
    }

    #[test]
    fn each_kind_is_read() {
        assert_eq!(parsed(b"+OK\r\n"), Some((Answer::Simple, 5)));
        assert_eq!(parsed(b":-7\r\n:"), Some((Answer::Number(-7), 5)));
        assert_eq!(parsed(b"$-1\r\n"), Some((Answer::Nil, 5)));
        assert_eq!(parsed(b"*-1\r\n"), Some((Answer::Nil, 5)));
        let text = Answer::Text(b"a\r\nb".as_slice().into());
        assert_eq!(parsed(b"$4\r\na\r\nb\r\n"), Some((text.clone(), 10)));
        let list = Answer::List(vec![Answer::Number(1), text]);
        assert_eq!(parsed(b"*2\r\n:1\r\n$4\r\na\r\nb\r\n"), Some((list, 18)));
        assert_eq!(parsed(b"-ERR no\r\n"), Some((Answer::Error("ERR no".into()), 9)));
        assert!(Answer::parse(b"?\r\n").is_err());
    }

    #[test]
    fn a_part_of_an_answer_is_none() {
        let whole = b"*2\r\n:1\r\n$4\r\na\r\nb\r\n";
        let part = |size| whole.get(..size).unwrap_or_default();
        assert!((0..whole.len()).all(|size| parsed(part(size)).is_none()));
    }
}
