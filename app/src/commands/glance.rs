//! `glance`: the process that reads superblocks of stores which may never answer, for `attachment::glance`.

use crate::attachment::glance::answer;
use crate::exit::{Failed, Outcome};
use crate::volume::peek;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    paths: Vec<PathBuf>,
}

/// A thread needs memory for a superblock and its decoding alone.
const STACK_BYTES: usize = 256 << 10;

/// Answers for each path as soon as it can.
///
/// # Errors
/// When the system has no more threads.
pub fn run(arguments: &Arguments) -> Outcome {
    // Whoever waits for the end of a pipe or a lock that the caller has, or wants to unmount its folder, is not to wait for a device.
    close_inherited();
    let _ = std::env::set_current_dir("/");
    let paths: Vec<PathBuf> = arguments.paths.clone();
    let out = Arc::new(Mutex::new(std::io::stdout()));
    let threads: Vec<_> = paths
        .into_iter()
        .enumerate()
        .map(|(number, path)| {
            let out = Arc::clone(&out);
            let read = move || {
                let mut text = Vec::new();
                let superblock = |path: &std::path::Path| peek(path).ok().map(|chosen| chosen.superblock);
                let _ = answer(number, &path, superblock, &mut text);
                let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = std::io::Write::write_all(&mut *out, &text).and_then(|()| std::io::Write::flush(&mut *out));
            };
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn(read)
        })
        .collect::<Result<_, _>>()
        .map_err(|e| Failed::system("cannot start a thread", e))?;
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}

/// Closes what this process has inherited besides its standard streams.
#[allow(unsafe_code)]
fn close_inherited() {
    // SAFETY: this process has opened nothing yet.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
}
