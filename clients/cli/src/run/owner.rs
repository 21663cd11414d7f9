//! The owner: `host:pid:uuid`, which says where the command runs and is never used twice. With `--fair` the group comes
//! before it.

use std::fs::File;
use std::io::{self, Read};

const LONGEST_HOST: usize = 64;

/// A new one. The process is the one that the user started.
pub fn owner(group: Option<&str>, pid: u32) -> io::Result<String> {
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let host = nix::unistd::gethostname()?.to_string_lossy().into_owned();
    let host: String = host.chars().take(LONGEST_HOST).collect();
    let group = group.map(|group| format!("{group}:")).unwrap_or_default();
    Ok(format!("{group}{host}:{pid}:{}", uuid(random)))
}

/// Version 4: random except for the version and the variant.
fn uuid(random: [u8; 16]) -> String {
    let number = u128::from_be_bytes(random) & !(0xF << 76) & !(0x3 << 62) | 4 << 76 | 2 << 62;
    let digits = format!("{number:032x}");
    let mut parts = Vec::new();
    let mut rest = digits.as_str();
    for length in [8, 4, 4, 4, 12] {
        if let Some((part, behind)) = rest.split_at_checked(length) {
            parts.push(part);
            rest = behind;
        }
    }
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_says_who_it_is_and_is_never_used_again() {
        let two = [owner(None, 17).unwrap(), owner(None, 17).unwrap()];
        assert_ne!(two[0], two[1]);
        assert!(two[0].contains(":17:"));
        assert!(owner(Some("shop"), 17).unwrap().starts_with("shop:"));
        assert_eq!(uuid([0xFF; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}
