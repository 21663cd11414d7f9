//! The arguments of `who`, `ls`, `log` and `break`.

use crate::place::{self, Environment, Place, Said};

/// All of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The server.
    pub place: Place,
    /// The key, the pattern, or how many.
    pub about: Option<String>,
    /// `--json`
    pub json: bool,
    /// `--all`
    pub all: bool,
    /// `--node`
    pub node: bool,
    /// `--force`
    pub force: bool,
}

/// With the words that say where the server is.
pub fn help(of: &str) -> String {
    format!("{of}  --json           print JSON\n  -h, --help\n\n{}", place::HELP)
}

impl Options {
    /// None for `--help`. What the command `takes` begins with a bracket if it is optional.
    pub fn read(
        words: impl IntoIterator<Item = String>,
        takes: &str,
        environment: Environment,
    ) -> Result<Option<Options>, String> {
        let mut said = Said::default();
        let (mut about, mut json, mut all, mut node, mut force) =
            (None, false, false, false, false);
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or(format!("{word} takes a value"));
            match word.as_str() {
                "--json" => json = true,
                "--all" if takes == "[PATTERN]" => all = true,
                "--node" if takes != "KEY" => node = true,
                "--force" if takes == "KEY" => force = true,
                "-h" | "--help" => return Ok(None),
                _ if said.take(&word, &mut next)? => {}
                "--" => about = Some(next()?),
                _ if word.starts_with("--") || about.is_some() => {
                    return Err(format!("unknown: {word}"));
                }
                _ => about = Some(word),
            }
        }
        if about.is_none() && !takes.starts_with('[') {
            return Err(format!("{takes} is missing"));
        }
        Ok(Some(Options { place: said.place(environment)?, about, json, all, node, force }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, takes: &str) -> Result<Option<Options>, String> {
        let words = line.split_whitespace().map(str::to_owned);
        Options::read(words, takes, Environment::default())
    }

    #[test]
    fn each_word_is_taken_and_a_key_may_look_like_an_option() {
        let options = read("--port 7000 -- --all --json", "KEY").unwrap().unwrap();
        assert_eq!((options.about.as_deref(), options.json), (Some("--all"), true));
        assert!(read("x* --all", "[PATTERN]").unwrap().unwrap().all);
        assert_eq!(read("-h", "KEY").unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, takes, wrong) in [
            ("", "KEY", "KEY is missing"),
            ("a b", "KEY", "unknown: b"),
            ("a --all", "KEY", "unknown: --all"),
            ("--force", "[COUNT]", "unknown: --force"),
        ] {
            assert_eq!(read(line, takes).unwrap_err(), wrong);
        }
    }
}
