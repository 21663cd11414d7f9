//! Groups that share a semaphore.

use crate::support::{Running, Server, eventually};

const UNTIL_END: &str = "echo $LOCK_OWNER >owner; until [ -e end ]; do sleep 0.05; done";

fn end(job: &mut Running) {
    std::fs::write(job.folder.path().join("end"), "").unwrap();
    assert_eq!((job.ends(), job.read("stderr").as_str()), (0, ""));
}

#[test]
fn of_groups_that_wait_the_one_with_fewer_holders_is_next_and_owners_begin_with_theirs() {
    let server = Server::start();
    let start = |group: &str| {
        let words = ["seats", "--limit", "2", "--fair", group];
        Running::start(&server.url(), &words, UNTIL_END)
    };
    let mut first = start("shop");
    assert!(first.writes("owner").starts_with("shop:"));
    let mut second = start("shop");
    second.writes("owner");
    let mut waiting = Vec::new();
    for (place, group) in ["shop", "bank"].into_iter().enumerate() {
        waiting.push(start(group));
        eventually("it waits", || {
            let info: String = server.say(&["INFO", "lock"]);
            (info.contains(&format!("lock_waiters:{}", place + 1)), info)
        });
    }
    end(&mut first);
    assert!(waiting[1].writes("owner").starts_with("bank:"));
    assert_eq!(waiting[0].read("owner"), "");
    end(&mut second);
    assert!(waiting[0].writes("owner").starts_with("shop:"));
    waiting.iter_mut().for_each(end);
}
