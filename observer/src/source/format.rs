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
    /// What was written before has to be durable when it is done.
    pub flushes: bool,
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
        let Flags { operation, meta, fua, flushes } = flags_of(flags)?;
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
        Some(Fields { device: half_word(self.device)?, sector, sectors: half_word(self.sectors)?, observation, flushes })
    }
}

/// A tracepoint's account of a bio's operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flags {
    operation: Operation,
    meta: bool,
    fua: bool,
    flushes: bool,
}

/// Decodes `rwbs`: an F if the device is to be flushed before, the operation, and its flags, among them F for FUA and M for META.
fn flags_of(text: &[u8]) -> Option<Flags> {
    let (flushes, text) = match text {
        // A flush alone was FF once; now it is a write without sectors.
        [b'F', b'F', ..] => (true, &b"W"[..]),
        [b'F', rest @ ..] => (true, rest),
        text => (false, text),
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
    Some(Flags { operation, meta: flags.contains(&b'M'), fua: flags.contains(&b'F'), flushes })
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
        let of = |operation, meta, fua, flushes| Some(Flags { operation, meta, fua, flushes });
        let cases = [
            ("W", of(Operation::Write, false, false, false)),
            ("WS", of(Operation::Write, false, false, false)),
            ("FWFSM", of(Operation::Write, true, true, true)),
            ("WFS", of(Operation::Write, false, true, false)),
            ("FWS", of(Operation::Write, false, false, true)),
            ("RAM", of(Operation::Read, true, false, false)),
            ("DS", of(Operation::Discard, false, false, false)),
            ("DE", of(Operation::Discard, false, false, false)),
            ("WZS", of(Operation::WriteZeroes, false, false, false)),
            ("FF", of(Operation::Write, false, false, true)),
            ("FN", of(Operation::WriteZeroes, false, false, true)),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(flags_of(text.as_bytes()), expected, "{text}");
        }
    }
}
