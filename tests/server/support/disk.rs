//! A disk that fails, and is mended again.

use super::command::cmd;
use super::server::Server;
use super::setup::Setup;
use super::wait::eventually;
use std::fs;

/// Where the snapshot goes.
const FILE: &str = "taken";

impl Setup {
    /// Refuses writes when a snapshot has failed: [`Server::break_disk`].
    pub fn with_disk_that_fails(self) -> Setup {
        // Without a rule for saving the server does not mind that it can't.
        self.config(&format!("dbfilename {FILE}"))
            .config("stop-writes-on-bgsave-error yes")
            .config("save 360000 1000000")
    }
}

impl Server {
    /// From now on the server refuses writes.
    #[track_caller]
    pub fn break_disk(&self) {
        // The file can't be put where a folder with something in it is.
        _ = fs::remove_file(self.file(FILE));
        fs::create_dir_all(self.file(FILE).join("full")).unwrap();
        self.save("err");
    }

    #[track_caller]
    pub fn mend_disk(&self) {
        fs::remove_dir_all(self.file(FILE)).unwrap();
        self.save("ok");
    }

    #[track_caller]
    fn save(&self, status: &str) {
        assert!(!cmd!(self.client(), "BGSAVE").is_error(""));
        eventually("the background save is over", || {
            self.info("rdb_bgsave_in_progress") == "0"
                && self.info("rdb_last_bgsave_status") == status
        });
    }
}
