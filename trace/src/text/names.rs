//! Fields that several forms share: numbers, fingerprints in hexadecimal digits, and recurring names.

use super::Reason;
use crate::record::{ContentName, NAME_BYTES_MAX};
use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;

/// The number of bytes of an MD5.
pub const MD5_BYTES: usize = 16;
/// The MD5 of 4096 zeros.
pub const MD5_OF_ZERO_BLOCK: [u8; MD5_BYTES] = 0x620f_0b67_a91f_7f74_151b_c5be_745b_7110_u128.to_be_bytes();
/// The MD5 of 512 zeros.
pub const MD5_OF_ZERO_SECTOR: [u8; MD5_BYTES] = 0xbf61_9eac_0cdf_3f68_d496_ea93_4413_7e8b_u128.to_be_bytes();

/// Parses a number that is written in the one canonical way, without a sign or leading zeros. An export would not reproduce other ways.
pub(super) fn number<T: FromStr>(what: &str, text: &str) -> Result<T, Reason> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain).ok_or_else(|| format!("{what} is not a number in range: {:?}", shown(text)))
}

/// Shortens a field for a message.
pub(super) fn shown(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(end, _)| &text[..end])
}

/// Parses the name of a block from the hexadecimal digits of its fingerprint. `zero` is the fingerprint of all zeros, compared in as many
/// bytes as there are digits for; with fewer bytes, no fingerprint means zeros.
pub(super) fn name(digits: &[u8], zero: &[u8]) -> Result<ContentName, Reason> {
    let mut bytes = [0; NAME_BYTES_MAX];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    let kept = digits.len() / 2;
    Ok(if zero.get(..kept) == Some(&bytes[..kept]) { ContentName::Zero } else { ContentName::Of(bytes) })
}

/// Parses a digit, in lower case only: an export would not reproduce upper case.
fn digit(byte: u8) -> Result<u8, Reason> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err("a fingerprint contains something other than the digits 0-9 and a-f".to_owned()),
    }
}

/// Appends the hexadecimal digits of `bytes`.
pub(super) fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Recurring names, each kept once.
#[derive(Debug, Default)]
pub struct Names {
    seen: HashSet<Arc<str>>,
}

impl Names {
    /// The number of names that are kept, enough for the programs of a trace. Forgetting a name costs memory and nothing else.
    const MOST: usize = 4096;

    /// Returns the shared copy of `text`.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(name) = self.seen.get(text) {
            return Arc::clone(name);
        }
        if self.seen.len() == Self::MOST {
            self.seen.clear();
        }
        let name: Arc<str> = text.into();
        self.seen.insert(Arc::clone(&name));
        name
    }
}
