//! The clients of one server, through a listening socket.

use super::listen::Listening;
use super::plan::Details;
use super::server::{Limits, Server};
use crate::exit::{Failed, Outcome};
use crate::frontend::door::{Clients, Ready};
use crate::runtime::Served;
use onefold_engine::interface::Event;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// The clients of a socket.
pub struct NbdClients {
    pub details: Details,
    /// The socket that a supervisor keeps; without one, this process makes a socket for itself.
    pub kept: Option<Listening>,
}

impl Clients for NbdClients {
    /// The end comes with the socket's, or with SIGTERM or SIGINT.
    fn watch_end(&self, stop: Sender<()>) -> Outcome {
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let cannot = |e| Failed::system("cannot start a thread", e);
        if let Some(kept) = &self.kept {
            let (kept, stop) = (kept.try_clone().map_err(|e| Failed::system("cannot copy a descriptor", e))?, stop.clone());
            let watch = move || {
                kept.wait_end();
                let _ = stop.send(());
            };
            thread("end of socket").spawn(watch).map_err(cannot)?;
        }
        let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| Failed::system("cannot watch for signals", e))?;
        let watch = move || {
            for signal in signals.forever() {
                tracing::info!(signal, "asked to end");
                let _ = stop.send(());
            }
        };
        thread("signals").spawn(watch).map(drop).map_err(cannot)
    }

    /// Connections end with their server, so an unanswered request never comes again.
    fn send_again(&self) -> bool {
        false
    }

    fn serve(self: Box<Self>, served: &Arc<dyn Served>, ready: Ready<'_>, stopped: &Receiver<()>) -> Outcome {
        let Details { listen, export, .. } = self.details;
        let listening = self.kept.map_or_else(|| Listening::at(&listen), Ok)?;
        let mut server = Server::start_on(listening, export, Limits::default(), served.clone().target())?;
        ready(&server.location())?;
        // The sender of the signals lives as long as the process.
        let _ = stopped.recv();
        served.order(Event::EndWaiting);
        if let Err(error) = server.stop() {
            tracing::warn!(%error, "the front-end did not end as it should");
        }
        Ok(())
    }
}
