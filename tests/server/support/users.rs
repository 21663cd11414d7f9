//! Clients that may not do everything.

use super::{Client, Server, args, cmd, words};

impl Server {
    /// A client of a user with these rules and no others.
    #[track_caller]
    pub fn as_user(&self, rules: &str) -> Client {
        let rule = args!["ACL", "SETUSER", "user", "reset", "on", "nopass"];
        let answer = self.client().run(&[rule, words(rules)].concat());
        assert_eq!(answer, "OK", "{rules}");
        let mut client = self.client();
        assert_eq!(cmd!(client, "AUTH", "user", "any"), "OK");
        client
    }
}
