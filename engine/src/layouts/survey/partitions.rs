//! The part of a survey that finds partitions.

use super::super::bytes::part;
use super::super::ranges::Importance;
use super::super::watched::Structure;
use super::{FRONT_BYTES, Purpose, Survey, boot_record, btrfs, gpt};
use crate::units::{BLOCK_BYTES, SECTOR_BYTES, count, index};
use std::ops::Range;

/// The most regions: the volume, and as many partitions as a GPT usually has room for.
const REGIONS_MAX: usize = 129;
/// The most tables of logical partitions.
const RECORDS_MAX: usize = 128;

impl Survey {
    /// Adds a region of the volume, and asks for looks at its superblocks. What lies beyond the volume is cut off.
    pub(super) fn add_region(&mut self, range: Range<u64>) {
        let volume_end = self.regions.first().map_or(range.end, |volume| volume.end);
        let range = range.start..range.end.min(volume_end);
        let is_there = range.start % SECTOR_BYTES == 0 && range.start.saturating_add(BLOCK_BYTES) <= range.end;
        if !is_there || self.regions.iter().skip(1).any(|region| *region == range) {
            return;
        }
        if self.regions.len() >= REGIONS_MAX {
            self.layout.cut_short();
            return;
        }
        let region = self.regions.len();
        let front = range.start..range.end.min(range.start + FRONT_BYTES);
        self.look(front, Purpose::Front { region });
        let superblock = range.start + btrfs::SUPERBLOCK_AT;
        let superblock = superblock..superblock + count(btrfs::SUPERBLOCK_BYTES);
        if superblock.end <= range.end {
            self.look(superblock, Purpose::BtrfsSuperblock { region });
        }
        self.regions.push(range);
    }

    /// Reads the tables at the beginning of the volume.
    pub(super) fn see_tables(&mut self, front: &[u8]) {
        self.layout.watch_over(Structure::BootRecord, 0, front);
        for sector_bytes in gpt::SECTOR_BYTES {
            self.see_primary(front, sector_bytes);
            let at = index(sector_bytes);
            let header = part(front, at..at + gpt::HEADER_BYTES);
            self.layout.watch_over(Structure::GptHeader(sector_bytes), sector_bytes, header);
            let Some(header) = gpt::Header::parse(header, sector_bytes) else { continue };
            if let Some(table) = header.table() {
                self.look(table, Purpose::GptTable { header });
            }
        }
    }

    /// Reads the table of primary partitions, as one of sectors of this size.
    fn see_primary(&mut self, record: &[u8], sector_bytes: u64) {
        for entry in boot_record::entries(record, sector_bytes) {
            if entry.is_extended {
                let first = entry.range.start;
                self.look_at_record(entry.range, sector_bytes, first);
            } else {
                self.add_partition(entry.range);
            }
        }
    }

    fn look_at_record(&mut self, extended: Range<u64>, sector_bytes: u64, first: u64) {
        let is_inside = extended.contains(&first) && first > 0 && first < self.regions[0].end;
        if !is_inside {
            return;
        }
        if self.records >= RECORDS_MAX {
            self.layout.cut_short();
            return;
        }
        self.records += 1;
        let range = first..first + count(boot_record::RECORD_BYTES);
        self.look(range, Purpose::BootRecord { extended, sector_bytes });
    }

    /// Reads a table of logical partitions: one partition, and a link to the next table.
    pub(super) fn see_record(&mut self, extended: &Range<u64>, sector_bytes: u64, first: u64, record: &[u8]) {
        self.layout.watch_over(Structure::BootRecord, first, record);
        for entry in boot_record::entries(record, sector_bytes) {
            if entry.is_extended {
                self.look_at_record(extended.clone(), sector_bytes, extended.start.saturating_add(entry.range.start));
            } else {
                self.add_partition(first.saturating_add(entry.range.start)..first.saturating_add(entry.range.end));
            }
        }
    }

    /// Reads the table of a GPT. The last sectors of a volume have a copy of it.
    pub(super) fn see_gpt_table(&mut self, header: &gpt::Header, first: u64, table: &[u8]) {
        let Some(range) = header.table() else { return };
        self.layout.watch_over(Structure::GptTable(index(range.end - range.start)), first, table);
        let Some(partitions) = header.partitions(table) else {
            self.layout.cut_short();
            self.layout.forget(Structure::GptHeader(header.sector_bytes()), header.sector_bytes());
            return;
        };
        let volume = self.regions[0].clone();
        self.layout.protect(Importance::Tables, &volume, &header.head());
        self.layout.protect(Importance::Tables, &volume, &range);
        for partition in partitions {
            self.add_partition(partition);
        }
    }

    /// Adds a partition as a region: the first sector is not one.
    fn add_partition(&mut self, range: Range<u64>) {
        if range.start > 0 {
            self.add_region(range);
        }
    }
}
