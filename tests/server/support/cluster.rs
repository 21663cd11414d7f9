//! A cluster of real servers, and the steps by which a slot moves. Nodes are named by their index.

use super::client::Client;
use super::command::{args, cmd};
use super::replication::Role;
use super::server::Server;
use super::setup::Setup;
use super::value::Value;
use super::wait::eventually;

const SLOTS: usize = 16_384;

#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// So many masters with the module, which share all the slots.
    #[track_caller]
    pub fn start(masters: usize) -> Cluster {
        Cluster::with(masters, |setup| setup)
    }

    /// The same with another set-up: `Cluster::with(2, Setup::without_module)`.
    #[track_caller]
    pub fn with(masters: usize, adjust: impl Fn(Setup) -> Setup) -> Cluster {
        let nodes = (0..masters).map(|_| adjust(Setup::new().cluster()).start()).collect();
        let cluster = Cluster { nodes };
        for (index, node) in cluster.nodes.iter().enumerate() {
            let mut client = node.client();
            let (first, end) = (SLOTS * index / masters, SLOTS * (index + 1) / masters);
            let added = cmd!(client, "CLUSTER", "ADDSLOTSRANGE", first, end - 1);
            assert_eq!(added, "OK");
            // Distinct from the start: else the nodes quarrel about it, and change owners, later.
            let set = cmd!(client, "CLUSTER", "SET-CONFIG-EPOCH", index + 1);
            assert_eq!(set, "OK");
        }
        for node in &cluster.nodes[1..] {
            cluster.introduce(node);
        }
        cluster.wait_until_ok();
        cluster
    }

    /// Adds a replica of a master; it is in sync, and its index is the answer.
    #[track_caller]
    pub fn add_replica_of(&mut self, master: usize, setup: Setup) -> usize {
        let replica = setup.cluster().start();
        self.introduce(&replica);
        self.nodes.push(replica);
        self.wait_until_ok();
        let index = self.nodes.len() - 1;
        let replica = self.node(index);
        let answer = cmd!(replica.client(), "CLUSTER", "REPLICATE", self.id_of(master));
        assert_eq!(answer, "OK");
        replica.wait_until_in_sync_with(self.node(master));
        self.wait_until_known_as_replica(index, master);
        index
    }

    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    pub fn node(&self, index: usize) -> &Server {
        &self.nodes[index]
    }

    #[track_caller]
    pub fn client(&self, index: usize) -> Client {
        self.node(index).client()
    }

    /// The node that serves this key, in its own view.
    #[track_caller]
    pub fn node_of(&self, key: &str) -> &Server {
        self.node(self.index_of(key))
    }

    #[track_caller]
    pub fn index_of(&self, key: &str) -> usize {
        let slot = self.slot_of(key);
        self.nodes
            .iter()
            .position(|node| owns(node, slot))
            .unwrap_or_else(|| panic!("no node owns slot {slot}"))
    }

    #[track_caller]
    pub fn slot_of(&self, key: &str) -> u16 {
        let slot = cmd!(self.client(0), "CLUSTER", "KEYSLOT", key).int();
        slot.try_into().unwrap()
    }

    /// A key that this node serves: the prefix, and a number behind it.
    #[track_caller]
    pub fn key_on(&self, index: usize, prefix: &str) -> String {
        (0..1000)
            .map(|number| format!("{prefix}{number}"))
            .find(|key| owns(self.node(index), self.slot_of(key)))
            .unwrap_or_else(|| panic!("node {index} owns next to nothing"))
    }

    /// A key of this node in another slot than this one's.
    #[track_caller]
    pub fn key_beside(&self, index: usize, than: &str) -> String {
        let mut keys = (0..100).map(|number| self.key_on(index, &format!("beside{number}-")));
        keys.find(|key| self.slot_of(key) != self.slot_of(than)).unwrap()
    }

    #[track_caller]
    pub fn id_of(&self, index: usize) -> String {
        cmd!(self.client(index), "CLUSTER", "MYID").text()
    }

    /// The first step of a move, on its target: take what is ASKed for.
    #[track_caller]
    pub fn set_importing(&self, slot: u16, from: usize, to: usize) {
        self.set_slot(to, slot, "IMPORTING", from);
    }

    /// The second step, on the source: answer ASK for keys that are not there.
    #[track_caller]
    pub fn set_migrating(&self, slot: u16, from: usize, to: usize) {
        self.set_slot(from, slot, "MIGRATING", to);
    }

    /// The third step, for each key. The answer is `OK`, or `NOKEY`.
    #[track_caller]
    pub fn migrate_key(&self, key: &str, from: usize, to: usize) -> super::Value {
        let port = self.node(to).port();
        cmd!(self.client(from), "MIGRATE", "127.0.0.1", port, key, 0, 5000)
    }

    /// The last step: tells all nodes, the new owner first, so that no client is sent to a node that
    /// does not know of it yet.
    #[track_caller]
    pub fn set_slot_owner(&self, slot: u16, from: usize, to: usize) {
        let others = (0..self.nodes.len()).filter(|index| *index != to && *index != from);
        for index in [to, from].into_iter().chain(others) {
            // Replicas learn it from their masters.
            if self.node(index).role() == Role::Master {
                self.set_slot(index, slot, "NODE", to);
            }
        }
    }

    /// All the steps, for the slot of this key and this key alone in it.
    #[track_caller]
    pub fn move_slot_of(&self, key: &str, to: usize) {
        let (slot, from) = (self.slot_of(key), self.index_of(key));
        self.set_importing(slot, from, to);
        self.set_migrating(slot, from, to);
        self.migrate_key(key, from, to);
        self.set_slot_owner(slot, from, to);
    }

    /// All the steps, with all keys that the slot has, while clients go on to use them.
    #[track_caller]
    pub fn move_whole_slot(&self, slot: u16, from: usize, to: usize) {
        self.set_importing(slot, from, to);
        self.set_migrating(slot, from, to);
        let mut client = self.client(from);
        loop {
            let keys = cmd!(client, "CLUSTER", "GETKEYSINSLOT", slot, 100);
            if keys.items().is_empty() {
                break;
            }
            for key in keys.items().iter().map(Value::text) {
                // It may have gone meanwhile.
                let answer = self.migrate_key(&key, from, to);
                assert!(
                    answer == "OK" || answer == "NOKEY",
                    "{key}: {answer:?}; {from} has {}, {to} has {}",
                    self.dump_of(&key, from),
                    self.dump_of(&key, to)
                );
            }
        }
        self.set_slot_owner(slot, from, to);
    }

    /// What a node has under this key while the slot moves, for those who read of it.
    #[track_caller]
    fn dump_of(&self, key: &str, node: usize) -> String {
        let mut client = self.client(node);
        let asking = args!["ASKING"];
        let all = client.pipeline(&[
            asking.clone(),
            args!["TYPE", key],
            asking.clone(),
            args!["GET", key],
            asking,
            args!["PTTL", key],
        ]);
        format!("{all:?}")
    }

    /// Returns once every node knows every other, and all call the cluster well.
    #[track_caller]
    pub fn wait_until_ok(&self) {
        let count = self.nodes.len().to_string();
        for node in &self.nodes {
            let mut client = node.client();
            eventually("the cluster is well in the view of all", || {
                let state = cmd!(client, "CLUSTER", "INFO").text();
                let has = |line: &str| state.lines().any(|other| other == line);
                has("cluster_state:ok")
                    && has(&format!("cluster_known_nodes:{count}"))
                    && has(&format!("cluster_slots_ok:{SLOTS}"))
                    && !cmd!(client, "CLUSTER", "NODES").text().contains("handshake")
            });
        }
    }

    /// A master that has not heard of it yet ignores the replica's request for a failover; one that
    /// the replica has no link to never gets it.
    #[track_caller]
    pub fn wait_until_known_as_replica(&self, replica: usize, master: usize) {
        let (replica, master) = (self.id_of(replica), self.id_of(master));
        let role = format!("slave {master} ");
        for node in &self.nodes {
            let mut client = node.client();
            eventually("every node knows the replica, and is linked to all", || {
                let nodes = cmd!(client, "CLUSTER", "NODES").text();
                !nodes.contains("disconnected")
                    && nodes.lines().any(|line| line.starts_with(&replica) && line.contains(&role))
            });
        }
    }

    fn introduce(&self, node: &Server) {
        let met = cmd!(self.client(0), "CLUSTER", "MEET", "127.0.0.1", node.port());
        assert_eq!(met, "OK");
    }

    #[track_caller]
    fn set_slot(&self, on: usize, slot: u16, state: &str, other: usize) {
        let answer = cmd!(self.client(on), "CLUSTER", "SETSLOT", slot, state, self.id_of(other));
        assert_eq!(answer, "OK", "SETSLOT {slot} {state} on node {on}");
    }
}

/// What a node says of itself: its own line of CLUSTER NODES ends with its slots.
fn owns(node: &Server, slot: u16) -> bool {
    let nodes = cmd!(node.client(), "CLUSTER", "NODES").text();
    let myself = nodes.lines().find(|line| line.contains("myself")).expect("a node knows itself");
    // Slots that move stand in brackets, which do not parse.
    myself.split_whitespace().skip(8).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&slot),
            _ => false,
        }
    })
}
