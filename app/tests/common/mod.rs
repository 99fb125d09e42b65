//! Code that the front-end tests share.

#![allow(dead_code)] // each test file uses its own part

pub mod home;
pub mod nbd_client;
pub mod ram;
pub mod recorded;
pub mod terminal;
pub mod tools;

use onefold::frontend::nbd::{Config, Limits, Listen, Server};
use ram::RamTarget;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
#[allow(unused_imports)] // each test file uses its own part
pub use tools::{Dice, have, may_mount, run, skipped};

/// The binary that is tested.
pub const BINARY: &str = env!("CARGO_BIN_EXE_onefold");

/// A directory of its own, mode 0700, which is removed when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("onefold-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server over memory, on a Unix socket.
pub struct Served {
    pub server: Server,
    pub target: Arc<RamTarget>,
    pub socket: PathBuf,
    // This field is last: it is dropped after the server.
    pub scratch: Scratch,
}

pub fn serve(target: RamTarget) -> Served {
    serve_with(target, Limits::default())
}

pub fn serve_with(target: RamTarget, limits: Limits) -> Served {
    let scratch = Scratch::new();
    let socket = scratch.path().join("s");
    let target = Arc::new(target);
    let config = Config { listen: Listen::Unix(socket.clone()), export: "disk".into(), limits };
    let server = Server::start(config, target.clone()).unwrap();
    Served { server, target, socket, scratch }
}

/// Runs `rude` while two well-behaved clients, one for each kind of reply, are active; all three must succeed.
pub fn beside_verified_load(served: &Served, rude: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let under_way = Barrier::new(3);
    std::thread::scope(|scope| {
        let loads = [(true, 0), (false, 16 << 20)].map(|(structured, start)| {
            let (stop, under_way) = (&stop, &under_way);
            scope.spawn(move || {
                let mut load = nbd_client::VerifiedLoad::new(&served.socket, structured, start, 8 << 20, start + 1);
                load.round();
                under_way.wait();
                while !stop.load(Ordering::Relaxed) {
                    load.round();
                }
                // A last round follows after the end.
                load.round();
            })
        });
        under_way.wait();
        // If `rude` panics, the loads must end, too, so that the panic is seen.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(rude));
        stop.store(true, Ordering::Relaxed);
        for load in loads {
            load.join().expect("the honest clients saw no error");
        }
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Returns the number of rounds of a test: the value of this variable, or `usual`.
///
/// # Panics
/// Panics if the variable is not a number.
pub fn rounds(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |message| message.parse().unwrap_or_else(|_| panic!("{variable}={message} is no number")))
}
