//! Commands as tests write them: `args!["SET", key, 5]` is one, `cmd!(client, "SET", key, 5)` runs it.

/// The words of a command, binary safe.
pub type Command = Vec<Vec<u8>>;

/// What may stand in a command: texts, bytes and numbers.
pub trait Arg {
    fn to_arg(&self) -> Vec<u8>;
}

impl<T: Arg + ?Sized> Arg for &T {
    fn to_arg(&self) -> Vec<u8> {
        (**self).to_arg()
    }
}

macro_rules! arg {
    ($($bytes:ty)* ; $($number:ty)*) => {
        $(impl Arg for $bytes {
            fn to_arg(&self) -> Vec<u8> {
                let bytes: &[u8] = self.as_ref();
                bytes.to_vec()
            }
        })*
        $(impl Arg for $number {
            fn to_arg(&self) -> Vec<u8> {
                self.to_string().into_bytes()
            }
        })*
    };
}

arg!(str String [u8] Vec<u8>; i32 i64 u16 u32 u64 usize f64);

impl<const N: usize> Arg for [u8; N] {
    fn to_arg(&self) -> Vec<u8> {
        self.to_vec()
    }
}

/// A [`Command`] of words of any kind.
macro_rules! args {
    ($($word:expr),* $(,)?) => {
        ::std::vec![$($crate::support::Arg::to_arg(&$word)),*]
    };
}

/// Runs one command on a client and hands back the answer.
macro_rules! cmd {
    ($client:expr, $($word:expr),+ $(,)?) => {
        $client.run(&$crate::support::args![$($word),+])
    };
}

pub(crate) use {args, cmd};

/// The words of a line, as a command; `''` is a word without letters.
pub fn words(line: &str) -> Command {
    let words = line.split_whitespace();
    words
        .map(|word| if word == "''" { "" } else { word })
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

/// The entries of a table in a text, which this parts.
pub fn each(table: &str, part: char) -> impl Iterator<Item = &str> {
    let entries = table.split(part).map(str::trim);
    entries.filter(|entry| !entry.is_empty())
}

/// The commands of a line, which semicolons part.
pub fn commands(line: &str) -> Vec<Command> {
    each(line, ';').map(words).collect()
}

/// A command as a script runs it.
pub fn in_lua(command: &[Vec<u8>]) -> Command {
    [args!["EVAL", "return redis.call(unpack(ARGV))", 0], command.to_vec()].concat()
}

/// The commands as a client sends them.
pub fn encode<A: AsRef<[u8]>>(words: &[A], into: &mut Vec<u8>) {
    into.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        let word = word.as_ref();
        into.extend(format!("${}\r\n", word.len()).bytes());
        into.extend_from_slice(word);
        into.extend(b"\r\n");
    }
}
