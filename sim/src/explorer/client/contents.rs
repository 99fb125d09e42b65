//! The contents that clients write.

use crate::explorer::options::Options;
use crate::ground::content::{Shared, pattern};
use std::sync::LazyLock;

static HEAD: LazyLock<Shared> = LazyLock::new(|| pattern("head"));

/// Returns the name of a content of the alphabet.
#[must_use]
pub fn letter(i: u32) -> String {
    char::from_u32(u32::from('A') + i % 26).expect("a letter").to_string().repeat(1 + i as usize / 26)
}

/// If contents are to coincide, all but zeros begin with the same sector and differ after it.
pub(super) fn with_head(options: &Options, content: Shared) -> Shared {
    if options.coincide { content.patched(0, HEAD.sector(0)) } else { content }
}
