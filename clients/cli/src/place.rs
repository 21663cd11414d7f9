//! The server's address and login: the same options for every command.

use redis::{ConnectionAddr, IntoConnectionInfo};

/// How the help describes these options.
pub const HELP: &str = "  --url URL        the server: redis://user:password@host:6379/0, rediss:// (TLS), unix:///path/to/socket,
                   redis+sentinel://host:26379,host:26379/NAME/0 (default: REDIS_URL)
  --host NAME      the server, instead of --url (default 127.0.0.1)
  --port NUMBER    its port (default 6379)
  --socket PATH    its unix socket, instead of both
  --user NAME      the ACL user
  --pass WORD      its password (default: REDISCLI_AUTH, which ps doesn't show)
  --tls            use TLS; implied by the next four
  --cacert FILE    the CA that signed the server's certificate, instead of the system's
  --cert FILE      the client certificate, and
  --key FILE       its key
  --insecure       don't check the server's certificate
  --db NUMBER      the database (default 0)
";

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its unix socket, instead of both.
    pub socket: Option<String>,
    /// The Sentinels that know its address, instead of these.
    pub sentinels: Option<Sentinels>,
    /// The ACL user.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// Use TLS?
    pub tls: bool,
    /// `--cacert`
    pub ca: Option<String>,
    /// `--cert`
    pub certificate: Option<String>,
    /// `--key`
    pub key: Option<String>,
    /// Don't check its certificate?
    pub insecure: bool,
    /// The database.
    pub db: i64,
}

/// The Sentinels that watch a master.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentinels {
    /// Their hosts and ports.
    pub at: Vec<(String, u16)>,
    /// What they call the master.
    pub master: String,
}

impl Place {
    /// As messages and pages name it.
    pub fn name(&self) -> String {
        match (&self.sentinels, &self.socket) {
            (Some(sentinels), _) => format!("the master {}", sentinels.master),
            (None, Some(socket)) => socket.clone(),
            (None, None) => format!("{}:{}", self.host, self.port),
        }
    }

    /// Another server with the same login.
    pub fn at(&self, host: &str, port: u16) -> Place {
        Place { host: host.to_owned(), port, socket: None, sentinels: None, ..self.clone() }
    }
}

/// From the environment, which others can't see in ps.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `REDIS_URL`
    pub url: Option<String>,
    /// `REDISCLI_AUTH`
    pub password: Option<String>,
}

impl Environment {
    /// That of this process.
    pub fn read() -> Environment {
        let said = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Environment { url: said("REDIS_URL"), password: said("REDISCLI_AUTH") }
    }
}

/// The options of a command line that name the server.
#[derive(Clone, Debug, Default)]
pub struct Said {
    url: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    socket: Option<String>,
    user: Option<String>,
    password: Option<String>,
    tls: bool,
    ca: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    insecure: bool,
    db: Option<i64>,
}

impl Said {
    /// Takes the option and its value, if it is one of these.
    pub fn take(
        &mut self,
        word: &str,
        next: &mut dyn FnMut() -> Result<String, String>,
    ) -> Result<bool, String> {
        let wrong = |said: &str| format!("{word} can't be {said}");
        match word {
            "--url" => self.url = Some(next()?),
            "--host" => self.host = Some(next()?),
            "--port" => {
                self.port = Some(next().and_then(|said| said.parse().map_err(|_| wrong(&said)))?);
            }
            "--socket" => self.socket = Some(next()?),
            "--user" => self.user = Some(next()?),
            "--pass" => self.password = Some(next()?),
            "--tls" => self.tls = true,
            "--cacert" => self.ca = Some(next()?),
            "--cert" => self.certificate = Some(next()?),
            "--key" => self.key = Some(next()?),
            "--insecure" => self.insecure = true,
            "--db" => {
                self.db = Some(next().and_then(|said| said.parse().map_err(|_| wrong(&said)))?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Defaults are those of redis-cli.
    pub fn place(self, environment: Environment) -> Result<Place, String> {
        let is_addressed = self.host.is_some() || self.port.is_some() || self.socket.is_some();
        if self.url.is_some() && is_addressed {
            return Err("--url has the host and the port".to_owned());
        }
        let url = self.url.or(environment.url.filter(|_| !is_addressed));
        let mut place = match url {
            Some(url) => from_url(&url)?,
            None => Place {
                host: self.host.unwrap_or_else(|| "127.0.0.1".to_owned()),
                port: self.port.unwrap_or(6379),
                socket: self.socket,
                sentinels: None,
                user: None,
                password: None,
                tls: false,
                ca: None,
                certificate: None,
                key: None,
                insecure: false,
                db: 0,
            },
        };
        place.user = self.user.or(place.user);
        place.password = self.password.or(place.password).or(environment.password);
        place.db = self.db.unwrap_or(place.db);
        if self.certificate.is_some() != self.key.is_some() {
            return Err("--cert and --key go together".to_owned());
        }
        (place.ca, place.certificate, place.key) = (self.ca, self.certificate, self.key);
        place.insecure |= self.insecure;
        let files = [&place.ca, &place.certificate];
        place.tls |= self.tls || place.insecure || files.iter().any(|file| file.is_some());
        if place.tls && place.socket.is_some() {
            return Err("there is no TLS on a unix socket".to_owned());
        }
        Ok(place)
    }
}

/// The error for a wrong URL doesn't repeat the password.
fn from_url(url: &str) -> Result<Place, String> {
    let wrong = || {
        "the URL must look like redis://user:password@host:6379/0 or redis+sentinel://host:26379/NAME"
            .to_owned()
    };
    let (url, sentinels) = match sentinels(url) {
        Some(Some((url, sentinels))) => (url, Some(sentinels)),
        Some(None) => return Err(wrong()),
        None => (url.to_owned(), None),
    };
    let info = url.as_str().into_connection_info().map_err(|_| wrong())?;
    let login = info.redis_settings();
    let (user, password) = (login.username().map(str::to_owned), login.password());
    let mut place = Place {
        host: String::new(),
        port: 0,
        socket: None,
        sentinels,
        user,
        password: password.map(str::to_owned),
        tls: false,
        ca: None,
        certificate: None,
        key: None,
        insecure: false,
        db: login.db(),
    };
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => (place.host, place.port) = (host.clone(), *port),
        ConnectionAddr::TcpTls { host, port, insecure, .. } => {
            (place.host, place.port) = (host.clone(), *port);
            (place.tls, place.insecure) = (true, *insecure);
        }
        ConnectionAddr::Unix(path) => place.socket = Some(path.to_string_lossy().into_owned()),
        _ => return Err(wrong()),
    }
    Ok(place)
}

/// `redis+sentinel://user:password@host:port,host:port/NAME/db` as a URL of the master's ways in, and the Sentinels. The
/// outer None: it is no such URL.
fn sentinels(url: &str) -> Option<Option<(String, Sentinels)>> {
    let (scheme, rest) = url.split_once("+sentinel://")?;
    let read = || {
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (format!("{login}@"), rest),
            None => (String::new(), rest),
        };
        let (hosts, path) = rest.split_once('/')?;
        let (master, db) = path.split_once('/').unwrap_or((path, "0"));
        let at = hosts.split(',').map(|one| match one.rsplit_once(':') {
            Some((host, port)) => Some((host.to_owned(), port.parse().ok()?)),
            None => Some((one.to_owned(), 26_379)),
        });
        let at = at.collect::<Option<Vec<(String, u16)>>>()?;
        let are_named = !master.is_empty() && at.iter().all(|(host, _)| !host.is_empty());
        let sentinels = Sentinels { at, master: master.to_owned() };
        are_named.then(|| (format!("{scheme}://{login}sentinel/{db}"), sentinels))
    };
    Some(read())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: &str, url: Option<&str>) -> Result<Place, String> {
        let mut said = Said::default();
        let mut words = line.split_whitespace().map(str::to_owned);
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or(format!("{word} takes a value"));
            assert!(said.take(&word, &mut next)?, "{word}");
        }
        let password = Some("secret".to_owned());
        said.place(Environment { url: url.map(str::to_owned), password })
    }

    #[test]
    fn what_is_not_said_is_as_for_redis_cli() {
        let place = place("", None).unwrap();
        assert_eq!((place.name().as_str(), place.db, place.tls), ("127.0.0.1:6379", 0, false));
        assert_eq!(place.password.as_deref(), Some("secret"));
    }

    #[test]
    fn a_url_has_everything_and_words_go_before_it() {
        let url = "rediss://ann:hush@locks.example:7000/3";
        let ours = place("--url rediss://ann:hush@locks.example:7000/3 --db 4", None).unwrap();
        assert_eq!((ours.name().as_str(), ours.db, ours.tls), ("locks.example:7000", 4, true));
        assert_eq!((ours.user.as_deref(), ours.password.as_deref()), (Some("ann"), Some("hush")));
        assert_eq!(place("", Some(url)).unwrap().db, 3);
        assert_eq!(place("--port 7001", Some(url)).unwrap().name(), "127.0.0.1:7001");
        assert_eq!(
            place("--url unix:///run/redis.sock", None).unwrap().socket.as_deref(),
            Some("/run/redis.sock")
        );
    }

    #[test]
    fn sentinels_are_named_in_the_url() {
        let url = "rediss+sentinel://ann:hush@a:1,b/shop/2";
        let ours = place("", Some(url)).unwrap();
        let at = vec![("a".to_owned(), 1), ("b".to_owned(), 26_379)];
        assert_eq!(ours.sentinels, Some(Sentinels { at, master: "shop".to_owned() }));
        assert_eq!((ours.user.as_deref(), ours.db, ours.tls), (Some("ann"), 2, true));
        for wrong in ["redis+sentinel://a", "redis+sentinel://a/", "redis+sentinel://a:b/shop"] {
            assert!(place("", Some(wrong)).unwrap_err().starts_with("the URL must look like"));
        }
    }

    #[test]
    fn whatever_is_said_of_certificates_means_tls() {
        for line in ["--tls", "--insecure", "--cacert a", "--cert a --key b"] {
            assert!(place(line, None).unwrap().tls, "{line}");
        }
        assert!(!place("", None).unwrap().tls);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("--port", "--port takes a value"),
            ("--port 70000", "--port can't be 70000"),
            ("--tls --cert file", "--cert and --key go together"),
            ("--socket s --tls", "there is no TLS on a unix socket"),
            ("--url redis://a --port 7000", "--url has the host and the port"),
        ] {
            assert_eq!(place(line, None).unwrap_err(), said);
        }
        let said = place("--url redis//:hush", None).unwrap_err();
        assert!(said.starts_with("the URL must look like") && !said.contains("hush"), "{said}");
    }
}
