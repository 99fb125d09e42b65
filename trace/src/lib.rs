//! Content traces: the requests that a block device received, with their times and senders, and the fingerprints of what was written.
//!
//! Without the feature `parquet` there are recordings ([`recording`]) and text alone: a recorder needs no more.

pub mod analyze;
pub mod beside;
pub mod content;
pub mod counted;
pub mod cut;
pub mod error;
#[cfg(feature = "parquet")]
pub mod folder;
pub mod header;
pub mod info;
mod mixing;
pub mod model;
pub mod partial_output;
pub mod record;
pub mod recording;
pub mod replay;
pub mod scan;
pub mod size;
#[cfg(feature = "parquet")]
pub mod source;
pub mod synth;
pub mod text;
#[cfg(feature = "parquet")]
pub mod transfer;
