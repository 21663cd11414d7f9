//! What a cluster says about its slots.

use std::cell::Cell;
use std::ffi::CStr;

use super::ffi::{Ctx, call};
use super::version;
use crate::lock::{Epoch, Ms, Now};

/// For how long the server's reply is taken for true. The command costs the server some 50 microseconds, and slots
/// take longer than this to go and come back.
const FRESH: Ms = 2;

/// The cluster that this server is a node of, if it is one, and what it has last said.
///
/// No server tells a module that a slot has changed owners. A node that takes one raises its own epoch, or has the
/// highest already; and others hear of that. But a master that stood still while its replica took over hears of the
/// new epoch before it hears that its slots are gone, and must not take that for news that they have come: so an
/// epoch counts only beside a command by which slots come to this very node.
#[derive(Default)]
pub struct Cluster {
    is_on: bool,
    said: Cell<Epoch>,
    heard: Cell<(u64, u64)>,
    is_down: Cell<bool>,
    at: Cell<Ms>,
}

impl Cluster {
    /// That of a server that is a node of one, or is not.
    pub fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The epochs now, or as they were a moment ago.
    pub fn epoch(&self, ctx: Ctx<'_>, now: Now) -> Epoch {
        self.refresh(ctx, now);
        self.said.get()
    }

    /// Is the cluster up, as far as this node knows?
    pub fn is_up(&self, ctx: Ctx<'_>, now: Now) -> bool {
        self.refresh(ctx, now);
        !self.is_down.get()
    }

    fn refresh(&self, ctx: Ctx<'_>, now: Now) {
        if now.ms().abs_diff(self.at.get()) < FRESH {
            return;
        }
        self.at.set(now.ms());
        // No reply does not mean that all is as it was.
        let info = call::ask(ctx, c"CLUSTER", c"INFO").filter(|info| !info.is_error());
        let info = info.as_ref().map(|info| info.text());
        let heard = info.map_or((0, now.ms()), read);
        if self.heard.replace(heard) != heard {
            let (_, own) = heard;
            self.said.set((own, slots_taken()));
        }
        self.is_down.set(info.is_some_and(says_down));
    }
}

/// How often a command has come by which slots may come to this node, since that was last reset.
fn slots_taken() -> u64 {
    const COMMANDS: [&CStr; 5] = [
        c"cmdstat_cluster|setslot",
        c"cmdstat_cluster|addslots",
        c"cmdstat_cluster|addslotsrange",
        c"cmdstat_cluster|migration",
        c"cmdstat_cluster|syncslots",
    ];
    version::info(c"commandstats", |field| {
        let calls = COMMANDS.iter().filter_map(|name| calls(&field(name)?));
        calls.fold(0, u64::saturating_add)
    })
}

/// `calls=3,usec=…`
fn calls(said: &str) -> Option<u64> {
    let (calls, _) = said.strip_prefix("calls=")?.split_once(',')?;
    calls.parse().ok()
}

fn says_down(info: &[u8]) -> bool {
    String::from_utf8_lossy(info).lines().any(|line| line.trim() == "cluster_state:fail")
}

fn read(info: &[u8]) -> Epoch {
    let info = String::from_utf8_lossy(info);
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            .unwrap_or_default()
    };
    (field("cluster_current_epoch:"), field("cluster_my_epoch:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epochs_are_found_among_what_a_cluster_says() {
        let info = b"cluster_state:ok\r\ncluster_current_epoch:6\r\ncluster_my_epoch:2\r\n";
        assert_eq!(read(info), (6, 2));
        assert_eq!(read(b"nothing of the kind"), (0, 0));
    }

    #[test]
    fn the_calls_of_a_command_are_found_among_what_is_counted_of_it() {
        let said = "calls=3,usec=12,usec_per_call=4.00,rejected_calls=0,failed_calls=0";
        assert_eq!(calls(said), Some(3));
        assert_eq!(calls("usec=12"), None);
    }

    #[test]
    fn a_cluster_that_is_down_says_so() {
        assert!(says_down(b"cluster_state:fail\r\ncluster_slots_ok:0\r\n"));
        assert!(!says_down(b"cluster_state:ok\r\ncluster_slots_fail:0\r\n"));
    }
}
