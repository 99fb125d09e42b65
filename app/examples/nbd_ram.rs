//! Serves memory over NBD, to try the front-end and to measure it alone:
//!
//! `cargo run --release --example nbd_ram -- ADDRESS [MIB] [inline|worker]`
//!
//! `inline` (the default) answers on the receiving threads, `worker` on one thread of its own, as an engine does. Ends with its input, and
//! then prints how many requests came in how many batches.

use onefold::frontend::nbd::{Config, Limits, Server};
use onefold::target::SharedTarget;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[allow(dead_code)] // tests use the rest
#[path = "../tests/common/ram.rs"]
mod ram;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let listen = arguments.next().ok_or("usage: nbd_ram ADDRESS [MIB] [inline|worker]")?.parse()?;
    let mib: u64 = arguments.next().map_or(Ok(1024), |typed| typed.parse())?;
    let target = ram::RamTarget::new(mib << 20).filled();
    let target = Arc::new(if arguments.next().as_deref() == Some("worker") { target.with_worker() } else { target });

    let shared: SharedTarget = target.clone();
    let mut server = Server::start(Config { listen, export: String::new(), limits: Limits::default() }, shared)?;
    println!("{}", server.uri());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    server.stop()?;
    println!("{} requests in {} batches", target.requests.load(Ordering::Relaxed), target.batches.load(Ordering::Relaxed));
    Ok(())
}
