//! The set checker of lives with a log says each thing that it is there to say: units, pages, superblocks and content written by hand.

mod anchors;
mod bench;
mod fua;
mod pages;
mod reuse;
mod units;
