//! Server and supervisor, which keep each other alive.
//!
//! A device that outlives its server needs a process that keeps what clients hold (a FUSE session, a listening socket) and starts another
//! server when one dies: the *supervisor* ([`watch`]). It does little, but it can be killed as well; then its server starts another
//! supervisor, which inherits the same descriptors and *adopts* the server ([`successor`]).
//!
//! 1. A process that watches another holds a pidfd of it that the other made itself, or that its parent made: no number is looked up, so
//!    none can belong to a third one by now.
//! 2. The kept descriptors are lost only when both processes are dead at one moment. A server inherits them before it does anything else,
//!    and watches its supervisor from then on, even while it opens its volume.
//! 3. An adopted server is no child: its supervisor sees that it ended, but not how. A server that ends by itself leaves a report of its
//!    end; without that report it died.
//! 4. Dead processes are replaced at a bounded rate ([`limit`]).

pub mod handover;
pub mod lent;
pub mod limit;
pub mod running;
pub mod signals;
pub mod start;
pub mod successor;
pub mod watch;
