//! The words behind `locktop`.

use std::time::Duration;

/// What `-h` says.
pub const HELP: &str = "\
locktop: the locks of a server in one screen

  --host NAME      the server (127.0.0.1)
  --port NUMBER    (6379)
  --socket PATH    its unix socket, in place of both
  --user NAME      the ACL user
  --pass WORD      its password; without it that in REDISCLI_AUTH, which others can't see in ps
  --tls            by TLS; so with each of the next four
  --cacert FILE    the certificate that the server's is checked by, in place of those of this system
  --cert FILE      our own certificate, and
  --key FILE       its key
  --insecure       don't check the server's certificate
  --db NUMBER      the database (0)
  --node           of a cluster this node alone; without it the locks of all masters are in one table
  --interval S     seconds between two refreshes (1)
  --keys NUMBER    how many keys a refresh walks through, at most (2000); in the first round five times as many
  --all            also locks that this server did not grant: every string that expires
  --once           print one page and end: two refreshes, an interval apart
  -h, --help

In the page: q quit, p pause, up and down select a lock, and to sort by
w how many wait, l the longest wait, h held for how long, t time left, n number of holders.
";

/// What was said.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `--host`
    pub host: String,
    /// `--port`
    pub port: u16,
    /// `--socket`
    pub socket: Option<String>,
    /// `--user`
    pub user: Option<String>,
    /// `--pass`
    pub password: Option<String>,
    /// `--tls`, or one of the next four
    pub tls: bool,
    /// `--cacert`
    pub ca: Option<String>,
    /// `--cert`
    pub certificate: Option<String>,
    /// `--key`
    pub key: Option<String>,
    /// `--insecure`
    pub insecure: bool,
    /// `--db`
    pub db: i64,
    /// `--node`
    pub node: bool,
    /// `--interval`
    pub interval: Duration,
    /// `--keys`
    pub keys: usize,
    /// `--all`
    pub all: bool,
    /// `--once`
    pub once: bool,
}

impl Options {
    /// None if help is asked for.
    pub fn read(
        words: impl IntoIterator<Item = String>,
        password: Option<String>,
    ) -> Result<Option<Options>, String> {
        let mut options = Options {
            host: "127.0.0.1".to_owned(),
            port: 6379,
            socket: None,
            user: None,
            password: password.filter(|word| !word.is_empty()),
            tls: false,
            ca: None,
            certificate: None,
            key: None,
            insecure: false,
            db: 0,
            node: false,
            interval: Duration::from_secs(1),
            keys: 2_000,
            all: false,
            once: false,
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or(format!("{word} takes a value"));
            let wrong = |said: &str| format!("{word} can't be {said}");
            match word.as_str() {
                "--host" => options.host = next()?,
                "--port" => {
                    options.port = next().and_then(|said| said.parse().map_err(|_| wrong(&said)))?
                }
                "--socket" => options.socket = Some(next()?),
                "--user" => options.user = Some(next()?),
                "--pass" => options.password = Some(next()?),
                "--tls" => options.tls = true,
                "--cacert" => options.ca = Some(next()?),
                "--cert" => options.certificate = Some(next()?),
                "--key" => options.key = Some(next()?),
                "--insecure" => options.insecure = true,
                "--node" => options.node = true,
                "--db" => {
                    options.db = next().and_then(|said| said.parse().map_err(|_| wrong(&said)))?
                }
                "--interval" => {
                    let said = next()?;
                    let seconds =
                        said.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
                    options.interval = Duration::from_secs_f64(seconds.ok_or(wrong(&said))?);
                }
                "--keys" => {
                    let said = next()?;
                    let keys = said.parse().ok().filter(|keys| (1..=1_000_000).contains(keys));
                    options.keys = keys.ok_or(wrong(&said))?;
                }
                "--all" => options.all = true,
                "--once" => options.once = true,
                "-h" | "--help" => return Ok(None),
                _ => return Err(format!("unknown: {word}")),
            }
        }
        if options.certificate.is_some() != options.key.is_some() {
            return Err("--cert and --key go together".to_owned());
        }
        let files = [&options.ca, &options.certificate];
        options.tls |= options.insecure || files.iter().any(|file| file.is_some());
        if options.tls && options.socket.is_some() {
            return Err("there is no TLS on a unix socket".to_owned());
        }
        Ok(Some(options))
    }

    /// Where the server is, as the page names it.
    pub fn place(&self) -> String {
        self.socket.clone().unwrap_or_else(|| format!("{}:{}", self.host, self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        Options::read(line.split_whitespace().map(str::to_owned), Some("secret".to_owned()))
    }

    #[test]
    fn what_is_not_said_is_as_for_redis_cli() {
        let options = read("").unwrap().unwrap();
        assert_eq!(
            (options.place().as_str(), options.db, options.once),
            ("127.0.0.1:6379", 0, false)
        );
        assert_eq!(options.password.as_deref(), Some("secret"));
    }

    #[test]
    fn each_option_is_taken() {
        let options = read(
            "--host h --port 7000 --user u --pass p --db 3 --interval 0.5 --keys 10 --all --once",
        );
        let options = options.unwrap().unwrap();
        assert_eq!((options.place().as_str(), options.db, options.keys), ("h:7000", 3, 10));
        assert_eq!((options.user.as_deref(), options.password.as_deref()), (Some("u"), Some("p")));
        assert_eq!(options.interval, Duration::from_millis(500));
        assert!(options.all && options.once);
        assert_eq!(read("--port 7000 -h").unwrap(), None);
    }

    #[test]
    fn whatever_is_said_of_certificates_means_tls() {
        for line in ["--tls", "--insecure", "--cacert a", "--cert a --key b"] {
            assert!(read(line).unwrap().unwrap().tls, "{line}");
        }
        assert!(!read("").unwrap().unwrap().tls);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("--port", "--port takes a value"),
            ("--port 70000", "--port can't be 70000"),
            ("--interval 0", "--interval can't be 0"),
            ("--keys 0", "--keys can't be 0"),
            ("--twice", "unknown: --twice"),
            ("--tls --cert file", "--cert and --key go together"),
            ("--socket s --tls", "there is no TLS on a unix socket"),
        ] {
            assert_eq!(read(line).unwrap_err(), said);
        }
    }
}
