//! Content traces: the requests that a block device received, with their times and senders, and the fingerprints of what was written.

pub mod analyze;
pub mod beside;
pub mod content;
pub mod counted;
pub mod cut;
pub mod error;
pub mod folder;
pub mod header;
pub mod info;
mod mixing;
pub mod model;
pub mod partial_output;
pub mod record;
pub mod replay;
pub mod scan;
pub mod size;
pub mod source;
pub mod synth;
pub mod text;
pub mod transfer;
