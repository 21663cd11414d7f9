//! The messages between the two processes, one per line.

use std::time::Duration;

/// From the keeper.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A message for the user.
    Say(String),
    /// The lock is held until then at least, by this owner; with this token, if the server has the module.
    Granted {
        /// When the hold ends unless it is renewed.
        ends: Duration,
        /// The owner.
        owner: String,
        /// The fencing token.
        fence: Option<u64>,
    },
    /// Others hold it, and the wait is over. Not shown if the user didn't want to wait.
    Busy(String),
    /// It can't be acquired.
    Refused(String),
    /// The hold was renewed until then.
    Ends(Duration),
    /// The hold is lost.
    Lost(String),
    /// The last message: was it held until now?
    Over(bool),
}

impl News {
    /// As a line.
    pub fn line(&self) -> String {
        let flat = |text: &str| text.replace(['\r', '\n'], " ");
        match self {
            News::Say(text) => format!("say {}\n", flat(text)),
            News::Granted { ends, owner, fence } => {
                let fence = fence.map_or("-".to_owned(), |fence| fence.to_string());
                format!("granted {} {fence} {}\n", ends.as_nanos(), flat(owner))
            }
            News::Busy(text) => format!("busy {}\n", flat(text)),
            News::Refused(text) => format!("refused {}\n", flat(text)),
            News::Ends(ends) => format!("ends {}\n", ends.as_nanos()),
            News::Lost(why) => format!("lost {}\n", flat(why)),
            News::Over(was_held) => format!("over {}\n", u8::from(*was_held)),
        }
    }

    /// None if the line is not one of these.
    pub fn read(line: &str) -> Option<News> {
        let (verb, rest) = line.split_once(' ')?;
        let time = |text: &str| text.parse().ok().map(Duration::from_nanos);
        Some(match verb {
            "say" => News::Say(rest.to_owned()),
            "granted" => {
                let mut words = rest.splitn(3, ' ');
                let ends = words.next().and_then(time)?;
                let fence = words.next()?.parse().ok();
                News::Granted { ends, owner: words.next()?.to_owned(), fence }
            }
            "busy" => News::Busy(rest.to_owned()),
            "refused" => News::Refused(rest.to_owned()),
            "ends" => News::Ends(time(rest)?),
            "lost" => News::Lost(rest.to_owned()),
            "over" => News::Over(rest == "1"),
            _ => return None,
        })
    }
}

/// To the keeper. The end of its standard input means that the first process is gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// The process group of the command.
    Group(i32),
    /// The last `Ends` was received, the next can be sent. So they don't pile up while the first process is stopped.
    Heard,
    /// The command has ended: release the lock.
    Done,
}

impl Order {
    /// As a line.
    pub fn line(self) -> String {
        match self {
            Order::Group(pid) => format!("group {pid}\n"),
            Order::Heard => "heard\n".to_owned(),
            Order::Done => "done\n".to_owned(),
        }
    }

    /// None if the line is not one of these.
    pub fn read(line: &str) -> Option<Order> {
        match line.split_once(' ') {
            Some(("group", pid)) => pid.parse().ok().map(Order::Group),
            None if line == "heard" => Some(Order::Heard),
            None if line == "done" => Some(Order::Done),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_is_read() {
        let ends = Duration::from_nanos(12_345_678_901_234_567);
        for news in [
            News::Say("words".to_owned()),
            News::Granted { ends, owner: "a host:1:u".to_owned(), fence: Some(17) },
            News::Granted { ends, owner: "h:1:u".to_owned(), fence: None },
            News::Busy(String::new()),
            News::Refused("NOPERM no".to_owned()),
            News::Ends(ends),
            News::Lost("why".to_owned()),
            News::Over(true),
            News::Over(false),
        ] {
            assert_eq!(News::read(news.line().trim_end_matches('\n')), Some(news));
        }
        for order in [Order::Group(17), Order::Heard, Order::Done] {
            assert_eq!(Order::read(order.line().trim_end()), Some(order));
        }
    }

    #[test]
    fn no_text_breaks_a_line() {
        let said = News::Say("two\r\nlines".to_owned()).line();
        assert_eq!(said.matches('\n').count(), 1);
    }
}
