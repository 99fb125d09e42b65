//! Memory of requests and blocks under way: one pool for each target, within the budget that the accountant keeps.

pub mod arena;
pub mod pool;
