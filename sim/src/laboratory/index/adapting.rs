//! The share of writes that a policy gets to see (SmartDedup section 4.4).

use onefold_engine::adaptation::{ALL, Adaptation, is_selected};

/// The battery when it is full, and when the device enters its low-power mode, in per cent.
const BATTERY: (u64, u64) = (100, 20);

/// The reason for which writes are deferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adapt {
    #[default]
    Never,
    /// Few of the last writes were duplicates (Figure 10).
    Duplication,
    /// The battery, which is full at the first write and at 20 % at the last (Figure 11).
    Battery,
}

impl Adapt {
    /// Returns the reason of this name.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn named(typed: &str) -> Result<Self, String> {
        match typed {
            "never" => Ok(Self::Never),
            "duplication" => Ok(Self::Duplication),
            "battery" => Ok(Self::Battery),
            _ => Err(format!("'{typed}' is no reason to defer fingerprints: give never, duplication or battery")),
        }
    }
}

/// The selection of one run's writes.
pub struct Selection {
    adapt: Adapt,
    by_duplication: Adaptation,
    seen: u64,
    all: u64,
}

impl Selection {
    /// Begins with the first of `all` writes.
    #[must_use]
    pub fn new(adapt: Adapt, all: u64) -> Self {
        Self { adapt, by_duplication: Adaptation::new(adapt == Adapt::Duplication, true), seen: 0, all }
    }

    /// Returns whether the next write gets its fingerprint at once.
    pub fn selects(&mut self) -> bool {
        let share = match self.adapt {
            Adapt::Never => ALL,
            Adapt::Duplication => self.by_duplication.selectivity(),
            Adapt::Battery => u8::try_from(BATTERY.0 - (BATTERY.0 - BATTERY.1) * self.seen / self.all.max(1)).unwrap_or(ALL),
        };
        self.seen += 1;
        is_selected(self.seen - 1, share)
    }

    /// Notes the result of a write: whether it was a duplicate; none if it was deferred.
    pub fn note(&mut self, is_duplicate: Option<bool>) {
        self.by_duplication.note(is_duplicate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_battery_is_at_a_fifth_at_the_last_write() {
        let mut selection = Selection::new(Adapt::Battery, 100_000);
        let selected: Vec<usize> = (0..10).map(|_| (0..10_000).filter(|_| selection.selects()).count()).collect();
        assert!(selected.windows(2).all(|pair| pair[1] < pair[0]), "{selected:?}");
        assert!((9_500..=9_700).contains(&selected[0]) && (2_300..=2_500).contains(&selected[9]), "{selected:?}");
    }

    #[test]
    fn reasons_have_names() {
        assert_eq!(
            ["never", "duplication", "battery"].map(|name| Adapt::named(name).unwrap()),
            [Adapt::Never, Adapt::Duplication, Adapt::Battery]
        );
        assert!(Adapt::named("power").unwrap_err().contains("'power'"));
    }
}
