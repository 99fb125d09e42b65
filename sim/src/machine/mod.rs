//! The machines that the kit runs, by the one interface that they have, and what each reports of its own work.

pub mod account;
mod interface;
pub mod transcript;

pub use interface::{Machine, PlainHome, quietly};
