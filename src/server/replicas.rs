//! What replicas have acknowledged. Only while a grant waits for that are they asked, and heard.
//!
//! | when | what is done |
//! |---|---|
//! | an event-loop iteration ends, in which a grant has begun to wait | how much is to be sent to replicas is noted, and they are asked what they have: both go out together |
//! | one ends, in which a replica has said it, as the command `REPLCONF ACK`, which a filter hears before it is run | the server's `INFO replication` says what each replica has; the core decides |
//! | a millisecond after the last grant that waits | the filter, which costs every command a call, is taken away |
//!
//! Not asked in the command that grants: how much has been sent is known only when its writes are propagated. And not
//! before that is noted: a replica acknowledges the offset before the question.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CString, c_int};

use super::clock;
use super::ffi::api::{self, CommandFilter, FilterCtx};
use super::ffi::{Ctx, FILTER_NO_SELF, context, text};
use super::instance;
use super::module::Module;
use super::replicate;
use super::version;
use crate::lock::{Ms, Now};

/// For how long it is taken for true how many replicas are connected.
const FRESH: Ms = 2;

/// For how long the filter stays after the last grant that waited. A timer that rings at once would hold up that
/// grant's reply by its interrupt, and the next grant may need the filter again.
const LINGERS: Ms = 1;

/// How soon they are asked again, where nothing may be sent to them just now.
const PAUSE: Ms = 10;

/// More than a server can have.
const MOST: usize = 4096;

/// What is known of replicas.
#[derive(Default)]
pub struct Replicas {
    /// The filter that hears what they acknowledge, while a grant waits for that.
    filter: Cell<Option<*mut CommandFilter>>,
    /// Has one said what it has, in this turn?
    heard: Cell<bool>,
    /// Have they still to be asked?
    asks: Cell<bool>,
    /// When to look again, although nothing was heard.
    next_look: Cell<Option<Ms>>,
    /// How many are connected, and when that was so.
    connected: Cell<Option<(Ms, usize)>>,
    /// What `lock.replicas` is; nothing while the module is being loaded, when none is connected yet.
    wanted: Cell<Option<u64>>,
}

impl Replicas {
    /// How many are connected now, or were a moment ago.
    pub fn connected(&self, now: Now) -> usize {
        match self.connected.get() {
            Some((at, count)) if now.ms().saturating_sub(at) < FRESH => count,
            _ => self.look(now).1.len(),
        }
    }

    /// `lock.replicas` may have been set.
    pub fn set_wanted(&self, wanted: u64, now: Now) {
        let before = self.wanted.replace(Some(wanted));
        if before.is_none_or(|before| wanted <= before) {
            return;
        }
        let connected = self.connected(now);
        if u64::try_from(connected).is_ok_and(|connected| connected < wanted) {
            context::log_warning(&format!(
                "lock.replicas is {wanted}, connected replicas: {connected}. Without more of them no lock is \
                 granted or renewed"
            ));
        }
    }

    /// How much has been sent to replicas, and how much each has acknowledged that is connected.
    fn look(&self, now: Now) -> (u64, Vec<u64>) {
        let said = version::info(c"replication", |field| {
            let sent = field(c"master_repl_offset").and_then(|sent| sent.parse().ok());
            let replicas = (0..MOST).map_while(|number| {
                let name = CString::new(format!("slave{number}")).ok()?;
                field(&name)
            });
            (sent.unwrap_or(u64::MAX), each_once(replicas))
        });
        self.connected.set(Some((now.ms(), said.1.len())));
        said
    }

    /// When to look again, although nothing is heard; for the filter to be taken away, when no grant waits.
    pub fn next_look(&self, waits: bool, now: Now) -> Option<Ms> {
        let is_heard = !waits && self.filter.get().is_some();
        if is_heard { Some(now.plus(LINGERS)) } else { self.next_look.get() }
    }

    fn hear(&self, ctx: Ctx<'_>, is_wanted: bool) {
        match (self.filter.get(), is_wanted) {
            (None, true) => {
                // SAFETY: the context lives, and the function as long as the module.
                let filter =
                    unsafe { api::register_command_filter(ctx.raw(), Some(heard), FILTER_NO_SELF) };
                self.filter.set((!filter.is_null()).then_some(filter));
            }
            (Some(filter), false) => {
                // SAFETY: the context lives, and the server gave us the filter.
                unsafe { api::unregister_command_filter(ctx.raw(), filter) };
                self.filter.set(None);
            }
            _ => {}
        }
    }
}

/// How much each replica has acknowledged. One that has connected anew is there twice, until its master sees that the old
/// connection is gone: two acknowledgements of that one would be taken for those of two.
fn each_once(lines: impl Iterator<Item = String>) -> Vec<u64> {
    let mut replicas = BTreeMap::new();
    for line in lines {
        let address = line.split_once(",state=").map(|(address, _)| Box::<str>::from(address));
        if let Some((address, has)) = address.zip(acknowledged(&line)) {
            let most: &mut u64 = replicas.entry(address).or_default();
            *most = has.max(*most);
        }
    }
    replicas.into_values().collect()
}

/// How much a replica has acknowledged, if it is connected, in the server's words.
fn acknowledged(line: &str) -> Option<u64> {
    let value = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name));
    if value("state=")? != "online" {
        return None;
    }
    value("offset=")?.trim().parse().ok()
}

/// The server is about to run a command.
unsafe extern "C" fn heard(ctx: *mut FilterCtx) {
    // SAFETY: the server hands it to us for the length of this call; a word that it has lives as long.
    let is_acknowledgement = unsafe {
        api::command_filter_args_count(ctx) >= 3
            && is_word(ctx, 0, b"replconf")
            && is_word(ctx, 1, b"ack")
    };
    if is_acknowledgement {
        instance::enter("an acknowledgement", |module| module.replicas.heard.set(true));
    }
}

/// Is the command's word at this place such?
///
/// # Safety
/// In a filter, for the length of its call, and with so many words.
unsafe fn is_word(ctx: *mut FilterCtx, at: c_int, word: &[u8]) -> bool {
    // SAFETY: promised by our caller.
    unsafe {
        let said = api::command_filter_arg_get(ctx, at);
        !said.is_null() && text::bytes(said).eq_ignore_ascii_case(word)
    }
}

impl Module {
    /// An event-loop iteration ends. Hears what replicas have, and asks those for it that have not been asked since a grant began
    /// to wait. Returns whether there may be work for the core.
    pub fn hear_replicas(&self) -> bool {
        let is_heard = self.replicas.heard.take();
        if is_heard || self.read(|locks| locks.waiting.pending.has_unsent()) == Ok(true) {
            self.see_to_replicas(clock::now());
        }
        is_heard
    }

    /// Asks replicas what they have, and tells the core, if a grant waits for that.
    pub fn see_to_replicas(&self, now: Now) {
        let waits = self.read(|locks| !locks.waiting.pending.is_empty()).unwrap_or(true);
        self.replicas.next_look.set(None);
        self.replicas.hear(self.own(), waits);
        if !waits {
            return self.replicas.asks.set(false);
        }
        let (sent, acknowledged) = self.replicas.look(now);
        match self.change(|locks| locks.waiting.pending.heard(sent, acknowledged)) {
            Ok(false) if !self.replicas.asks.get() => {}
            Ok(_) => self.ask_replicas(now),
            Err(_) => self.replicas.next_look.set(Some(now.plus(1))),
        }
    }

    fn ask_replicas(&self, now: Now) {
        // SAFETY: it takes nothing.
        let is_paused = unsafe { api::avoid_replica_traffic() } != 0;
        self.replicas.asks.set(is_paused);
        if is_paused {
            return self.replicas.next_look.set(Some(now.plus(PAUSE)));
        }
        replicate::ask_for_acknowledgements(self.own());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_has_connected_anew_counts_once_and_one_at_another_port_by_itself() {
        let line =
            |port: u16, has: u64| format!("ip=::1,port={port},state=online,offset={has},lag=0");
        let lines = [line(7000, 12), line(7001, 5), line(7000, 9), line(7001, 7)];
        assert_eq!(each_once(lines.into_iter()), [12, 7]);
    }

    #[test]
    fn only_replicas_that_are_online_have_acknowledged_anything() {
        for (line, has) in [
            ("ip=::1,port=7000,state=online,offset=1234,lag=0", Some(1234)),
            ("ip=::1,port=7000,state=online,offset=7,lag=1,type=replica", Some(7)),
            ("ip=::1,port=7000,state=wait_bgsave,offset=0,lag=0", None),
            ("ip=::1,port=7000,state=send_bulk,offset=12,lag=0", None),
            ("", None),
        ] {
            assert_eq!(acknowledged(line), has, "{line}");
        }
    }
}
