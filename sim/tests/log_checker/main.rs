//! The set checker of lives with a log reports each violation that it can detect: units, pages, superblocks and content written by hand.

mod bench;
mod fua;
mod pages;
mod reuse;
mod superblocks;
mod units;
