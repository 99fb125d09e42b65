//! Superblocks of stores that may lie on any device. A device that never answers keeps the process that reads it, whatever signal
//! comes; so another process reads them, all at once, and it is left behind when the time is over.

use super::launch::itself;
use onefold_engine::format::Superblock;
use onefold_engine::units::BLOCK_SIZE;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The verb of the other process.
pub const VERB: &str = "glance";

/// The time that a store has to answer, and the time that the others have once one was found that is looked for.
const BOUND: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_millis(250);

/// The result of a glance at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Glance {
    /// A volume, by this canonical path.
    Volume(PathBuf, Box<Superblock>),
    NoVolume,
    /// There is nothing of this name.
    Missing,
    /// It has not answered in time.
    Silent,
}

/// The beginning of an answer; a superblock follows where there is a volume.
#[derive(Serialize, Deserialize)]
struct Header {
    /// The number of the path among those that were asked for.
    number: usize,
    path: PathBuf,
    is_there: bool,
    is_volume: bool,
}

/// The processes that were left behind, with the paths that had not answered: nobody is sent after them again.
static LEFT_BEHIND: Mutex<Vec<(Child, Vec<PathBuf>)>> = Mutex::new(Vec::new());

/// Looks at these paths, and returns what is there, in the same order. It ends early when a volume was found that `fits`.
#[must_use]
pub fn look(paths: &[PathBuf], fits: impl Fn(&Superblock) -> bool) -> Vec<Glance> {
    let mut left = LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain_mut(|(child, _)| matches!(child.try_wait(), Ok(None)));
    let mut seen = vec![Glance::Silent; paths.len()];
    let asked: Vec<usize> = (0..paths.len()).filter(|&n| !left.iter().any(|(_, silent)| silent.contains(&paths[n]))).collect();
    if asked.is_empty() {
        return seen;
    }
    let mut start = itself();
    start.arg(VERB).args(asked.iter().map(|&n| &paths[n]));
    // It may outlive this process: it holds nothing that somebody could wait for.
    let Ok(mut child) = start.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else { return seen };
    let answers = child.stdout.take().map(heard);
    let (mut until, mut missing) = (Instant::now() + BOUND, asked.len());
    while let Some((number, glance)) =
        answers.as_ref().filter(|_| missing > 0).and_then(|a| a.recv_timeout(until.saturating_duration_since(Instant::now())).ok())
    {
        if matches!(&glance, Glance::Volume(_, superblock) if fits(superblock)) {
            until = until.min(Instant::now() + GRACE);
        }
        if let Some(&n) = asked.get(number) {
            (seen[n], missing) = (glance, missing - 1);
        }
    }
    let _ = child.kill();
    if missing == 0 {
        let _ = child.wait();
    } else {
        let silent = asked.iter().filter(|&&n| seen[n] == Glance::Silent).map(|&n| paths[n].clone()).collect();
        left.push((child, silent));
    }
    seen
}

/// Returns the superblock of a volume at `path`, if it answers in time.
#[must_use]
pub fn superblock(path: &Path) -> Option<Superblock> {
    match look(&[path.to_path_buf()], |_| false).pop() {
        Some(Glance::Volume(_, superblock)) => Some(*superblock),
        _ => None,
    }
}

/// Passes the answers of the other process on, each with its number, as long as somebody listens.
fn heard(from: ChildStdout) -> Receiver<(usize, Glance)> {
    let (tell, hear) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        while let Some(answer) = read(&mut from) {
            if tell.send(answer).is_err() {
                return;
            }
        }
    });
    hear
}

fn read(from: &mut impl BufRead) -> Option<(usize, Glance)> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    let Header { number, path, is_there, is_volume } = serde_json::from_str(&line).ok()?;
    if !is_volume {
        return Some((number, if is_there { Glance::NoVolume } else { Glance::Missing }));
    }
    let mut page = [0; BLOCK_SIZE];
    from.read_exact(&mut page).ok()?;
    let superblock = Superblock::decode(&page, 0).ok()?;
    Some((number, Glance::Volume(path, Box::new(superblock))))
}

/// Says what is at a path: the answer of the other process. `peek` reads its superblock.
///
/// # Errors
/// When nobody listens any more.
pub fn answer(number: usize, path: &Path, peek: impl FnOnce(&Path) -> Option<Superblock>, to: &mut impl Write) -> std::io::Result<()> {
    let canonical = path.canonicalize().ok();
    let superblock = canonical.as_deref().and_then(peek);
    let is_there = canonical.is_some();
    let header = Header { number, path: canonical.unwrap_or_default(), is_there, is_volume: superblock.is_some() };
    let mut bytes = serde_json::to_vec(&header)?;
    bytes.push(b'\n');
    if let Some(superblock) = superblock {
        let mut page = [0; BLOCK_SIZE];
        superblock.encode(0, &mut page);
        bytes.extend(page);
    }
    to.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::fingerprint::Algorithm;
    use onefold_engine::format::{Geometry, Wish};
    use onefold_engine::settings::Settings;
    use onefold_engine::units::Bytes;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let geometry = Geometry::plan(Bytes(32 << 20), &Wish::default()).unwrap();
        let superblock = Superblock::new(geometry, [7; 16], [8; 32], Algorithm::Blake3, &Settings::default());
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let mut bytes = Vec::new();
        answer(3, &here, |_| Some(superblock.clone()), &mut bytes).unwrap();
        answer(4, &here, |_| None, &mut bytes).unwrap();
        answer(5, Path::new("/nowhere/at/all"), |_| panic!("there is nothing to look at"), &mut bytes).unwrap();
        let mut from = bytes.as_slice();
        let answers: Vec<_> = std::iter::from_fn(|| read(&mut from)).collect();
        let volume = Glance::Volume(here, Box::new(superblock));
        assert_eq!(answers, [(3, volume), (4, Glance::NoVolume), (5, Glance::Missing)]);
    }
}
