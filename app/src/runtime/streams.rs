//! The counts of streams: who client blocks came from, and what they turned out to be.

use onefold_engine::stats::StreamCounts;
use serde::{Deserialize, Serialize};

/// The name of the stream of blocks of which it is not known.
const UNKNOWN: &str = "(unknown)";

/// The blocks of one stream since the server began, in units of 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamUnits {
    pub stream: String,
    pub client_units: u64,
    pub duplicates: u64,
    pub zeroes: u64,
    pub unchanged: u64,
    pub new_blocks: u64,
    /// Containers that were opened for it: neighbouring blocks that it fills alone.
    #[serde(default)]
    pub containers: u64,
}

/// Returns the streams that have a name, and the unknown one, whose number is 0.
#[must_use]
pub fn named(counts: &[StreamCounts], names: &[String]) -> Vec<StreamUnits> {
    let names = std::iter::once(UNKNOWN).chain(names.iter().map(String::as_str));
    let of = |(counts, name): (&StreamCounts, &str)| {
        let StreamCounts { duplicates, zeroes, new_blocks, unchanged, containers } = *counts;
        let client_units = duplicates + zeroes + new_blocks + unchanged;
        StreamUnits { stream: name.to_owned(), client_units, duplicates, zeroes, unchanged, new_blocks, containers }
    };
    counts.iter().zip(names).map(of).collect()
}

impl StreamUnits {
    /// Returns the share of its blocks that needed no new one, in per cent; none while there are none.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // counts far below 2^52
    pub fn found_percent(&self) -> Option<f64> {
        let found = self.client_units - self.new_blocks;
        (self.client_units > 0).then(|| 100.0 * found as f64 / self.client_units as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_counts_and_the_unknown_comes_first() {
        let counts =
            [0, 10, 20, 30].map(|number| StreamCounts { duplicates: number, zeroes: 1, new_blocks: 1, unchanged: 0, containers: 0 });
        let streams = named(&counts, &["mail".to_owned(), "photos".to_owned()]);
        let units: Vec<_> = streams.iter().map(|stream| (stream.stream.as_str(), stream.client_units)).collect();
        assert_eq!(units, [(UNKNOWN, 2), ("mail", 12), ("photos", 22)]);
        assert_eq!(streams[0].found_percent(), Some(50.0));
        assert_eq!(StreamUnits::default().found_percent(), None);
    }
}
