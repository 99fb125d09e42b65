//! The policy lab: indexes of fingerprints over the writes of a trace, at any size of memory.
//!
//! 1. A policy has a number of bytes for what it keeps of fingerprints in memory, and nothing else is counted: no buffers, no code.
//! 2. In-line it answers from memory. What it passes over is worked off later, in batches, with what it keeps on the medium.
//! 3. A match counts only if the block that it names still holds that content.
//! 4. Where a paper leaves something open, the policy that is compared with Onefold's gets the better reading; each file says which.

pub mod adapting;
pub mod austere;
pub mod caftl;
pub mod compact;
pub mod groups;
pub mod ideal_parts;
pub mod interface;
pub mod known;
pub mod lab;
pub mod naming;
pub mod part;
pub mod parts;
pub mod policy;
pub mod recency;
pub mod recent;
pub mod runs;
pub mod shares;
pub mod stored;
pub mod streams;
pub mod swept;
pub mod table;
pub mod writes;
