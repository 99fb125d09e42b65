//! The existing content of a backing store, so that nothing is formatted over by mistake.

use super::backing::Backing;
use super::facts::Kind;
use onefold_engine::buffer::BufferMut;
use onefold_engine::units::{BLOCK_BYTES, count};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// The number of bytes at either end of a file that show whether it holds anything.
const LOOK_BYTES: u64 = 1 << 20;

/// Returns what `blkid` recognises on `path`, in its words ("ext4 file system"); none where it recognises nothing or is not installed.
#[must_use]
pub fn recognised(path: &Path) -> Option<String> {
    let output = ["blkid", "/sbin/blkid", "/usr/sbin/blkid"].iter().find_map(|program| {
        // Low-level, with partition tables, uncached.
        let mut command = Command::new(program);
        command.args(["-p", "-o", "export", "--"]).arg(path).stdin(Stdio::null()).stderr(Stdio::null());
        command.output().ok()
    })?;
    // 2: nothing found. 8: several things found at once, which counts as content.
    match output.status.code() {
        Some(8) => Some("several file systems or partition tables at once".to_owned()),
        Some(0) => describe(&String::from_utf8_lossy(&output.stdout)),
        _ => None,
    }
}

fn describe(export: &str) -> Option<String> {
    let value = |key: &str| export.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let label = value("LABEL").map(|label| format!(" labelled '{label}'")).unwrap_or_default();
    if let Some(kind) = value("TYPE") {
        let usage = match value("USAGE") {
            Some("filesystem") => " file system",
            Some("raid") => " array member",
            Some("crypto") => " encrypted volume",
            _ => "",
        };
        return Some(format!("{kind}{usage}{label}"));
    }
    value("PTTYPE").map(|table| format!("{table} partition table"))
}

/// Whether a file holds anything but zeros near its ends. A block device is not examined: used ones always hold something.
///
/// # Errors
/// When it cannot be read.
pub fn holds_data(backing: &Backing) -> io::Result<bool> {
    let facts = backing.facts();
    if facts.kind == Kind::Block {
        return Ok(false);
    }
    if facts.length < BLOCK_BYTES {
        return Ok(facts.length > 0);
    }
    let length = facts.length / BLOCK_BYTES * BLOCK_BYTES;
    let mut buffer = BufferMut::zeroed(64);
    let step = count(buffer.bytes().len());
    let mut at = 0;
    while at < length {
        if at >= LOOK_BYTES && at + LOOK_BYTES < length {
            at = (length - LOOK_BYTES) / BLOCK_BYTES * BLOCK_BYTES;
        }
        let part = step.min(length - at);
        if part < step {
            buffer = BufferMut::zeroed(usize::try_from(part / BLOCK_BYTES).expect("below 64"));
        }
        backing.read(at, &mut buffer)?;
        if buffer.bytes().iter().any(|&b| b != 0) {
            return Ok(true);
        }
        at += part;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blkid_is_understood() {
        let export = "DEVNAME=/x\nLABEL=my data\nUUID=1\nVERSION=1.0\nTYPE=ext4\nUSAGE=filesystem\n";
        assert_eq!(describe(export).as_deref(), Some("ext4 file system labelled 'my data'"));
        assert_eq!(describe("DEVNAME=/x\nPTUUID=1\nPTTYPE=gpt\n").as_deref(), Some("gpt partition table"));
        assert_eq!(describe("DEVNAME=/x\n"), None);
    }
}
