//! Server and supervisor, each of which sees to it that the other lives.
//!
//! A device that outlives its server needs a process that keeps what clients hold on to (a FUSE session, a listening socket) and starts
//! another server when one dies: the *supervisor* ([`watch`]). It does little, but it can be killed as well; then its server starts another
//! supervisor, which inherits the same descriptors and *adopts* the server ([`successor`]).
//!
//! 1. Whoever watches another process holds a pidfd of it that this process made itself, or that its parent made: no number is looked up,
//!    so none can be another's by now.
//! 2. What is kept is lost only when both processes are dead at one moment. A server is lent it before it does anything else, and watches
//!    its supervisor from then on, while it opens its volume too.
//! 3. An adopted server is no child: that it ended can be seen, how it ended can not. It leaves word of its end where it ends by itself;
//!    without that word it died.
//! 4. Deaths are replaced at a bounded rate ([`limit`]).

pub mod handover;
pub mod lent;
pub mod limit;
pub mod running;
pub mod signals;
pub mod start;
pub mod successor;
pub mod watch;
