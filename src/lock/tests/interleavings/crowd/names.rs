//! Thousands of owners.

use std::sync::OnceLock;

use crate::lock::tests::simulated::Owner;

const HOW_MANY: usize = 5000;

/// Their names, which last as long as the test.
pub fn all() -> &'static [Owner] {
    static ALL: OnceLock<Vec<Owner>> = OnceLock::new();
    ALL.get_or_init(|| {
        let names = (0..HOW_MANY).map(|at| &*Box::leak(at.to_string().into_boxed_str()));
        names.collect()
    })
}

/// Whose token is it?
pub fn owner_of(token: &[u8]) -> Owner {
    let at = str::from_utf8(token).ok().and_then(|at| at.parse().ok());
    let at: usize = at.expect("the name of one of them");
    all()[at]
}
