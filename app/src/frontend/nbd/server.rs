//! The server: it accepts clients, gives each its threads, and stops in order.

use super::connection::{Connection, End, Reader};
use super::listen::{Listen, Listening};
use super::negotiate::{Export, PAYLOAD_MAX, PREFERRED_BYTES, negotiate};
use super::outbox::Outbox;
use super::socket::{Socket, Timed};
use crate::error::Error;
use crate::target::SharedTarget;
use onefold_engine::units::index;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The options that the user chose.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: Listen,
    /// The export's name; clients that ask for the empty name get it too.
    pub export: String,
    pub limits: Limits,
}

/// The limits of one client, or of all of them.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest number of clients; further ones are sent away.
    pub connections_max: usize,
    /// The largest number of bytes of one connection's requests whose replies have not left; never more than twice the target's largest
    /// request. One request, or one piece of a longer one, may always be in flight. A client that does not take its replies keeps this much
    /// of the target's memory: the limit should leave others enough of what the target has for requests.
    pub in_flight_bytes_max: u64,
    /// The memory of one connection for what it receives, besides the target's buffers; never more than the target's largest request.
    pub receive_bytes: usize,
    /// The time for the whole handshake.
    pub handshake: Duration,
    /// The time that a client may pause in the middle of a message, or in taking its replies.
    pub stall: Duration,
    /// The time that a stopping server waits for clients to take their last replies.
    pub grace: Duration,
}

impl Limits {
    /// The limits for a machine with memory to spare.
    pub const DEFAULT: Self = Self {
        connections_max: 16,
        in_flight_bytes_max: 16 << 20,
        receive_bytes: 256 << 10,
        handshake: Duration::from_secs(10),
        stall: Duration::from_secs(30),
        grace: Duration::from_secs(5),
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A running NBD server.
pub struct Server {
    shared: Arc<Shared>,
    uri: String,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    listening: Listening,
    target: SharedTarget,
    export: Arc<Export>,
    limits: Limits,
    stopping: Arc<AtomicBool>,
    clients: Mutex<Clients>,
    client_left: Condvar,
}

#[derive(Default)]
struct Clients {
    next: u64,
    sockets: BTreeMap<u64, Arc<Socket>>,
}

impl Server {
    /// Serves `target` at an address of its own.
    ///
    /// # Errors
    /// When the address cannot be used; the message says what to do.
    pub fn start(config: Config, target: SharedTarget) -> Result<Self, Error> {
        Self::start_on(Listening::at(&config.listen)?, config.export, config.limits, target)
    }

    /// Returns the place where clients find it: an NBD URI.
    #[must_use]
    pub fn location(&self) -> String {
        self.uri.clone()
    }

    /// Takes no more requests, finishes those in flight, and disconnects its clients. A second call does nothing.
    ///
    /// # Errors
    /// When the socket could not be removed; the rest was done.
    ///
    /// # Panics
    /// When the thread that accepts clients has panicked.
    pub fn stop(&mut self) -> Result<(), Error> {
        let Some(accepting) = self.accepting.take() else { return Ok(()) };
        self.shared.listening.end();
        let removed = self.shared.listening.place().remove_file();
        self.shared.stopping.store(true, Ordering::Relaxed);
        accepting.join().expect("the accepting thread does not panic");
        self.shared.let_clients_go();
        removed
    }

    /// Serves `target` as `export` to the clients of a socket that is listening already.
    ///
    /// # Errors
    /// When no thread is available.
    ///
    /// # Panics
    /// When the target takes less than a block.
    pub fn start_on(listening: Listening, export: String, limits: Limits, target: SharedTarget) -> Result<Self, Error> {
        let info = target.info();
        let piece_max = u32::try_from(info.request_bytes_max).unwrap_or(u32::MAX).min(PAYLOAD_MAX);
        assert!(piece_max >= PREFERRED_BYTES && piece_max % PREFERRED_BYTES == 0, "a target takes whole blocks");
        let uri = listening.place().uri(&export);
        let in_flight_bytes_max = limits.in_flight_bytes_max.min(2 * u64::from(piece_max));
        let receive_bytes = limits.receive_bytes.min(index(u64::from(piece_max)));
        let shared = Arc::new(Shared {
            listening,
            target,
            export: Arc::new(Export {
                name: export,
                bytes: info.bytes,
                sector_bytes: info.sector_bytes,
                piece_max,
                read_only: info.read_only,
            }),
            limits: Limits { in_flight_bytes_max, receive_bytes, ..limits },
            stopping: Arc::default(),
            clients: Mutex::default(),
            client_left: Condvar::new(),
        });
        let mut server = Self { shared: Arc::clone(&shared), uri, accepting: None };
        let accepting = std::thread::Builder::new().name("nbd accept".into()).spawn(move || shared.accept());
        server.accepting = Some(accepting.map_err(|source| Error::System { what: "cannot start a thread".into(), source })?);
        Ok(server)
    }

    /// Returns the place where clients find it, with the port that the system chose.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::warn!(%error, "while stopping");
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>) {
        while self.listening.wait_client() {
            match self.listening.accept() {
                Ok(client) => {
                    if let Err(error) = self.welcome(client) {
                        tracing::warn!(%error, "a client was sent away");
                    }
                }
                Err(error) => {
                    // Out of descriptors or memory, or the client has left already: that is no reason to stop, nor to spin.
                    tracing::warn!(%error, "cannot accept a client");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        // Clients that came too late learn it at once.
        while self.listening.accept().is_ok() {}
    }

    fn welcome(self: &Arc<Self>, client: OwnedFd) -> std::io::Result<()> {
        // Replies are coalesced here; a Unix socket needs no setting.
        let _ = sockopt::set_tcp_nodelay(&client, true);
        let socket = Arc::new(Socket::new(client, self.limits.stall)?);
        let mut clients = self.clients();
        let deadline = Instant::now() + LEAVING;
        while clients.sockets.len() >= self.limits.connections_max {
            // A client that has left makes room as soon as its thread has noticed.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !clients.sockets.values().any(|socket| socket.is_over()) {
                return Err(std::io::Error::other(format!("{} clients are connected", clients.sockets.len())));
            }
            clients = self.client_left.wait_timeout(clients, left).expect("no holder panics").0;
        }
        let id = clients.next;
        clients.next += 1;
        clients.sockets.insert(id, Arc::clone(&socket));
        drop(clients);

        let presence = Presence { shared: Arc::clone(self), id };
        std::thread::Builder::new().name(format!("nbd reader {id}")).spawn(move || {
            presence.shared.serve(id, &socket);
            // The socket is closed before the client counts as gone.
            drop(socket);
            drop(presence);
        })?;
        Ok(())
    }

    fn serve(&self, id: u64, socket: &Arc<Socket>) {
        let mut timed = Timed::new(socket, self.limits.handshake);
        let agreement = match negotiate(&mut timed, &self.export) {
            Ok(Some(agreement)) => agreement,
            Ok(None) => return,
            Err(refusal) => {
                tracing::info!(client = id, %refusal, "no agreement");
                socket.linger(GOODBYE);
                return;
            }
        };
        if timed.finish(self.limits.stall).is_err() {
            return;
        }
        let outbox = Arc::new(Outbox::new(Arc::clone(socket), self.limits.in_flight_bytes_max));
        let sending = Arc::clone(&outbox);
        let writer = std::thread::Builder::new().name(format!("nbd writer {id}")).spawn(move || sending.write_all());
        let Ok(writer) = writer else {
            tracing::warn!(client = id, "no thread for its replies");
            return;
        };
        let connection = Connection {
            socket: Arc::clone(socket),
            outbox: Arc::clone(&outbox),
            target: Arc::clone(&self.target),
            export: Arc::clone(&self.export),
            agreement,
            stopping: Arc::clone(&self.stopping),
            stall: self.limits.stall,
        };
        let ending = Ending(outbox);
        let end = Reader::new(connection, self.limits.receive_bytes).run();
        drop(ending);
        writer.join().expect("the writing thread does not panic");
        match &end {
            End::Left | End::Stopped => tracing::debug!(client = id, %end, "done"),
            _ => tracing::info!(client = id, %end, "closed"),
        }
        if end.leaves_bytes() {
            socket.linger(GOODBYE);
        }
    }

    /// Answers clients' requests in flight; disconnects clients that do not take their answers when the grace is over.
    fn let_clients_go(&self) {
        let deadline = Instant::now() + self.limits.grace;
        let mut clients = self.clients();
        for socket in clients.sockets.values() {
            socket.shut_receiving();
        }
        while !clients.sockets.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                for socket in clients.sockets.values() {
                    socket.shut();
                }
                clients = self.client_left.wait(clients).expect("no holder panics");
            } else {
                clients = self.client_left.wait_timeout(clients, left).expect("no holder panics").0;
            }
        }
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().expect("no holder panics")
    }
}

/// The time that a new client waits for one that is leaving.
const LEAVING: Duration = Duration::from_secs(1);
/// The time that a rejected client has to receive the reason.
const GOODBYE: Duration = Duration::from_millis(500);

/// Ends the writer, however the reader ended.
struct Ending(Arc<Outbox>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A guard that counts a client for as long as it lives, however the client's thread ends.
struct Presence {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(socket) = self.shared.clients().sockets.remove(&self.id) {
            socket.shut();
        }
        self.shared.client_left.notify_all();
    }
}
