//! The reporting of findings: counted by severity, neighbours together.

use super::finding::{Finding, Severity};
use super::report::Listener;
use crate::units::Bytes;

/// Passes findings on and counts them.
pub(crate) struct Teller<'a> {
    listener: &'a mut dyn Listener,
    /// The numbers of findings, in the order of severities.
    reported: [u64; 3],
    done: u64,
    total: u64,
}

impl<'a> Teller<'a> {
    pub(crate) fn new(listener: &'a mut dyn Listener, total: u64) -> Self {
        Self { listener, reported: [0; 3], done: 0, total }
    }

    pub(crate) fn tell(&mut self, finding: Finding) {
        self.reported[finding.severity() as usize] += 1;
        self.listener.finding(finding);
    }

    pub(crate) fn reported(&self, severity: Severity) -> u64 {
        self.reported[severity as usize]
    }

    pub(crate) fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        self.listener.progress(Bytes(self.done), Bytes(self.total.max(self.done)));
    }
}

/// Neighbouring numbers, reported as one finding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    first: u64,
    length: u64,
}

impl Run {
    /// Takes the next numbers. Earlier numbers that do not reach them are reported.
    pub(crate) fn push(&mut self, first: u64, length: u64, teller: &mut Teller, finding: impl Fn(u64, u64) -> Finding) {
        if self.length > 0 && self.first + self.length != first {
            self.finish(teller, finding);
        }
        if self.length == 0 {
            self.first = first;
        }
        self.length += length;
    }

    /// No more come.
    pub(crate) fn finish(&mut self, teller: &mut Teller, finding: impl Fn(u64, u64) -> Finding) {
        if self.length > 0 {
            teller.tell(finding(self.first, self.length));
        }
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Lbn;

    #[test]
    fn neighbours_are_told_together() {
        let mut reported = Vec::new();
        {
            let mut listener = |finding| reported.push(finding);
            let mut teller = Teller::new(&mut listener, 0);
            let lost = |first, blocks| Finding::LostEntries { first: Lbn(first), blocks };
            let mut run = Run::default();
            run.finish(&mut teller, lost);
            run.push(3, 1, &mut teller, lost);
            run.push(4, 2, &mut teller, lost);
            run.push(7, 1, &mut teller, lost);
            run.finish(&mut teller, lost);
            run.finish(&mut teller, lost);
            assert_eq!(teller.reported(Severity::Damage), 2);
        }
        let lost = |first, blocks| Finding::LostEntries { first: Lbn(first), blocks };
        assert_eq!(reported, [lost(3, 3), lost(7, 1)]);
    }
}
