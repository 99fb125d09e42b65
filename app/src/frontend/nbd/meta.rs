//! The metadata context `base:allocation`: which bytes of the export are holes, for clients that skip them.
//!
//! 1. It is the only context here. A client sets it in the handshake, after structured replies, and asks by BLOCK_STATUS.
//! 2. A reply covers the first of the bytes that were asked for, and may be shorter: the client asks again for the rest.

use super::protocol::{self, Malformed, option};
use onefold_engine::interface::{Extent, ExtentKind};

/// The name of the context, and its namespace, which a client may list.
pub const ALLOCATION: &str = "base:allocation";
const NAMESPACE: &str = "base:";
/// The number that replies name it by.
const ALLOCATION_ID: u32 = 1;
/// Bits of an extent's status.
const HOLE: u32 = 1;
const ZERO: u32 = 1 << 1;

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaRequest<'a> {
    pub export: &'a str,
    /// Whether the request is for the context.
    pub wants_allocation: bool,
}

impl<'a> MetaRequest<'a> {
    /// Parses the data of this option.
    ///
    /// # Errors
    /// When the lengths inside do not add up to the whole, or the name is not UTF-8.
    pub fn parse(number: u32, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let misfit = Malformed::MetaRequest(bytes.len());
        let (export, rest) = text(bytes).ok_or(misfit)?;
        let (count, mut rest) = rest.split_first_chunk().ok_or(misfit)?;
        let (count, is_list) = (u32::from_be_bytes(*count), number == option::LIST_META_CONTEXT);
        // A list without queries is of all contexts.
        let mut wants_allocation = is_list && count == 0;
        for _ in 0..count {
            let (query, after) = text(rest).ok_or(misfit)?;
            wants_allocation |= query == ALLOCATION.as_bytes() || is_list && query == NAMESPACE.as_bytes();
            rest = after;
        }
        if !rest.is_empty() {
            return Err(misfit);
        }
        Ok(Self { export: protocol::export_name(export)?, wants_allocation })
    }
}

/// Takes a text whose length comes before it.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// Returns the data of an `option_reply::META_CONTEXT` for the context.
#[must_use]
pub fn context() -> Vec<u8> {
    [&ALLOCATION_ID.to_be_bytes(), ALLOCATION.as_bytes()].concat()
}

/// Returns the only chunk of a reply to BLOCK_STATUS, which covers at most `length` bytes. `is_one`: the client wants one extent. None
/// where there is no extent.
#[must_use]
pub fn status_chunk(cookie: u64, length: u32, is_one: bool, extents: &[Extent]) -> Option<Vec<u8>> {
    let mut joined: Vec<(u32, u32)> = Vec::new();
    let mut left = length;
    for extent in extents {
        let (bytes, status) = (u32::try_from(extent.bytes).unwrap_or(u32::MAX).min(left), status(extent.kind));
        left -= bytes;
        match joined.last_mut() {
            Some((so_far, before)) if *before == status => *so_far += bytes,
            _ if bytes > 0 => joined.push((bytes, status)),
            _ => break,
        }
    }
    joined.truncate(if is_one { 1 } else { usize::MAX });
    let numbers = std::iter::once(ALLOCATION_ID).chain(joined.iter().flat_map(|&(bytes, status)| [bytes, status]));
    let payload: Vec<u8> = numbers.flat_map(u32::to_be_bytes).collect();
    (!joined.is_empty()).then(|| protocol::status_chunk(cookie, &payload))
}

const fn status(kind: ExtentKind) -> u32 {
    match kind {
        ExtentKind::Hole => HOLE | ZERO,
        ExtentKind::Zeroes => ZERO,
        // A copy is to read what is damaged, and to fail there.
        ExtentKind::Data { .. } | ExtentKind::Damaged => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::units::Pbn;

    fn request(export: &str, queries: &[&str]) -> Vec<u8> {
        let text = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
        let mut bytes = text(export);
        bytes.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
        queries.iter().for_each(|query| bytes.extend(text(query)));
        bytes
    }

    #[test]
    fn the_context_is_set_by_its_name_and_listed_by_its_namespace_too() {
        let wants = |number, queries: &[&str]| MetaRequest::parse(number, &request("disk", queries)).unwrap().wants_allocation;
        for (queries, set, listed) in [
            (&[][..], false, true),
            (&["base:allocation"], true, true),
            (&["base:"], false, true),
            (&["qemu:dirty-bitmap:x", "base:allocation"], true, true),
            (&["qemu:", "base:alloc", ""], false, false),
        ] {
            assert_eq!((wants(option::SET_META_CONTEXT, queries), wants(option::LIST_META_CONTEXT, queries)), (set, listed), "{queries:?}");
        }
        assert_eq!(MetaRequest::parse(option::SET_META_CONTEXT, &request("a disk", &[])).unwrap().export, "a disk");
    }

    #[test]
    fn lengths_that_do_not_add_up_are_refused() {
        let whole = request("disk", &["base:allocation"]);
        for cut in 0..whole.len() {
            assert!(MetaRequest::parse(option::SET_META_CONTEXT, &whole[..cut]).is_err(), "{cut}");
        }
        assert!(MetaRequest::parse(option::SET_META_CONTEXT, &[&whole[..], b"x"].concat()).is_err());
        let many = [&0_u32.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat();
        assert!(MetaRequest::parse(option::SET_META_CONTEXT, &many).is_err());
    }

    #[test]
    fn extents_of_one_status_are_joined_and_end_with_what_was_asked_for() {
        let data = |bytes, first| Extent { bytes, kind: ExtentKind::Data { first: Pbn(first), last: Pbn(first) } };
        let (hole, zeroes) = (Extent { bytes: 4096, kind: ExtentKind::Hole }, Extent { bytes: 512, kind: ExtentKind::Zeroes });
        let damaged = Extent { bytes: 512, kind: ExtentKind::Damaged };
        let numbers = |length, is_one, extents: &[Extent]| {
            let chunk = status_chunk(7, length, is_one, extents)?;
            Some(chunk[20..].chunks(4).map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap())).collect::<Vec<_>>())
        };
        let all = [data(4096, 1), data(8192, 9), damaged, hole, zeroes];
        assert_eq!(numbers(1 << 20, false, &all), Some(vec![1, 12_800, 0, 4096, 3, 512, 2]));
        assert_eq!(numbers(1 << 20, true, &all), Some(vec![1, 12_800, 0]));
        assert_eq!(numbers(13_000, false, &all), Some(vec![1, 12_800, 0, 200, 3]));
        assert_eq!(numbers(4096, false, &all), Some(vec![1, 4096, 0]));
        assert_eq!(numbers(u32::MAX, false, &[data(1 << 40, 0)]), Some(vec![1, u32::MAX, 0]));
        assert_eq!(numbers(4096, false, &[]), None);
    }
}
