//! Looks at attached volumes: what their servers count, and what happened between two looks.

use crate::attachment::record::Record;
use crate::attachment::{find, questions};
use crate::device::bottom::DiskWork;
use crate::exit::{Failed, Outcome};
use crate::runtime::condition::{Condition, Counts};
use crate::runtime::tally::Count;
use std::collections::VecDeque;
use std::time::Instant;

/// The number of intervals that are shown.
const HISTORY: usize = 240;

/// The answer of a server.
pub struct Answer {
    pub counts: Counts,
    pub condition: Condition,
    pub disk: DiskWork,
}

/// One look at a volume.
pub struct Look {
    pub record: Record,
    pub at: Instant,
    /// Its server's answer, or why there is none.
    pub answer: Result<Answer, Failed>,
}

/// Bytes a second between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub client_written: u64,
    pub client_read: u64,
    pub store_written: u64,
    /// The disks below the store, with the writes of others; 0 where they are not known.
    pub disk_written: u64,
}

/// A volume that is looked at again and again.
pub struct Followed {
    pub last: Look,
    /// The rates of the last intervals, the newest last.
    pub rates: VecDeque<Rates>,
}

/// Returns the records of the volumes with these names, or of all that are attached.
///
/// # Errors
/// When one of the names fits no attached volume, or the directory of records cannot be read.
pub fn records(names: &[String]) -> Outcome<Vec<Record>> {
    if names.is_empty() {
        return find::all_attached();
    }
    names.iter().map(|name| find::attached(name)).collect()
}

impl Look {
    /// Asks the volume's server.
    #[must_use]
    pub fn at(record: Record) -> Self {
        let answer = answer(&record);
        Self { record, at: Instant::now(), answer }
    }

    /// The name by which its owner knows the volume.
    #[must_use]
    pub fn name(&self) -> String {
        let Record { label, path, .. } = &self.record;
        let label = label.as_deref().filter(|label| !label.is_empty());
        label.map_or_else(|| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(), str::to_owned)
    }
}

fn answer(record: &Record) -> Outcome<Answer> {
    Ok(Answer { counts: questions::counts(record)?, condition: questions::condition(record)?, disk: record.bottom.work() })
}

/// The bytes of all counts whose name begins so.
fn bytes(counts: &[Count], name: &str) -> u64 {
    counts.iter().filter(|count| count.what.starts_with(name)).map(|count| count.bytes).sum()
}

impl Rates {
    /// Returns the rates between two answers, this many milliseconds apart; none where the counts began again.
    fn between(before: (&Counts, &DiskWork), now: (&Counts, &DiskWork), ms: u64) -> Option<Self> {
        let a_second = |now: u64, before: u64| Some(now.checked_sub(before)? * 1000 / ms.max(1));
        let rate = |of: fn(&Counts) -> u64| a_second(of(now.0), of(before.0));
        let disk = |work: &DiskWork| work.all().unwrap_or_default().written_bytes;
        Some(Self {
            client_written: rate(|counts| bytes(&counts.client, "writes"))?,
            client_read: rate(|counts| bytes(&counts.client, "reads"))?,
            store_written: rate(|counts| bytes(&counts.device, "write"))?,
            disk_written: a_second(disk(now.1), disk(before.1))?,
        })
    }
}

impl Followed {
    /// Begins to follow a volume.
    #[must_use]
    pub fn from(look: Look) -> Self {
        Self { last: look, rates: VecDeque::new() }
    }

    /// The rates of the last interval, where they are known.
    #[must_use]
    pub fn rates_now(&self) -> Option<Rates> {
        self.rates.back().copied().filter(|_| self.last.answer.is_ok())
    }

    fn go_on(&mut self, look: Look) {
        if let (Ok(before), Ok(now)) = (&self.last.answer, &look.answer) {
            let ms = look.at.saturating_duration_since(self.last.at).as_millis();
            let rates = Rates::between((&before.counts, &before.disk), (&now.counts, &now.disk), u64::try_from(ms).unwrap_or(u64::MAX));
            self.rates.push_back(rates.unwrap_or_default());
            if self.rates.len() > HISTORY {
                self.rates.pop_front();
            }
        }
        self.last = look;
    }
}

/// Takes new looks at all volumes: those that are followed go on, others begin, and those that were not looked at are gone.
pub fn take(followed: &mut Vec<Followed>, looks: Vec<Look>) {
    let mut before = std::mem::take(followed);
    for look in looks {
        let place = before.iter().position(|of| of.last.record.id == look.record.id);
        followed.push(match place.map(|place| before.swap_remove(place)) {
            Some(mut of) => {
                of.go_on(look);
                of
            }
            None => Followed::from(look),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::bottom::{DiskCounts, DiskOf};

    fn counts(written: u64, read: u64, data: u64, log: u64) -> Counts {
        let count = |what: &str, bytes| Count { what: what.to_owned(), operations: 1, bytes };
        let device = vec![count("write data", data), count("write log", log), count("read data", 7)];
        Counts { client: vec![count("reads", read), count("writes", written), count("write-zeroes", 99)], device, ..Counts::default() }
    }

    fn disk(written_bytes: u64) -> DiskWork {
        let counts = DiskCounts { written_bytes, flushes: 1 };
        DiskWork { disks: vec![DiskOf { disk: "sda".to_owned(), counts }], unknown: None }
    }

    #[test]
    fn rates_are_bytes_a_second_and_unknown_where_a_new_server_counts() {
        let (before, now) = (counts(1000, 0, 100, 10), counts(3000, 500, 400, 20));
        let (none, disk) = (DiskWork::default(), disk(4096));
        let rates = Rates { client_written: 4000, client_read: 1000, store_written: 620, disk_written: 8192 };
        assert_eq!(Rates::between((&before, &none), (&now, &disk), 500), Some(rates));
        assert_eq!(Rates::between((&now, &none), (&before, &none), 500), None);
        assert_eq!(Rates::between((&before, &disk), (&before, &none), 500), None, "the disk has begun to count again");
        assert_eq!(Rates::between((&before, &none), (&before, &none), 0), Some(Rates::default()));
    }
}
