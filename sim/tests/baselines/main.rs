//! The rivals compared with a plain oracle, their counts with counts by hand, and the content of their devices after a power loss.

mod bench;
mod caftl;
mod client;
mod counts;
mod power_loss;
mod reads;
