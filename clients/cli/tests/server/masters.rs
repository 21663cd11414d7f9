//! The master of a name that Sentinels know, and that of a slot of a cluster.

use crate::support::{Running, Server, eventually, free_port, redis_lock};
use redis::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

/// Says that the master `shop` is at this port, until another is promoted.
pub struct Sentinel {
    port: u16,
    master: Arc<AtomicU16>,
}

impl Sentinel {
    pub fn start(master: u16) -> Sentinel {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let master = Arc::new(AtomicU16::new(master));
        let at = Arc::clone(&master);
        thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                let at = Arc::clone(&at);
                thread::spawn(move || {
                    let mut bytes = [0; 1_024];
                    while client.read(&mut bytes).is_ok_and(|length| length > 0) {
                        let port = at.load(Ordering::Relaxed).to_string();
                        let reply =
                            format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
                        if client.write_all(reply.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Sentinel { port, master }
    }

    pub fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{}/shop", self.port)
    }

    pub fn promotes(&self, master: u16) {
        self.master.store(master, Ordering::Relaxed);
    }
}

pub fn replica_of(master: &Server) -> Server {
    let replica = Server::with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    eventually("the replica has caught up, and the master knows", || {
        let info: String = replica.say(&["INFO", "replication"]);
        let of_master: String = master.say(&["INFO", "replication"]);
        let is_up = info.contains("master_link_status:up") && of_master.contains("state=online");
        (is_up, info + &of_master)
    });
    replica
}

#[test]
fn a_hold_goes_on_with_the_replica_that_is_promoted() {
    let mut master = Server::start();
    let replica = replica_of(&master);
    let sentinel = Sentinel::start(master.port);
    let script = "echo up >up; until [ -e end ]; do sleep 0.05; done; exit 6";
    let mut job = Running::start(&sentinel.url(), &["k", "--ttl", "9s"], script);
    job.writes("up");
    let _: u64 = master.say(&["WAIT", "1", "5000"]);
    master.stop();
    let _: String = replica.say(&["REPLICAOF", "NO", "ONE"]);
    sentinel.promotes(replica.port);
    eventually("it is renewed there", || {
        let info: String = replica.say(&["INFO", "lock"]);
        let none = info.lines().any(|line| line == "lock_renewed_total:0");
        (!none, format!("{info}{}", job.read("stderr")))
    });
    std::fs::write(job.folder.path().join("end"), "").unwrap();
    assert_eq!((job.ends(), job.read("stderr").as_str()), (6, ""));
    let left: u64 = replica.say(&["EXISTS", "k"]);
    assert_eq!(left, 0);
}

#[test]
fn a_master_that_became_a_replica_is_left() {
    let master = Server::start();
    let other = replica_of(&master);
    let sentinel = Sentinel::start(master.port);
    let script = "echo up >up; until [ -e end ]; do sleep 0.05; done; exit 6";
    let mut job = Running::start(&sentinel.url(), &["k", "--ttl", "20s"], script);
    job.writes("up");
    eventually("the replica has it", || {
        let there: u64 = other.say(&["EXISTS", "k"]);
        (there == 1, there.to_string())
    });
    let _: String = other.say(&["REPLICAOF", "NO", "ONE"]);
    let _: String = master.say(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
    sentinel.promotes(other.port);
    eventually("it is renewed at the other", || {
        let info: String = other.say(&["INFO", "lock"]);
        let none = info.lines().any(|line| line == "lock_renewed_total:0");
        (!none, info)
    });
    std::fs::write(job.folder.path().join("end"), "").unwrap();
    assert_eq!(job.ends(), 6);
}

#[test]
fn real_sentinels_say_where_the_master_is() {
    let master = Server::start();
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("sentinel.conf");
    let line = format!("sentinel monitor shop 127.0.0.1 {} 1\nrequirepass hush\n", master.port);
    std::fs::write(&file, line).unwrap();
    let sentinel = Server::sentinel(&file, "hush");
    let url = format!("redis+sentinel://:hush@127.0.0.1:{}/shop", sentinel.port);
    // The servers have that password too.
    let _: String = master.say(&["ACL", "SETUSER", "default", ">hush"]);
    let said = redis_lock(&url, &["run", "k", "--", "echo", "up"]).output().unwrap();
    assert_eq!(said.stdout, b"up\n", "{}", String::from_utf8_lossy(&said.stderr));
    let unknown = url.replace("/shop", "/stock");
    let said = redis_lock(&unknown, &["who", "k"]).output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(text.contains("no Sentinel knows the master stock"), "{text}");
}

/// Two masters with half of the slots each.
fn cluster() -> [Server; 2] {
    let nodes = [(); 2].map(|()| {
        let bus = free_port().to_string();
        let words = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        Server::with(&[&words[..], &["--cluster-node-timeout", "2000"]].concat())
    });
    let _: String = nodes[0].say(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
    let _: String = nodes[1].say(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
    let (port, bus) = (nodes[1].port.to_string(), nodes[1].bus());
    let _: String = nodes[0].say(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    for node in &nodes {
        eventually("the cluster is whole", || {
            let info: String = node.say(&["CLUSTER", "INFO"]);
            (info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384"), info)
        });
    }
    nodes
}

#[test]
fn in_a_cluster_a_hold_and_a_wait_go_on_with_the_replica_that_takes_over() {
    let mut nodes = [(); 2].map(|()| {
        let bus = free_port().to_string();
        let words = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        Server::with(&[&words[..], &["--cluster-node-timeout", "2000"]].concat())
    });
    let _: String = nodes[0].say(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let (port, bus) = (nodes[1].port.to_string(), nodes[1].bus());
    let _: String = nodes[0].say(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    let id: String = nodes[0].say(&["CLUSTER", "MYID"]);
    eventually("it knows its master", || {
        let slots: String = nodes[1].say(&["CLUSTER", "INFO"]);
        (slots.contains("cluster_slots_ok:16384"), slots)
    });
    let _: String = nodes[1].say(&["CLUSTER", "REPLICATE", &id]);
    eventually("it has a replica", || {
        let info: String = nodes[1].say(&["INFO", "replication"]);
        let slots = format!("{:?}", nodes[0].say::<Value>(&["CLUSTER", "SLOTS"]));
        (info.contains("master_link_status:up") && slots.contains(&port), info + &slots)
    });
    let script = "echo up >up; until [ -e end ]; do sleep 0.05; done; exit 6";
    let mut job = Running::start(&nodes[0].url(), &["k", "--ttl", "9s"], script);
    job.writes("up");
    let mut next = Running::start(&nodes[0].url(), &["k", "--ttl", "9s"], "exit 7");
    eventually("it waits", || {
        let info: String = nodes[0].say(&["INFO", "lock"]);
        (info.contains("lock_waiters:1"), info)
    });
    let _: u64 = nodes[0].say(&["WAIT", "1", "5000"]);
    nodes[0].stop();
    let _: String = nodes[1].say(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    eventually("it is renewed there", || {
        let info: String = nodes[1].say(&["INFO", "lock"]);
        let none = info.lines().any(|line| line == "lock_renewed_total:0");
        (!none, format!("{info}{}", job.read("stderr")))
    });
    std::fs::write(job.folder.path().join("end"), "").unwrap();
    assert_eq!((job.ends(), job.read("stderr").as_str()), (6, ""));
    eventually("the next has it", || {
        let info: String = nodes[1].say(&["CLUSTER", "INFO"]);
        let lock = format!("{:?}", nodes[1].say::<Value>(&["LOCK.INFO", "k"]));
        let slots = format!("{:?}", nodes[1].say::<Value>(&["CLUSTER", "SLOTS"]));
        let nodes: String = nodes[1].say(&["CLUSTER", "NODES"]);
        let is_over = next.process.try_wait().unwrap().is_some();
        (is_over, format!("{info}{lock}{slots}{nodes}"))
    });
    assert_eq!(next.ends(), 7);
}

#[test]
fn in_a_cluster_each_lock_is_acquired_and_shown_where_it_belongs() {
    let nodes = cluster();
    // foo is in the upper half, bar in the lower.
    for key in ["foo", "bar"] {
        let job = Running::start(&nodes[0].url(), &[key, "--ttl", "1s"], "echo up >up; sleep 600");
        job.writes("up");
        let at = if key == "foo" { &nodes[1] } else { &nodes[0] };
        let info: Value = at.say(&["LOCK.INFO", key]);
        assert_ne!(info, Value::Nil, "{key}");
        for node in &nodes {
            let said = redis_lock(&node.url(), &["who", key]).output().unwrap();
            assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
            let said = redis_lock(&node.url(), &["ls", "--json"]).output().unwrap();
            assert!(String::from_utf8_lossy(&said.stdout).contains(&format!("\"key\":\"{key}\"")));
        }
        let said = redis_lock(&nodes[0].url(), &["break", key]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), format!("{key}: 1 hold ended\n"));
        let mut job = job;
        assert_eq!(job.ends(), 76);
    }
}
