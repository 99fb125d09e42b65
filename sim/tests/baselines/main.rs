//! The rivals against a plain oracle, their counts against counts by hand, and what they leave on the device when the power goes.

mod bench;
mod client;
mod counts;
mod cuts;
mod reads;
