//! The mounted file systems.

use rustix::fs::makedev;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A file system where it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The number by which statx names it.
    pub number: u64,
    /// The block device that it was mounted from, as a rule.
    pub source: PathBuf,
    /// The device number of its files, which of Btrfs is that of no block device.
    pub device: u64,
    /// The folder of the file system that is mounted: `/` for all of it.
    pub root: PathBuf,
    pub path: PathBuf,
    pub kind: String,
}

impl Mount {
    /// Whether all of the file system is there.
    pub fn is_whole(&self) -> bool {
        self.root.as_os_str() == "/"
    }

    /// The path, to be shown.
    pub fn point(&self) -> String {
        self.path.display().to_string()
    }
}

/// Returns the mounts that this process sees.
///
/// # Errors
/// When /proc cannot be read.
pub fn read() -> io::Result<Vec<Mount>> {
    Ok(std::fs::read("/proc/self/mountinfo")?.split(|&byte| byte == b'\n').filter_map(parse).collect())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let numbers = std::str::from_utf8(fields.nth(1)?).ok()?;
    let (major, minor) = numbers.split_once(':')?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    let (root, path) = (unescape(fields.next()?), unescape(fields.next()?));
    // Any number of fields come before the dash.
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let (kind, source) = (String::from_utf8(fields.next()?.to_vec()).ok()?, unescape(fields.next()?));
    Some(Mount { number, source, device, root, path, kind })
}

/// Returns the path with what the kernel writes in octal digits: blanks, newlines and backslashes.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    OsStr::from_bytes(&bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_understood() {
        let line = br"36 35 98:0 /mnt1 /a\040b\134c rw,noatime shared:1 master:2 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!((mount.path.to_str().unwrap(), mount.kind.as_str(), mount.device), (r"/a b\c", "ext3", makedev(98, 0)));
        assert_eq!((mount.number, mount.source.to_str()), (36, Some("/dev/root")));
        assert!(!mount.is_whole());
        assert_eq!(parse(b"22 1 0:21 / /proc rw - proc proc rw").unwrap().path, PathBuf::from("/proc"));
        assert!(parse(b"").is_none() && parse(b"1 2 3").is_none());
    }
}
