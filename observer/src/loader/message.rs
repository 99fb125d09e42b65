//! The packets between a server and the child that loads for it: an order, and a refusal. Both are text.

use super::{Order, Task};
use crate::refused::Refused;
use crate::{Disk, Wants};
use std::io;

/// An answer that brings the descriptors, without and with the program that sees wishes.
pub(super) const LOADED: [&[u8]; 2] = [b"loaded", b"loaded with wishes"];
/// The longest packet. The verifier's report on a program may be longer, and loses its middle.
pub(super) const PACKET_BYTES_MAX: usize = 16 << 10;
/// The most descriptors of an answer: the ring, the counts, and the links.
pub(super) const DESCRIPTORS_MAX: usize = 5;
const START_BYTES: usize = 1 << 10;
const CUT: &str = "\n[...]\n";

impl Order {
    /// Encodes it: six numbers, and four more for a recording.
    pub fn encode(&self) -> String {
        let Self { disk, wants, task, ring_bytes } = self;
        let [files, names, reads] = [wants.files, wants.names, wants.reads].map(u8::from);
        let first = format!("{} {} {ring_bytes} {files} {names} {reads}", disk.major, disk.minor);
        match *task {
            Task::Observe => first,
            Task::Record { start, end, content, wishes } => format!("{first} {start} {end} {} {}", u8::from(content), u8::from(wishes)),
        }
    }

    /// Decodes it. Returns `None` if it is no order.
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let words = std::str::from_utf8(packet).ok()?.split(' ').map(|word| word.parse::<u64>().ok());
        let numbers: Vec<u64> = words.collect::<Option<_>>()?;
        let &[major, minor, ring_bytes, files @ (0 | 1), names @ (0 | 1), reads @ (0 | 1), ref rest @ ..] = &numbers[..] else {
            return None;
        };
        let [major, minor, ring_bytes] = [major, minor, ring_bytes].map(u32::try_from);
        let (disk, ring_bytes) = (Disk { major: major.ok()?, minor: minor.ok()? }, ring_bytes.ok()?);
        let wants = Wants { files: files == 1, names: names == 1, reads: reads == 1 };
        let task = match *rest {
            [] => Task::Observe,
            [start, end, content @ (0 | 1), wishes @ (0 | 1)] => Task::Record { start, end, content: content == 1, wishes: wishes == 1 },
            _ => return None,
        };
        Some(Self { disk, wants, task, ring_bytes })
    }
}

/// Encodes a refusal: its kind, what that kind needs, and a line of text or more.
pub(super) fn encode_refusal(refused: &Refused) -> String {
    let text = match refused {
        Refused::NoTypes(text) => format!("types\n{text}"),
        Refused::NotAllowed { what, source } => format!("rights {}\n{what}", source.raw_os_error().unwrap_or(libc::EPERM)),
        Refused::Program(text) => format!("program\n{text}"),
        other => format!("program\n{other}"),
    };
    shortened(text)
}

/// Decodes a refusal. Returns `None` if it is none.
pub(super) fn decode_refusal(packet: &[u8]) -> Option<Refused> {
    let packet = String::from_utf8_lossy(packet);
    let (kind, text) = packet.split_once('\n')?;
    match kind.split_once(' ').unwrap_or((kind, "")) {
        ("types", "") => Some(Refused::NoTypes(text.into())),
        ("program", "") => Some(Refused::Program(text.into())),
        ("rights", errno) => Some(Refused::NotAllowed { what: text.into(), source: io::Error::from_raw_os_error(errno.parse().ok()?) }),
        _ => None,
    }
}

/// Cuts out the middle of a text that is too long: a verifier's report says at its end what is wrong.
fn shortened(text: String) -> String {
    if text.len() <= PACKET_BYTES_MAX {
        return text;
    }
    let mut start = START_BYTES;
    let mut end = text.len() - (PACKET_BYTES_MAX - START_BYTES - CUT.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    format!("{}{CUT}{}", &text[..start], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_order_comes_back(numbers: [u32; 3], wanted: [bool; 3], range: [u64; 2], recorded: Option<(bool, bool)>) {
            let ([major, minor, ring_bytes], [files, names, reads], [start, end]) = (numbers, wanted, range);
            let task = recorded.map_or(Task::Observe, |(content, wishes)| Task::Record { start, end, content, wishes });
            let order = Order { disk: Disk { major, minor }, wants: Wants { files, names, reads }, task, ring_bytes };
            prop_assert_eq!(Order::decode(order.encode().as_bytes()), Some(order));
        }

        #[test]
        fn a_packet_of_any_bytes_is_decoded_or_refused(packet: Vec<u8>) {
            let _ = (Order::decode(&packet), decode_refusal(&packet));
        }
    }

    #[test]
    fn what_is_no_order_is_not_taken_for_one() {
        for packet in [
            "",
            "7 0 4096 1 1",
            "7 0 4096 1 1 0 0",
            "7 0 4096 1 1 2",
            "7 0 4096 1 1 -1",
            "7  0 4096 1 1 0",
            "7 0 4294967296 1 1 0",
            "7 0 1 1 1 0 0 9 1",
        ] {
            assert_eq!(Order::decode(packet.as_bytes()), None, "{packet}");
        }
    }

    #[test]
    fn a_refusal_comes_back() {
        let rights = Refused::NotAllowed { what: "bpf_prog_load".into(), source: io::Error::from_raw_os_error(libc::EACCES) };
        for refused in [Refused::NoTypes("none:\nat all".into()), Refused::Program(String::new()), rights] {
            let decoded = decode_refusal(encode_refusal(&refused).as_bytes()).unwrap();
            assert_eq!(format!("{decoded:?}"), format!("{refused:?}"));
        }
        for packet in ["", "rights\nbpf", "rights x\nbpf", "types", "other\ntext", "loaded"] {
            assert!(decode_refusal(packet.as_bytes()).is_none(), "{packet}");
        }
    }

    #[test]
    fn a_long_report_keeps_its_start_and_its_end() {
        for letter in ["x", "ü", "€"] {
            let report = format!("invalid argument\n{}\nR1 is no pointer", letter.repeat(PACKET_BYTES_MAX));
            let packet = encode_refusal(&Refused::Program(report));
            assert!((PACKET_BYTES_MAX - 8..=PACKET_BYTES_MAX).contains(&packet.len()), "{}", packet.len());
            let Some(Refused::Program(text)) = decode_refusal(packet.as_bytes()) else { panic!("{packet}") };
            assert!(text.starts_with("invalid argument\n") && text.ends_with("\nR1 is no pointer"), "{text}");
        }
    }
}
