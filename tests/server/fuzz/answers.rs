//! What may be answered. Errors are of a known family; a defect of ours is none.

use crate::support::*;

const FAMILIES: [&str; 19] = [
    "ERR",
    "WRONGTYPE",
    "NOTOWNER",
    "DEADLOCK",
    "QUEUEFULL",
    "TOOCOMPLEX",
    "NOUPGRADE",
    "ONEWAIT",
    "REPLACED",
    "EXECABORT",
    "UNBLOCKED",
    "NOPROTO",
    "OOM",
    "READONLY",
    "NOPERM",
    "NOAUTH",
    "CROSSSLOT",
    "NOSCRIPT",
    "NOREPLICAS",
];

/// The first error in the answer that should not have been given.
pub fn fault(answer: &Value) -> Option<String> {
    match answer {
        Value::Error(text) => {
            let family = text.split(' ').next().unwrap_or_default();
            let is_known = FAMILIES.contains(&family) && !text.contains("defect");
            (!is_known || text.contains("panic")).then(|| text.clone())
        }
        Value::Array(items) => items.iter().find_map(fault),
        _ => None,
    }
}
