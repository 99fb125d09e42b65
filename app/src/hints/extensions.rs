//! Files that are compressed or encrypted already, by the ends of their names: to compress their blocks again costs time and saves nothing.

/// The ends of names, without the dot, in lower case and in order.
pub const COMPRESSED: &[&str] = &[
    "3gp", "7z", "aac", "age", "apk", "arw", "avi", "avif", "br", "bz2", "cab", "cr2", "cr3", "deb", "dng", "docx", "epub", "flac", "gif",
    "gpg", "gz", "heic", "heif", "jar", "jpeg", "jpg", "jxl", "luks", "lz4", "lzma", "m4a", "m4v", "mkv", "mov", "mp3", "mp4", "mpeg",
    "mpg", "nef", "odt", "ogg", "opus", "pgp", "png", "pptx", "rar", "rpm", "snap", "tbz2", "tgz", "txz", "webm", "webp", "whl", "wma",
    "wmv", "xlsx", "xz", "zip", "zst",
];

/// Whether a file of this name holds compressed or encrypted content.
#[must_use]
pub fn is_compressed(name: &[u8]) -> bool {
    let Some(dot) = name.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0) else { return false };
    let end = name[dot + 1..].to_ascii_lowercase();
    COMPRESSED.binary_search_by(|known| known.as_bytes().cmp(&end)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_by_their_ends() {
        assert!(COMPRESSED.is_sorted());
        assert!([&b"a.mp4"[..], b"a.b.JPG", b"x.tar.zst"].into_iter().all(is_compressed));
        assert!(![&b"mp4"[..], b".mp4", b"a.mp4x", b"a.", b"", b"a.txt"].into_iter().any(is_compressed));
    }
}
