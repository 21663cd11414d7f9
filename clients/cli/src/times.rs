//! Lengths of time as they are written: 500ms, 30s, 5m, 1h, 1h30m.

use std::time::Duration;

/// A number and its unit, as often as it takes.
pub fn length(said: &str) -> Option<Duration> {
    let (mut rest, mut all) = (said, Duration::ZERO);
    while !rest.is_empty() || all.is_zero() {
        let unit = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, behind) = rest.split_at_checked(unit)?;
        let end = behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at_checked(end)?;
        let milliseconds: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let number: u64 = number.parse().ok()?;
        all = all.checked_add(Duration::from_millis(number.checked_mul(milliseconds)?))?;
        if next.is_empty() {
            return Some(all);
        }
        rest = next;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units() {
        for (said, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1s500ms", 1_500),
            ("2d", 172_800_000),
            ("0s", 0),
        ] {
            assert_eq!(length(said), Some(Duration::from_millis(milliseconds)), "{said}");
        }
        for wrong in
            ["", "30", "s", "-1s", "1.5s", "1 s", "1w", "1h30", "99999999999999999999s", "ü"]
        {
            assert_eq!(length(wrong), None, "{wrong}");
        }
    }
}
