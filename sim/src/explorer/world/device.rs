//! The machine's operations on the device: they are counted, checked before and after, and begun.

use super::{Work, World};
use crate::checkers::limits;
use crate::checkers::setcheck::View;
use crate::device::faulty_device::Call;
use crate::device::traffic::Situation;
use crate::device::volume::BlockUse;
use crate::ground::content::{Content, Shared};
use crate::ground::record::record;
use crate::ground::violation::{Violation, violation};
use onefold_engine::interface::{Class, IoId};

impl World {
    pub(super) fn write(&mut self, io: IoId, first: u64, contents: &[Shared], class: Class, fua: bool) -> Result<(), Violation> {
        if fua && !self.setting.options.settings.facts.device_takes_fua {
            return Err(violation!("interface: write {} asks for FUA of a device that does not take it", io.0));
        }
        record!(
            "device {}: write{} {class:?} blocks {first}+{} {}",
            io.0,
            if fua { " with FUA" } else { "" },
            contents.len(),
            self.describe_write(first, contents)
        );
        let fails = self.call(io, Call::Write { first, blocks: contents.len() as u64 })?;
        if !self.faults.spoilt {
            let limit = self.setting.options.settings.knobs.refs_limit;
            limits::check(&self.setting.volume, limit, &self.disk, first, contents)?;
        }
        // A metadata page that stays as it was before is valid, only old: without a log this cannot be detected, so no promise is made
        // about it.
        let would_be_old =
            !matches!(self.setting.volume.place(first), BlockUse::Data(_)) && self.disk.cell(first).newest().id() != Content::zero().id();
        let redirected = self.device_fault.as_mut().filter(|_| !would_be_old).and_then(|s| s.redirect(first, contents.len() as u64));
        if let Some(checker) = &mut self.checker {
            let view = View { disk: &self.disk, oracle: &self.oracle };
            (first..).zip(contents).try_for_each(|(block, content)| checker.about_to_write(block, content, view))?;
        }
        self.journal_allows((first..).zip(contents.iter().map(Some)))?;
        self.traffic.write(class, first, contents, &self.disk, &self.setting.volume);
        if class == Class::Data {
            contents.iter().for_each(|content| self.client.sees_content(content));
        }
        if fua {
            self.traffic.note(Situation::SingleFua);
        }
        match redirected {
            Some(elsewhere) => self.disk.write_astray(io, elsewhere, contents)?,
            None if fua => self.disk.write_fua(io, first, contents)?,
            None => self.disk.write(io, first, contents)?,
        }
        let first = redirected.unwrap_or(first);
        self.start(io, Work::Write { fua }, fails, false);
        self.after_change(first, contents.len() as u64)
    }

    pub(super) fn describe_write(&self, first: u64, contents: &[Shared]) -> String {
        (first..)
            .zip(contents)
            .map(|(b, c)| crate::device::describe::change(&self.setting.volume, b, self.disk.cell(b).newest(), c))
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Begins a discard, or, with `fill`, a filling with zeros. Until a later write both leave either the old content or zeros.
    pub(super) fn discard(&mut self, io: IoId, first: u64, blocks: u64, fill: bool) -> Result<(), Violation> {
        record!("device {}: {} blocks {first}+{blocks}", io.0, if fill { "fill" } else { "discard" });
        let fails = self.call(io, Call::Discard)?;
        if let Some(checker) = &self.checker {
            (first..first + blocks).try_for_each(|block| checker.about_to_discard(block))?;
        }
        self.journal_allows((first..first + blocks).map(|block| (block, None)))?;
        self.disk.discard(io, first, blocks)?;
        if !fill {
            self.traffic.discard();
        }
        self.start(io, Work::Discard, fails, true);
        self.after_change(first, blocks)
    }

    /// Returns whether the device works correctly, as far as is known.
    pub(super) fn has_sound_device(&self) -> bool {
        self.device_fault.is_none() && !self.faults.errors && !self.faults.failed
    }

    /// Checks that blocks may be written, or, without a content, discarded.
    pub(super) fn journal_allows<'a>(&self, mut changes: impl Iterator<Item = (u64, Option<&'a Shared>)>) -> Result<(), Violation> {
        if !self.has_sound_device() {
            return Ok(());
        }
        changes.try_for_each(|(block, content)| self.journal_checker.about_to_change(block, content, &self.setting.volume))
    }

    pub(super) fn after_change(&mut self, first: u64, blocks: u64) -> Result<(), Violation> {
        let Some(checker) = &mut self.checker else { return Ok(()) };
        let view = View { disk: &self.disk, oracle: &self.oracle };
        (first..first + blocks).try_for_each(|block| checker.changed(block, view))
    }

    /// Notes that a flush, or a write with FUA, has made these blocks durable.
    pub(super) fn decided(&mut self, blocks: &[u64]) -> Result<(), Violation> {
        let Some(checker) = &mut self.checker else { return Ok(()) };
        checker.decided(blocks, View { disk: &self.disk, oracle: &self.oracle })
    }

    pub(super) fn look(&mut self, first: u64, blocks: u64) -> Vec<Shared> {
        (first..first + blocks).map(|block| self.disk.read(block, &mut self.rng)).collect()
    }
}
