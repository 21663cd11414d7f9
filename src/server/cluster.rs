//! What a cluster says about its slots.

use std::cell::Cell;

use crate::lock::{Epoch, Ms, Now};

use super::call;
use super::context::Ctx;

/// For how long an answer is good. The question costs the server some 50 microseconds, and slots
/// take longer than this to go and come back.
const FRESH: Ms = 2;

/// The cluster's epochs, as it has last said them. No server tells a module that a slot has moved
/// from hand to hand, but a node that takes one raises its own epoch, and a node that loses one
/// hears of the winner's.
#[derive(Default)]
pub struct Epochs {
    said: Cell<Epoch>,
    is_down: Cell<bool>,
    at: Cell<Ms>,
}

impl Epochs {
    /// The epochs now, or as they were a moment ago.
    pub fn now(&self, ctx: Ctx<'_>, now: Now) -> Epoch {
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
        // No answer is no news that all is as it was.
        let info = call::ask(ctx, c"CLUSTER", c"INFO").filter(|info| !info.is_error());
        let info = info.as_ref().map(|info| info.text());
        self.said.set(info.map_or((0, now.ms()), read));
        self.is_down.set(info.is_some_and(says_down));
    }
}

fn says_down(info: &[u8]) -> bool {
    String::from_utf8_lossy(info)
        .lines()
        .any(|line| line.trim() == "cluster_state:fail")
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
    fn a_cluster_that_is_down_says_so() {
        assert!(says_down(b"cluster_state:fail\r\ncluster_slots_ok:0\r\n"));
        assert!(!says_down(b"cluster_state:ok\r\ncluster_slots_fail:0\r\n"));
    }
}
