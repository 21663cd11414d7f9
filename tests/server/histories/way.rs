//! A client's way to the server of the moment: a connection that is made anew when it is lost, and
//! that goes where a cluster sends it.

use super::history::Micros;
use super::run::Stage;
use crate::support::*;
use std::net::SocketAddr;
use std::time::Duration;

/// Two nodes may send a client back and forth while a slot moves, but not endlessly.
const REDIRECTS: usize = 20;

pub struct Way<'a> {
    stage: &'a Stage,
    open: Option<Client>,
    /// The number of the connection, in the order in which they were made.
    number: u64,
    /// Where a cluster has sent us; else the address of all.
    home: Option<SocketAddr>,
    /// The next command is one that the node takes only if it is asked to.
    asking: bool,
}

/// One command that was sent.
pub struct Reply {
    pub start: Micros,
    pub connection: u64,
    /// `None` if the connection was lost before the answer came, or it took too long.
    pub answer: Option<Value>,
}

impl<'a> Way<'a> {
    pub fn to(stage: &'a Stage) -> Way<'a> {
        Way { stage, open: None, number: 0, home: None, asking: false }
    }

    /// `None` if there is no server to send it to.
    pub fn run(&mut self, words: &Command, patience: Duration) -> Option<Reply> {
        for _ in 0..REDIRECTS {
            let mut client = self.take()?;
            assert!(!client.has_unread(), "a second reply to one command");
            client.give_up_after(patience);
            let start = self.stage.now();
            let connection = self.number;
            if self.asking {
                self.asking = false;
                client.try_run(&["ASKING"]).ok()?;
            }
            let answer = client.try_run(words).ok();
            match answer.as_ref().and_then(redirect) {
                Some((address, asking)) => {
                    self.asking = asking;
                    if asking {
                        self.open(address)?;
                    } else {
                        self.home = Some(address);
                    }
                }
                None => {
                    self.open = answer.is_some().then_some(client);
                    return Some(Reply { start, connection, answer });
                }
            }
        }
        None
    }

    /// Sends and vanishes: the command may have been gone before its answer comes, or before its
    /// wait has begun.
    pub fn send_and_vanish(&mut self, words: &Command, pause: impl FnOnce()) -> Option<Reply> {
        let mut client = self.take()?;
        let start = self.stage.now();
        client.send(words);
        pause();
        client.reset();
        Some(Reply { start, connection: self.number, answer: None })
    }

    /// The client goes, and has had as many replies as it has sent commands.
    pub fn end(mut self) {
        if let Some((mut client, _)) = self.leave() {
            assert!(!client.has_unread(), "a second reply to one command");
        }
    }

    /// The connection that there is, and its number.
    pub fn leave(&mut self) -> Option<(Client, u64)> {
        self.open.take().map(|client| (client, self.number))
    }

    fn take(&mut self) -> Option<Client> {
        if self.open.is_none() {
            self.asking = false;
            self.open(self.home.unwrap_or_else(|| self.stage.address()))?;
        }
        self.open.take()
    }

    fn open(&mut self, address: SocketAddr) -> Option<()> {
        self.open = Client::try_connect(address).ok();
        self.number = self.stage.next_number();
        self.open.is_some().then_some(())
    }
}

/// Where a cluster sends us, and whether for this one command only.
fn redirect(answer: &Value) -> Option<(SocketAddr, bool)> {
    let Value::Error(text) = answer else {
        return None;
    };
    let asking = match text.split(' ').next()? {
        "MOVED" => false,
        "ASK" => true,
        _ => return None,
    };
    Some((text.split(' ').nth(2)?.parse().ok()?, asking))
}
