use crate::Error;
use crate::options::refuse;
use gethostname::gethostname;
use std::process;
use uuid::Uuid;

/// Whose name a hold is in.
#[derive(Clone)]
pub(crate) enum Owner {
    /// `host:pid:uuid`, which says who it is.
    Process,
    /// This and a UUID.
    Prefixed(Vec<u8>),
    /// This, for each request.
    Given(Vec<u8>),
}

const LONGEST: usize = 1_024;
const LONGEST_HOST: usize = 64;

/// A colon, and the UUID.
const UNIQUE: usize = 1 + uuid::fmt::Hyphenated::LENGTH;

impl Owner {
    /// A group comes first, with a colon after it.
    pub(crate) fn of_group(&self, group: Option<&[u8]>) -> Vec<u8> {
        let owner = self.for_one_request();
        let Some(group) = group else { return owner };
        let group = [group, b":"].concat();
        if owner.starts_with(&group) { owner } else { [group, owner].concat() }
    }

    fn for_one_request(&self) -> Vec<u8> {
        let prefix = match self {
            Owner::Given(owner) => return owner.clone(),
            Owner::Prefixed(prefix) => prefix.clone(),
            Owner::Process => {
                let mut host = gethostname().into_encoded_bytes();
                host.truncate(LONGEST_HOST);
                [host, format!(":{}", process::id()).into_bytes()].concat()
            }
        };
        [prefix, format!(":{}", Uuid::new_v4()).into_bytes()].concat()
    }

    /// Whether it may hold a lock before it asks for it.
    pub(crate) fn may_hold(&self) -> bool {
        matches!(self, Owner::Given(_))
    }
}

pub(crate) fn check(owner: &Owner) -> Result<(), Error> {
    match owner {
        Owner::Process => Ok(()),
        Owner::Prefixed(prefix) => refuse(
            !(1..=LONGEST - UNIQUE).contains(&prefix.len()),
            "a prefix of owners must be 1 to 987 bytes",
        ),
        Owner::Given(owner) => {
            refuse(!(1..=LONGEST).contains(&owner.len()), "an owner must be 1 to 1024 bytes")?;
            refuse(
                owner == b"*" || owner == b"@lock:shared",
                "an owner must not be * or @lock:shared, which mean something else to the server",
            )
        }
    }
}

pub(crate) fn check_group(group: &[u8], owner: &Owner) -> Result<(), Error> {
    refuse(group.is_empty() || group.contains(&b':'), "a group must have a name, without a colon")?;
    refuse(
        owner.of_group(Some(group)).len() > LONGEST,
        "a group and its owners must be 1024 bytes at most, with the colon between them",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_an_owner_of_its_own_that_says_who_it_is() {
        let two = [(); 2].map(|()| String::from_utf8(Owner::Process.for_one_request()).unwrap());
        assert_ne!(two[0], two[1]);
        let [uuid, pid, host] = two[0].rsplitn(3, ':').collect::<Vec<_>>()[..] else {
            panic!("{two:?}");
        };
        assert!(Uuid::parse_str(uuid).is_ok());
        assert_eq!(pid, process::id().to_string());
        assert!(gethostname().to_string_lossy().starts_with(host));
    }

    #[test]
    fn a_group_precedes_an_owner_once() {
        for owner in ["job-7", "ann:job-7"] {
            let owner = Owner::Given(owner.into());
            assert_eq!(owner.of_group(Some(b"ann")), b"ann:job-7");
        }
        assert_eq!(Owner::Given(b"job-7".into()).of_group(None), b"job-7");
    }

    #[test]
    fn the_longest_prefix_leaves_room_for_what_makes_it_unique() {
        let longest = Owner::Prefixed(vec![b'x'; 987]);
        check(&longest).unwrap();
        assert_eq!(longest.for_one_request().len(), LONGEST);
        assert!(check(&Owner::Prefixed(vec![b'x'; 988])).is_err());
    }
}
