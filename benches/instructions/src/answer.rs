//! What a server answers, in RESP2.

use std::io::{self, BufRead};

/// An answer, as far as anybody here looks at it.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// `+OK`, `:1`, `-ERR …`: the line as it came.
    Line(String),
    /// Bytes; none is nil.
    Bytes(Option<Vec<u8>>),
    /// A list; one that is nil is as good as empty here.
    List(Vec<Answer>),
}

impl Answer {
    /// The next answer.
    pub fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let number = || line[1..].parse::<i64>().map_err(io::Error::other);
        Ok(match line.as_bytes().first() {
            Some(b'$') => match usize::try_from(number()?) {
                Ok(len) => {
                    let mut bytes = vec![0; len + 2];
                    from.read_exact(&mut bytes)?;
                    bytes.truncate(len);
                    Self::Bytes(Some(bytes))
                }
                Err(_) => Self::Bytes(None),
            },
            Some(b'*') => {
                let items = (0..number()?).map(|_| Self::read(from));
                Self::List(items.collect::<io::Result<_>>()?)
            }
            _ => Self::Line(line.to_owned()),
        })
    }
}

/// What is to be answered, or else the figures would be about something else.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// This line.
    Line(&'static str),
    /// An integer above 0.
    Number,
    /// Bytes.
    Bytes,
    /// A list that is not empty.
    List,
}

impl Expected {
    /// Is this it?
    pub fn is(self, answer: &Answer) -> bool {
        match (self, answer) {
            (Self::Line(expected), Answer::Line(line)) => line == expected,
            (Self::Number, Answer::Line(line)) => {
                let number = line
                    .strip_prefix(':')
                    .and_then(|number| number.parse().ok());
                number.is_some_and(|number: i64| number > 0)
            }
            (Self::Bytes, Answer::Bytes(bytes)) => bytes.is_some(),
            (Self::List, Answer::List(items)) => !items.is_empty(),
            _ => false,
        }
    }
}
