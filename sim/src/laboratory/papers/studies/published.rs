//! The published numbers of OrderMergeDedup (Chen and Shen, FAST '16). Its figures 2 and 3 are pictures, of which only the numbers in the
//! text are given.

/// A workload of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    pub name: &'static str,
    /// Section 4.1: write duplication, in percent.
    pub duplication_percent: f64,
    /// Section 4.4: megabytes used without and with deduplication, and percent saved.
    pub space: (f64, f64, f64),
    /// Section 4.5: watts without and with deduplication, and the changes of run time and energy, in percent; none for workloads on the
    /// server.
    pub energy: Option<(f64, f64, f64, f64)>,
}

const fn mobile(name: &'static str, duplication_percent: f64, space: (f64, f64, f64), energy: (f64, f64, f64, f64)) -> Published {
    Published { name, duplication_percent, space, energy: Some(energy) }
}

/// The six workloads, in the paper's order.
pub const PUBLISHED: [Published; 6] = [
    mobile("Update", 23.0, (168.8, 131.5, 22.0), (6.35, 6.41, -3.6, -3.0)),
    mobile("Install", 30.0, (137.9, 98.9, 28.0), (6.03, 6.06, 10.5, 11.0)),
    mobile("BBench", 73.0, (11.0, 4.8, 56.0), (6.10, 6.15, 1.1, 2.0)),
    mobile("Vehicle", 27.0, (12.8, 9.4, 27.0), (6.70, 6.70, 0.0, 0.0)),
    Published { name: "Hadoop", duplication_percent: 55.0, space: (80.0, 39.8, 50.0), energy: None },
    Published { name: "YCSB", duplication_percent: 24.0, space: (800.6, 618.5, 23.0), energy: None },
];

/// The share of writes that is saved, weak: the least and the most of the six workloads (section 4.2).
pub const WRITES_SAVED: (f64, f64) = (0.18, 0.63);
/// The share of duplicates in the writes: the least and the most of the six workloads (section 4.1).
pub const DUPLICATION: (f64, f64) = (0.23, 0.73);
/// The part of the ideal saving that is reached, weak, at the least and at the most duplication: 78 to 86 %. Only these two are in the
/// text; those of the other workloads are in a picture.
pub const EFFICIENCY: (f64, f64) = (WRITES_SAVED.0 / DUPLICATION.0, WRITES_SAVED.1 / DUPLICATION.1);

/// The write ratios of Dmdedup, weak (section 4.2: 33 % less to 7 % more).
pub const SHADOW_WEAK: (f64, f64) = (0.67, 1.07);
/// The write ratios of Dmdedup, strong (section 4.3).
pub const SHADOW_STRONG: (f64, f64) = (5.0, 12.0);

/// The write ratios of ordering alone (section 4.3): 5 to 18 % less, 5 % more, and 41 to 71 % more.
pub const ORDERING_ALONE: [(&str, f64, f64); 6] = [
    ("Update", 0.82, 0.95),
    ("Install", 0.82, 0.95),
    ("BBench", 1.05, 1.05),
    ("Vehicle", 0.82, 0.95),
    ("Hadoop", 1.41, 1.71),
    ("YCSB", 1.41, 1.71),
];
/// The most that anticipation saves beyond the rest, of the original writes (section 4.3).
pub const ANTICIPATED: f64 = 0.63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_efficiency_is_that_of_the_text() {
        assert!((EFFICIENCY.0 - 0.783).abs() < 0.001 && (EFFICIENCY.1 - 0.863).abs() < 0.001, "{EFFICIENCY:?}");
        let of = |pick: fn(f64, f64) -> f64, from| PUBLISHED.iter().map(|p| p.duplication_percent / 100.0).fold(from, pick);
        assert_eq!(DUPLICATION, (of(f64::min, 1.0), of(f64::max, 0.0)), "of the six workloads");
    }

    #[test]
    fn the_savings_are_those_of_the_megabytes() {
        for p in PUBLISHED {
            let (before, after, saved) = p.space;
            assert!(((1.0 - after / before) * 100.0 - saved).abs() < 1.0, "{}", p.name);
        }
    }
}
