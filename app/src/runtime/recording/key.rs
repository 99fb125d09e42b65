//! A key that the client brings who asks for a recording: it goes over the control socket, and is never shown.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A key of fingerprints: 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(pub [u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(withheld)")
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0.iter().fold(Self::new(), |digits, byte| digits + &format!("{byte:02x}"))
    }
}

impl TryFrom<String> for Key {
    type Error = &'static str;

    fn try_from(digits: String) -> Result<Self, Self::Error> {
        let wrong = "a key is 64 hexadecimal digits";
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong);
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or(wrong)?;
        }
        Ok(Self(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hexadecimal_and_never_shown() {
        let key = Key(std::array::from_fn(|i| u8::try_from(i).unwrap()));
        let digits = String::from(key.clone());
        assert!(digits.starts_with("000102") && Key::try_from(digits.clone()) == Ok(key.clone()));
        assert_eq!(format!("{key:?}"), "Key(withheld)");
        for wrong in ["", "00", &digits[1..], &format!("{digits}0"), &digits.replace('f', "g"), &"é".repeat(32)] {
            assert!(Key::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
