//! Where a cluster puts a key: hash tags and slots.

use std::collections::BTreeSet;

/// How many slots a cluster has.
pub const SLOTS: Slot = 16_384;

pub type Slot = u16;

/// That of a key which is not in a cluster.
pub const NO_SLOT: Slot = Slot::MAX;

pub type Slots = BTreeSet<Slot>;

/// Returns the part of the key that decides its slot: what is between the first `{` and the next `}`, or
/// the whole key if there are no such braces or nothing is between them.
pub fn hashed_part(key: &[u8]) -> &[u8] {
    tag(key).unwrap_or(key)
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let inner = key.get(open.saturating_add(1)..)?;
    let close = inner.iter().position(|&byte| byte == b'}')?;
    inner.get(..close).filter(|tag| !tag.is_empty())
}

/// Are these two keys in the same slot?
pub fn is_shared(one: &[u8], other: &[u8]) -> bool {
    // They usually have the same hash tag: then no hash is computed.
    hashed_part(one) == hashed_part(other) || of(one) == of(other)
}

pub fn of(key: &[u8]) -> Slot {
    crc16(hashed_part(key)) % SLOTS
}

/// CRC-16/XMODEM, bit by bit: it is computed only in a cluster.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_a_cluster_computes() {
        // From CLUSTER KEYSLOT of a real server.
        for (key, slot) in [
            ("", 0),
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{user1000}.following", 3_443),
            ("{user1000}.followers", 3_443),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("foo{bar}{zap}", 5_061),
        ] {
            assert_eq!(of(key.as_bytes()), slot, "{key}");
        }
    }
}
