//! The medium, byte by byte; no decisions. `docs/format.md` is this module in prose, and a test compares the two.
