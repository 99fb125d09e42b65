//! Sectors, times and fingerprints in the notation that the published forms share.

use super::Reason;
use super::names::{MD5_BYTES, MD5_OF_ZERO_BLOCK, MD5_OF_ZERO_SECTOR, name, number, push_hex, shown};
use crate::header::Unit;
use crate::record::{Block, ContentName, Record};
use onefold_engine::units::{Bytes, SECTOR_BYTES};

/// The number of digits of an MD5.
const DIGITS: usize = 2 * MD5_BYTES;

/// Returns offset and length of `count` units of `unit` bytes, beginning with unit `first`.
pub(super) fn bytes_of(first: u64, count: u64, unit: u64) -> Result<(Bytes, Bytes), Reason> {
    let end = first.checked_add(count).and_then(|end| end.checked_mul(unit)).filter(|end| i64::try_from(*end).is_ok());
    end.map(|_| (Bytes(first * unit), Bytes(count * unit))).ok_or_else(|| format!("{count} from {first} on reach beyond any device"))
}

/// Parses offset and length of a range of sectors.
pub(super) fn sectors(first: &str, count: &str) -> Result<(Bytes, Bytes), Reason> {
    let (first, count) = (number("the first sector", first)?, number::<u64>("the number of sectors", count)?);
    if count == 0 {
        return Err("a request of no sectors".to_owned());
    }
    bytes_of(first, count, SECTOR_BYTES)
}

/// Returns the major and minor numbers of a record's device; zeros if it has none.
pub(super) fn device(record: &Record) -> Result<(u32, u32), Reason> {
    let Some(device) = record.device.as_deref() else { return Ok((0, 0)) };
    let (major, minor) = device.split_once(' ').ok_or_else(|| format!("its device is not like 8 0: {:?}", shown(device)))?;
    Ok((number("the major number", major)?, number("the minor number", minor)?))
}

/// Returns whether an F follows the W of the kernel's request flags; an F before the W asks for a flush before the write.
pub(super) fn is_fua(flags: &str) -> bool {
    flags.split_once('W').is_some_and(|(_, behind)| behind.contains('F'))
}

/// Returns the MD5 of a unit of zeros.
pub(super) const fn zero(unit: Unit) -> &'static [u8; MD5_BYTES] {
    match unit {
        Unit::Block => &MD5_OF_ZERO_BLOCK,
        Unit::Sector => &MD5_OF_ZERO_SECTOR,
    }
}

/// Parses the MD5s of the units of `length` bytes; the last unit may be shorter.
pub(super) fn md5s<'a>(digests: impl Iterator<Item = &'a [u8]>, length: Bytes, unit: Unit) -> Result<Vec<Block>, Reason> {
    let mut blocks = Vec::new();
    for digits in digests {
        if digits.len() != DIGITS {
            return Err(format!("a fingerprint of {} digits instead of {DIGITS}", digits.len()));
        }
        blocks.push(Block::named(name(digits, zero(unit))?));
    }
    let wanted = length.get().div_ceil(unit.bytes());
    if blocks.len() as u64 == wanted {
        Ok(blocks)
    } else {
        Err(format!("{} fingerprints instead of {wanted}, one for each {} bytes", blocks.len(), unit.bytes()))
    }
}

/// Appends the MD5s of blocks, separated by `between`.
pub(super) fn push_md5s(text: &mut String, blocks: &[Block], unit: Unit, between: &str) -> Result<(), Reason> {
    for (index, block) in blocks.iter().enumerate() {
        if index > 0 {
            text.push_str(between);
        }
        match &block.name {
            ContentName::Zero => push_hex(text, zero(unit)),
            ContentName::Of(bytes) => push_hex(text, &bytes[..MD5_BYTES]),
            ContentName::Unknown => return Err("it has a block whose content was not recorded".to_owned()),
        }
    }
    Ok(())
}

/// Parses nanoseconds and the number of decimals of `SECONDS.DECIMALS`, with one to nine decimals.
pub(super) fn seconds(text: &str) -> Result<(u64, usize), Reason> {
    let wrong = || format!("the time is not a number of seconds with decimals: {:?}", shown(text));
    let (whole, decimals) = text.split_once('.').ok_or_else(wrong)?;
    let whole: u64 = number("the time", whole)?;
    if decimals.is_empty() || decimals.len() > 9 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let part: u64 = format!("{decimals:0<9}").parse().map_err(|_| wrong())?;
    let time = whole.checked_mul(1_000_000_000).and_then(|time| time.checked_add(part));
    time.map(|time| (time, decimals.len())).ok_or("the time is beyond 584 years".to_owned())
}

/// Formats `SECONDS.DECIMALS`, with nine decimals if fewer would lose digits.
pub(super) fn in_seconds(time_ns: u64, decimals: usize) -> String {
    let part = format!("{:09}", time_ns % 1_000_000_000);
    let kept = decimals.clamp(1, 9);
    let kept = if part[kept..].bytes().all(|digit| digit == b'0') { kept } else { 9 };
    format!("{}.{}", time_ns / 1_000_000_000, &part[..kept])
}
