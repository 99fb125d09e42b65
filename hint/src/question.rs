//! The question to a server: one line of JSON.

use crate::file::File;
use crate::text::Text;

/// The longest question, in bytes. A path that does not fit is left out.
pub const QUESTION_BYTES_MAX: usize = 1536;

/// A line that asks the server to act on a file.
pub type Question = Text<QUESTION_BYTES_MAX>;

/// Writes the question whether the server acts on this file. `act` is a word of JSON that needs no escapes.
pub fn question(file: &File, act: &str) -> Question {
    let mut line = Question::new();
    let numbers = [(r#"{"ask":"hintfile","device":{"major":"#, file.device.major), (r#","minor":"#, file.device.minor)];
    let mut is_whole = numbers.iter().all(|(before, number)| line.push(before.as_bytes()) && line.push_number((*number).into()));
    is_whole &= line.push(br#"},"inode":"#) && line.push_number(file.inode);
    is_whole &= line.push(br#","act":""#) && line.push(act.as_bytes()) && line.push(b"\"");
    debug_assert!(is_whole, "numbers and the act are short");
    let without_path = line.bytes().len();
    if !(push_path(&mut line, file.path()) && line.push(b"}\n")) {
        line.shorten(without_path);
        let is_closed = line.push(b"}\n");
        debug_assert!(is_closed, "there is room for more");
    }
    line
}

/// Appends the path, where it is known, is UTF-8 as JSON wants it, and fits.
fn push_path(line: &mut Question, path: &[u8]) -> bool {
    !path.is_empty() && std::str::from_utf8(path).is_ok() && line.push(br#","path":""#) && push_escaped(line, path) && line.push(b"\"")
}

fn push_escaped(line: &mut Question, bytes: &[u8]) -> bool {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or_default();
    bytes.iter().all(|&byte| match byte {
        b'"' | b'\\' => line.push(&[b'\\', byte]),
        0..=0x1f => line.push(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]),
        _ => line.push(&[byte]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Device;

    fn asked(path: &[u8]) -> String {
        let file = File::named(Device { major: 7, minor: 12 }, u64::MAX, path);
        String::from_utf8(question(&file, "nodedup").bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_question_is_one_line_with_everything_that_is_known() {
        let rest = r#"{"ask":"hintfile","device":{"major":7,"minor":12},"inode":18446744073709551615,"act":"nodedup""#;
        assert_eq!(asked("/srv/é".as_bytes()), format!("{rest},\"path\":\"/srv/é\"}}\n"));
        assert_eq!(asked(b"/a\"b\\c\nd\x01"), format!("{rest},\"path\":\"/a\\\"b\\\\c\\u000ad\\u0001\"}}\n"));
        for path in [b"".as_slice(), b"/\xff", &[b'\n'; 1000]] {
            assert_eq!(asked(path), format!("{rest}}}\n"), "a path that is unknown, no text, or too long is left out");
        }
    }
}
