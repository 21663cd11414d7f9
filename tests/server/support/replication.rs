//! Masters and replicas.

use super::server::Server;
use super::setup::Setup;
use super::wait::eventually;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Master,
    Replica,
}

impl Server {
    /// A replica of this server, with the module and in sync.
    #[track_caller]
    pub fn replica(&self) -> Server {
        self.replica_with(Setup::new())
    }

    /// A replica of this server, without the module and in sync.
    #[track_caller]
    pub fn replica_without_module(&self) -> Server {
        self.replica_with(Setup::new().without_module())
    }

    #[track_caller]
    pub fn replica_with(&self, setup: Setup) -> Server {
        let replica = setup.replica_of(self).start();
        replica.wait_until_in_sync_with(self);
        replica
    }

    /// Makes a running server a replica of another; does not wait for it.
    #[track_caller]
    pub fn follow(&self, master: &Server) {
        let port = master.port().to_string();
        let answer = self.client().run(&["REPLICAOF", "127.0.0.1", &port]);
        assert_eq!(answer, "OK");
    }

    #[track_caller]
    pub fn promote(&self) {
        assert_eq!(self.client().run(&["REPLICAOF", "NO", "ONE"]), "OK");
    }

    /// Returns once this replica has all that the master had written by now.
    #[track_caller]
    pub fn wait_until_in_sync_with(&self, master: &Server) {
        let (mut ours, mut theirs) = (self.client(), master.client());
        eventually("the replica's link is up", || {
            let (ours, theirs) = (ours.info("replication"), theirs.info("replication"));
            ours.get("master_link_status").is_some_and(|s| s == "up")
                && ours["master_replid"] == theirs["master_replid"]
        });
        let written = offset(&theirs.info("replication")["master_repl_offset"]);
        eventually("the replica has what the master wrote", || {
            offset(&ours.info("replication")["slave_repl_offset"]) >= written
        });
    }

    #[track_caller]
    pub fn wait_for_role(&self, role: Role) {
        let mut client = self.client();
        eventually(&format!("the role {role:?}"), || {
            let name = &client.info("replication")["role"];
            (name == "master") == (role == Role::Master)
        });
    }

    #[track_caller]
    pub fn role(&self) -> Role {
        match self.client().info("replication")["role"].as_str() {
            "master" => Role::Master,
            _ => Role::Replica,
        }
    }
}

fn offset(digits: &str) -> u64 {
    digits.parse().unwrap()
}
