//! The links that udev makes for volumes on block devices, by label and by UUID.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The folder of all links.
const LINKS: &str = "/dev/disk";

/// Encodes a label as udev does: other characters than these become their bytes in hexadecimal, so that a label can be a file's name.
#[must_use]
pub fn encoded(label: &str) -> String {
    let mut out = String::new();
    for character in label.chars() {
        if character.is_ascii_alphanumeric() || "#+-.:=@_".contains(character) || !character.is_ascii() {
            out.push(character);
        } else {
            let _ = write!(out, "\\x{:02x}", u32::from(character));
        }
    }
    out
}

/// Returns the links that a volume called `name`, a label or a UUID, would have. Nothing is looked at.
#[must_use]
pub fn links(name: &str) -> Vec<PathBuf> {
    ["by-uuid", "by-label"].iter().map(|by| Path::new(LINKS).join(by).join(encoded(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_the_names_that_udev_gives_them() {
        let links: Vec<_> = links("my photos/1").into_iter().map(|path| path.display().to_string()).collect();
        assert_eq!(links, ["/dev/disk/by-uuid/my\\x20photos\\x2f1", "/dev/disk/by-label/my\\x20photos\\x2f1"]);
    }
}
