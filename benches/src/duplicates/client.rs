//! A client of a lock, step by step, so that it can stop between any two of its commands.

use crate::answer::Answer;
use crate::connection::Connection;
use crate::runtime::sleep;
use crate::token::Tokens;
use crate::ways::documented::COMPARE_AND_DELETE;
use anyhow::Result;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Short, so that ten seconds see many of them. EXPIRE knows whole seconds only: these use PEXPIRE.
const TTL: Duration = Duration::from_millis(200);
/// Past the expiry, and for some time.
const PAUSE: Duration = Duration::from_millis(300);
/// One of the clients stops, so often when it has the lock. The others go on: if all stopped, somebody
/// who stands still would have the lock most of the time.
const EVERY: u32 = 2;
/// So far is each client's clock ahead of that of the one before.
const SKEW: Duration = Duration::from_millis(80);

/// How a lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Take {
    /// It never expires.
    Setnx,
    SetnxExpire,
    /// Whoever finds a lock without an expiry sets one.
    SetnxExpireRepair,
    /// The value says when it expires, and GETSET takes an expired one.
    Timestamp,
    SetNxPx,
    Acquire,
}

/// How it is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Give {
    Del,
    /// It compares, and then deletes.
    GetDel,
    WatchDel,
    /// It deletes unless its own time is over.
    DelInTime,
    Script,
    Release,
}

/// A way to a lock.
#[derive(Debug)]
pub struct Way {
    /// The way.
    pub name: &'static str,
    /// Whether it is meant to stand all of this.
    pub sound: bool,
    take: Take,
    give: Give,
}

impl Way {
    /// Whether the server needs the module.
    pub fn needs_module(&self) -> bool {
        self.take == Take::Acquire
    }
}

const fn way(name: &'static str, sound: bool, take: Take, give: Give) -> Way {
    Way {
        name,
        sound,
        take,
        give,
    }
}

/// All of them.
pub static WAYS: [Way; 8] = [
    way("SETNX, DEL", false, Take::Setnx, Give::Del),
    way("SETNX, EXPIRE, DEL", false, Take::SetnxExpire, Give::Del),
    way(
        "SETNX, EXPIRE, GET and DEL",
        false,
        Take::SetnxExpire,
        Give::GetDel,
    ),
    way(
        "SETNX, EXPIRE with repair, WATCH",
        false,
        Take::SetnxExpireRepair,
        Give::WatchDel,
    ),
    way(
        "SETNX and GETSET of a time, DEL",
        false,
        Take::Timestamp,
        Give::DelInTime,
    ),
    way("SET NX PX, DEL", false, Take::SetNxPx, Give::Del),
    way("SET NX PX, script", true, Take::SetNxPx, Give::Script),
    way("LOCK", true, Take::Acquire, Give::Release),
];

/// What happens to one of the clients, every second time that it has the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Calm,
    /// It stops after it has the lock, for longer than the lock lasts.
    PauseHolding,
    /// It stops after the first command of its acquire.
    PauseTaking,
    /// It stops before the last command of its release.
    PauseReleasing,
    /// It is gone after the first command of its acquire.
    Crash,
    /// Nothing, but the clients' clocks differ.
    Clocks,
}

impl Condition {
    /// In the order of the table.
    pub const ALL: [Condition; 6] = [
        Condition::Calm,
        Condition::PauseHolding,
        Condition::PauseTaking,
        Condition::PauseReleasing,
        Condition::Crash,
        Condition::Clocks,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Condition::Calm => "nobody stops",
            Condition::PauseHolding => "pause while holding",
            Condition::PauseTaking => "pause while taking",
            Condition::PauseReleasing => "pause while releasing",
            Condition::Crash => "crash while taking",
            Condition::Clocks => "clocks differ",
        }
    }

    /// Whether it can matter to this way.
    pub fn concerns(self, way: &Way) -> bool {
        self != Condition::Clocks || way.take == Take::Timestamp
    }
}

/// What a try has come to.
#[derive(Debug, Clone, Copy)]
pub enum Stay {
    /// Somebody else has it.
    Out,
    /// The client has died.
    Crashed,
    /// It has the lock until then; without an end if there is none.
    Until(Option<Instant>),
}

/// One of those who want the lock.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    connection: Connection,
    way: &'static Way,
    condition: Condition,
    key: Vec<u8>,
    tokens: Tokens,
    script: Box<[u8]>,
    skew: Duration,
    is_unlucky: bool,
    /// When its hold is over, for who looks at the clock before it releases.
    end: Instant,
    grants: u32,
}

impl Client {
    /// Connects one. The first of them is the one that stops.
    pub async fn connect(
        address: SocketAddr,
        way: &'static Way,
        condition: Condition,
        number: usize,
    ) -> Result<Client> {
        let mut connection = Connection::open(address).await?;
        let nth = u32::try_from(number)?;
        Ok(Client {
            address,
            script: connection.load(COMPARE_AND_DELETE).await?,
            connection,
            way,
            condition,
            key: way.name.replace(' ', "-").into_bytes(),
            tokens: Tokens::of(number),
            skew: if condition == Condition::Clocks {
                SKEW * nth
            } else {
                Duration::ZERO
            },
            is_unlucky: number == 0,
            end: Instant::now(),
            grants: 0,
        })
    }

    /// It died, and somebody like it comes along.
    pub async fn begin_anew(&mut self) -> Result<()> {
        self.connection = Connection::open(self.address).await?;
        self.tokens.renew();
        Ok(())
    }

    fn stops(&self, at: Condition) -> bool {
        self.is_unlucky && self.condition == at && self.grants.is_multiple_of(EVERY)
    }

    async fn stumble(&self, at: Condition) {
        if self.stops(at) {
            sleep(PAUSE).await;
        }
    }

    /// A garbage collection, a page fault, a machine that is moved.
    pub async fn stumble_while_holding(&self) {
        self.stumble(Condition::PauseHolding).await;
    }

    /// Tries to have it; a moment later again, if not.
    pub async fn try_once(&mut self) -> Result<Stay> {
        self.tokens.renew();
        let mut sent = Instant::now();
        if !self.take().await? {
            return Ok(Stay::Out);
        }
        self.grants += 1;
        if self.stops(Condition::Crash) {
            return Ok(Stay::Crashed);
        }
        self.stumble(Condition::PauseTaking).await;
        match self.way.take {
            Take::Setnx => return Ok(Stay::Until(None)),
            Take::SetnxExpire | Take::SetnxExpireRepair => {
                sent = Instant::now();
                self.expire().await?;
            }
            Take::Timestamp | Take::SetNxPx | Take::Acquire => {}
        }
        self.end = sent + TTL;
        Ok(Stay::Until(Some(self.end)))
    }

    /// The first step, or the only one.
    async fn take(&mut self) -> Result<bool> {
        let ttl = TTL.as_millis().to_string();
        let (key, token) = (self.key.as_slice(), self.tokens.latest());
        let words: Vec<&[u8]> = match self.way.take {
            Take::Timestamp => return self.take_by_time().await,
            Take::SetNxPx => vec![b"SET", key, token, b"NX", b"PX", ttl.as_bytes()],
            // Without BLOCK, so that it tries as the others do.
            Take::Acquire => vec![b"LOCK.ACQUIRE", key, token, ttl.as_bytes()],
            Take::Setnx | Take::SetnxExpire | Take::SetnxExpireRepair => {
                vec![b"SETNX", key, token]
            }
        };
        let taken = match self.connection.call(&words).await? {
            Answer::Nil => false,
            Answer::Number(number) => number != 0,
            _ => true,
        };
        if !taken && self.way.take == Take::SetnxExpireRepair {
            let words: [&[u8]; 2] = [b"TTL", &self.key];
            if self.connection.call(&words).await?.number()? == -1 {
                self.expire().await?;
            }
        }
        Ok(taken)
    }

    async fn expire(&mut self) -> Result<()> {
        let ttl = TTL.as_millis().to_string();
        let words: [&[u8]; 3] = [b"PEXPIRE", &self.key, ttl.as_bytes()];
        self.connection.call(&words).await?;
        Ok(())
    }

    /// The value is the time of its expiry, by the clock of the client that wrote it.
    async fn take_by_time(&mut self) -> Result<bool> {
        let now = (SystemTime::now().duration_since(UNIX_EPOCH)? + self.skew).as_millis();
        let is_over = |time: &Answer| -> Result<bool> {
            Ok(match time {
                Answer::Nil => true,
                time => time.text()?.parse::<u128>()? < now,
            })
        };
        let end = (now + TTL.as_millis()).to_string();
        let words: [&[u8]; 3] = [b"SETNX", &self.key, end.as_bytes()];
        if self.connection.call(&words).await? == Answer::Number(1) {
            return Ok(true);
        }
        let words: [&[u8]; 2] = [b"GET", &self.key];
        let time = self.connection.call(&words).await?;
        if time.is_nil() || !is_over(&time)? {
            return Ok(false);
        }
        let words: [&[u8]; 3] = [b"GETSET", &self.key, end.as_bytes()];
        is_over(&self.connection.call(&words).await?)
    }

    /// Lets go of it, or of what it takes for it.
    pub async fn release(&mut self) -> Result<()> {
        match self.way.give {
            Give::Del => {
                self.stumble(Condition::PauseReleasing).await;
                self.delete().await
            }
            Give::DelInTime => {
                if Instant::now() < self.end {
                    self.stumble(Condition::PauseReleasing).await;
                    self.delete().await?;
                }
                Ok(())
            }
            Give::GetDel => {
                if self.is_own().await? {
                    self.stumble(Condition::PauseReleasing).await;
                    self.delete().await?;
                }
                Ok(())
            }
            Give::WatchDel => self.delete_under_watch().await,
            Give::Script | Give::Release => {
                self.stumble(Condition::PauseReleasing).await;
                let token = self.tokens.latest();
                let words: Vec<&[u8]> = match self.way.give {
                    Give::Script => vec![b"EVALSHA", &self.script, b"1", &self.key, token],
                    _ => vec![b"LOCK.RELEASE", &self.key, token],
                };
                self.connection.call(&words).await?;
                Ok(())
            }
        }
    }

    async fn delete(&mut self) -> Result<()> {
        let words: [&[u8]; 2] = [b"DEL", &self.key];
        self.connection.call(&words).await?;
        Ok(())
    }

    async fn is_own(&mut self) -> Result<bool> {
        let words: [&[u8]; 2] = [b"GET", &self.key];
        let held = self.connection.call(&words).await?;
        Ok(held == Answer::Text(self.tokens.latest().into()))
    }

    async fn delete_under_watch(&mut self) -> Result<()> {
        loop {
            let words: [&[u8]; 2] = [b"WATCH", &self.key];
            self.connection.call(&words).await?;
            if !self.is_own().await? {
                self.connection.call(&[b"UNWATCH"]).await?;
                return Ok(());
            }
            self.stumble(Condition::PauseReleasing).await;
            self.connection.push(&[b"MULTI"]);
            self.connection.push(&[b"DEL", &self.key]);
            self.connection.push(&[b"EXEC"]);
            if !self.connection.last_of(3).await?.is_nil() {
                return Ok(());
            }
        }
    }
}
