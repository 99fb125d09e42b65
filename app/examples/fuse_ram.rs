//! The FUSE front-end over a plain file (on /dev/shm, say), with its supervisor: to try it, to measure it, and to kill it.
//!
//! ```text
//! fuse_ram supervise TAG FILE [DEATHS]    serve FILE, print its block device, go on until that is detached
//! fuse_ram detach DEVICE                  the end
//! ```

#[path = "../tests/common/fuse_roles.rs"]
mod fuse_roles;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    fuse_roles::play(&arguments).unwrap_or_else(|| {
        eprintln!("usage: fuse_ram supervise TAG FILE [DEATHS] | detach DEVICE");
        ExitCode::FAILURE
    })
}
