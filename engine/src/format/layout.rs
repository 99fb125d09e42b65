//! Structures as lists of fields, from which every offset follows.
//!
//! `docs/format.md` shows the same lists as tables; a test compares them.

mod field;

pub(super) use field::layout;
pub use field::{Field, Layout};
