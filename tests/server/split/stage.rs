//! A master with two replicas and three Sentinels, and the network between it and all others, which can be cut.

use crate::support::*;
use std::net::{Ipv4Addr, SocketAddr};

pub struct Servers {
    /// They go first: they would see to servers that are gone.
    sentinels: Sentinels,
    /// Who is before the old master when the network is cut is with its replicas and the Sentinels.
    pub network: Proxy,
    pub old: Server,
    pub heir: Server,
    _other: Server,
}

impl Servers {
    /// The Sentinels choose the heir. Its clock is so many milliseconds behind that of the master, and that of the
    /// other replica ahead.
    #[track_caller]
    pub fn start(settings: &[&str], clocks_apart: i64) -> Servers {
        let with = |more: &[&str]| {
            let all = settings.iter().chain(more);
            let setup = all.fold(Setup::new(), |setup, line| setup.config(line));
            if clocks_apart == 0 { setup } else { setup.with_steps() }
        };
        let old = with(&[]).start();
        let network = Proxy::before(old.address());
        let follow = format!("replicaof 127.0.0.1 {}", network.address().port());
        let heir = with(&[&follow, "replica-priority 1"]).start();
        let other = with(&[&follow, "replica-priority 100"]).start();
        for replica in [&heir, &other] {
            replica.wait_until_in_sync_with(&old);
        }
        if clocks_apart != 0 {
            // The start of the old one was a takeover too, and two are further apart than the clocks are.
            for (server, by) in [(&old, 0), (&heir, -clocks_apart), (&other, clocks_apart)] {
                server.step_clock(4 * clocks_apart + by);
            }
        }
        let sentinels = Sentinels::watching(network.address().port(), 2);
        Servers { sentinels, network, old, heir, _other: other }
    }

    /// Returns when the Sentinels have made the heir the master.
    #[track_caller]
    pub fn wait_for_the_takeover(&self) {
        self.sentinels.wait_until_they_name(&self.heir);
        self.heir.wait_for_role(Role::Master);
    }

    /// Where the Sentinels send clients.
    pub fn named(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.sentinels.named()).into()
    }

    /// The network is there again, and the old master is made a replica, as the Sentinels would do it ten seconds later.
    #[track_caller]
    pub fn heal(&self) {
        self.network.heal();
        self.old.follow(&self.heir);
        self.old.wait_for_role(Role::Replica);
    }
}
