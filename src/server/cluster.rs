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
    at: Cell<Ms>,
}

impl Epochs {
    /// The epochs now, or as they were a moment ago.
    pub fn now(&self, ctx: Ctx<'_>, now: Now) -> Epoch {
        if now.ms().abs_diff(self.at.get()) >= FRESH {
            self.at.set(now.ms());
            // No answer is no news that all is as it was.
            let info = call::ask(ctx, c"CLUSTER", c"INFO").filter(|info| !info.is_error());
            self.said
                .set(info.map_or((0, now.ms()), |info| read(info.text())));
        }
        self.said.get()
    }
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
}
