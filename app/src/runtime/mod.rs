//! Steps 2 and 9 of a request's road: everything around the engine that has a thread, a clock or a descriptor.

pub mod ring;
