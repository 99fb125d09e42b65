//! The fields of the classic tracepoint, as the running kernel describes them.

use crate::kernel::is_locked_down;
use crate::observation::{Comm, Lifetime, Observation, Operation};
use crate::refused::Refused;
use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io::{self, Read};

const PLACE: &str = "events/block/block_bio_queue/format";

/// The places of the tracepoint's fields in its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Format {
    pub id: u64,
    device: usize,
    sector: usize,
    sectors: usize,
    flags: usize,
    comm: usize,
}

/// The fields of one record.
pub(super) struct Fields {
    /// `dev_t` of the kernel: 12 bits of the major number, 20 of the minor one.
    pub device: u32,
    pub sector: u64,
    pub sectors: u32,
    pub observation: Observation,
}

impl Format {
    /// Reads the description of the running kernel.
    pub fn of_kernel() -> Result<Self, Refused> {
        if is_locked_down() {
            return Err(Refused::LockedDown);
        }
        let text = read().map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => Refused::NotAllowed { what: "tracefs".into(), source },
            _ => Refused::Tracepoint { what: "tracefs", source },
        })?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, Refused> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        // As in `field:sector_t sector; offset:16; size:8; signed:0;`.
        let field = |name: &'static str| {
            let place = text.lines().find_map(|line| {
                let (declaration, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
                let declared = declaration.split_whitespace().next_back()?.split('[').next()?;
                (declared == name).then(|| rest.trim().strip_prefix("offset:")?.split(';').next()?.parse().ok())?
            });
            place.ok_or(Refused::Format(name))
        };
        Ok(Self {
            id: id.ok_or(Refused::Format("ID"))?,
            device: field("dev")?,
            sector: field("sector")?,
            sectors: field("nr_sector")?,
            flags: field("rwbs")?,
            comm: field("comm")?,
        })
    }

    /// Decodes a record. Returns `None` if it is of an operation that is not joined.
    pub fn decode(&self, process: u32, record: &[u8]) -> Option<Fields> {
        let half_word = |at: usize| Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
        let sector = u64::from_ne_bytes(*record.get(self.sector..)?.first_chunk()?);
        let flags = record.get(self.flags..self.comm)?.split(|byte| *byte == 0).next()?;
        let (operation, meta, fua) = flags_of(flags)?;
        let observation = Observation {
            operation,
            meta,
            fua,
            lifetime: Lifetime::NotSet,
            process,
            comm: Comm::new(*record.get(self.comm..)?.first_chunk()?),
            cgroup: 0,
            file: None,
            at: sector * 512,
            linear: false,
        };
        Some(Fields { device: half_word(self.device)?, sector, sectors: half_word(self.sectors)?, observation })
    }
}

/// Decodes `rwbs`: an F if the device is to be flushed before, the operation, and its flags, among them F for FUA and M for META.
fn flags_of(text: &[u8]) -> Option<(Operation, bool, bool)> {
    let text = match text {
        // A flush without a write is FF.
        [b'F', rest @ ..] if rest.first() != Some(&b'F') => rest,
        text => text,
    };
    let (operation, flags) = match text {
        [b'W', b'Z', flags @ ..] => (Operation::WriteZeroes, flags),
        [b'W', flags @ ..] => (Operation::Write, flags),
        [b'D', b'E', flags @ ..] | [b'D', flags @ ..] => (Operation::Discard, flags),
        [b'R', flags @ ..] => (Operation::Read, flags),
        // Older kernels have no letter for it; the other operations without one have no sectors.
        [b'N', flags @ ..] => (Operation::WriteZeroes, flags),
        _ => return None,
    };
    Some((operation, flags.contains(&b'M'), flags.contains(&b'F')))
}

/// Reads the description where tracefs is mounted, and otherwise from a mount of its own that nobody else sees.
fn read() -> io::Result<String> {
    for root in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        if let Ok(text) = std::fs::read_to_string(format!("{root}/{PLACE}")) {
            return Ok(text);
        }
    }
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let mut text = String::new();
    File::from(openat(&root, PLACE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_6_18: &str = "name: block_bio_queue
ID: 815
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;
\tfield:char comm[16];\toffset:38;\tsize:16;\tsigned:0;

print fmt: \"%d,%d %s %llu + %u [%s]\"
";

    #[test]
    fn places_are_those_that_the_kernel_describes() {
        let format = Format::parse(OF_6_18).unwrap();
        assert_eq!(format, Format { id: 815, device: 8, sector: 16, sectors: 24, flags: 28, comm: 38 });
        let without = OF_6_18.replace("rwbs", "flags");
        assert!(matches!(Format::parse(&without), Err(Refused::Format("rwbs"))));
    }

    #[test]
    fn letters_are_operations_and_flags() {
        let cases = [
            ("W", Some((Operation::Write, false, false))),
            ("WS", Some((Operation::Write, false, false))),
            ("FWFSM", Some((Operation::Write, true, true))),
            ("WFS", Some((Operation::Write, false, true))),
            ("FWS", Some((Operation::Write, false, false))),
            ("RAM", Some((Operation::Read, true, false))),
            ("DS", Some((Operation::Discard, false, false))),
            ("DE", Some((Operation::Discard, false, false))),
            ("WZS", Some((Operation::WriteZeroes, false, false))),
            ("FF", None),
        ];
        for (text, expected) in cases {
            assert_eq!(flags_of(text.as_bytes()), expected, "{text}");
        }
    }
}
