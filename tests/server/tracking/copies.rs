//! Copies of a key, kept as client-side caches keep them: read once, and again only when the server has
//! said that the key has changed.

use crate::support::*;

/// One client's copy.
struct Copy {
    how: &'static str,
    key: String,
    reader: Client,
    /// The connection that hears of changes, where it is another one.
    ear: Option<Client>,
    is_stale: bool,
    value: Vec<Value>,
}

/// Copies of one key, one for each way in which a client may be told of changes.
pub struct Copies {
    observer: Client,
    key: String,
    copies: Vec<Copy>,
}

/// What stands under a key, of whatever type, and when it ends.
fn reading(key: &str) -> [Command; 2] {
    [args!["DUMP", key], args!["PEXPIRETIME", key]]
}

impl Copies {
    /// Up to date with what is there now.
    pub fn of(server: &Server, key: &str) -> Copies {
        let mut by_default = server.client3();
        assert_eq!(cmd!(by_default, "CLIENT", "TRACKING", "ON"), "OK");
        let mut by_prefix = server.client3();
        let on = cmd!(by_prefix, "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", key);
        assert_eq!(on, "OK");
        let mut ear = server.client();
        let mut redirected = server.client();
        let on = cmd!(redirected, "CLIENT", "TRACKING", "ON", "REDIRECT", ear.id());
        assert_eq!(on, "OK");
        cmd!(ear, "SUBSCRIBE", "__redis__:invalidate");
        let copy = |how, reader, ear| Copy {
            how,
            key: key.to_owned(),
            reader,
            ear,
            is_stale: true,
            value: Vec::new(),
        };
        let mut copies = Copies {
            observer: server.client(),
            key: key.to_owned(),
            copies: vec![
                copy("RESP3", by_default, None),
                copy("RESP3 with BCAST", by_prefix, None),
                copy("RESP2 with REDIRECT", redirected, Some(ear)),
            ],
        };
        copies.copies.iter_mut().for_each(Copy::refresh);
        copies
    }

    /// Does this, which must change the key, and has done all that comes of it when it returns. Then every
    /// copy must come to be as the key is.
    #[track_caller]
    pub fn follow(&mut self, what: &str, act: impl FnOnce()) {
        let before = self.real();
        self.all_are("before", &before);
        act();
        let now = self.real();
        assert_ne!(before, now, "{what}: the key is as it was");
        self.all_are(what, &now);
    }

    /// The key goes without a look at it by any client, even those who keep a copy.
    #[track_caller]
    pub fn see_it_go(&mut self, what: &str) {
        self.all_are(what, &[Value::Nil, Value::Int(-2)]);
    }

    /// The key has gone to another node, and a client that reads it is sent there.
    #[track_caller]
    pub fn see_it_sent_on(&mut self) {
        for copy in &mut self.copies {
            let how = copy.how;
            eventually(&format!("the copy by {how} has gone"), || {
                copy.refresh();
                copy.value.iter().all(|value| value.is_error("MOVED"))
            });
        }
    }

    #[track_caller]
    fn all_are(&mut self, what: &str, real: &[Value]) {
        for copy in &mut self.copies {
            let how = copy.how;
            eventually(&format!("{what}: the copy by {how} is as the key"), || {
                copy.refresh();
                same(&copy.value, real)
            });
        }
    }

    fn real(&mut self) -> Vec<Value> {
        self.observer.pipeline(&reading(&self.key))
    }
}

/// Nil is written in another way in RESP3.
fn same(one: &[Value], other: &[Value]) -> bool {
    one.len() == other.len()
        && (one.iter().zip(other)).all(|(a, b)| a == b || (a.is_nil() && b.is_nil()))
}

impl Copy {
    /// Reads the key anew, if the server has said so.
    fn refresh(&mut self) {
        // What is to be told within the turn of a command goes out before the reply to this.
        self.ask(&args!["ECHO", "anything"]);
        if let Some(ear) = &mut self.ear {
            while !ear.no_answer_yet() {
                self.is_stale |= concerns(&ear.answer()[2], &self.key);
            }
        }
        while self.is_stale {
            self.is_stale = false;
            self.value = reading(&self.key).iter().map(|one| self.ask(one)).collect();
        }
    }

    fn ask(&mut self, command: &Command) -> Value {
        self.reader.send(command);
        loop {
            match self.reader.answer() {
                push @ Value::Push(_) => self.is_stale |= concerns(&push[1], &self.key),
                answer => return answer,
            }
        }
    }
}

/// Is this key among those that an invalidation names? It names none where all are meant.
fn concerns(named: &Value, key: &str) -> bool {
    named.is_nil() || named.items().iter().any(|name| *name == key)
}
