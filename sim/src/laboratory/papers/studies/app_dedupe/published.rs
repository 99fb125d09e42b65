//! The published numbers of APP-Dedupe (Mao et al., *Content-aware Trace Collection and I/O Deduplication for Smartphones*, section IV.B).
//! Its figures are pictures, of which only the numbers in the text are given.

use crate::laboratory::papers::studies::smartdedup::published::{Statement, says};

/// Figure 4: the share of the phone's memory, in the mean and at most, and of its processors at most.
pub const MEMORY: (f64, f64) = (0.016, 0.025);
pub const PROCESSOR_MOST: f64 = 0.02;
/// The memory of the phone, in MiB (section IV.A).
pub const PHONE_MIB: f64 = 2048.0;
/// Figure 5: the data that are not written, in the mean.
pub const WRITES_SAVED: f64 = 0.452;
/// Figure 6: the change of the throughput of sequential writes and reads.
pub const SEQUENTIAL: (f64, f64) = (0.115, -0.300);
/// Figure 7: by how much responses are shorter, in the mean and at most.
pub const RESPONSES: (f64, f64) = (0.062, 0.154);
/// Figure 8: the collections that are saved, in the mean and at most.
pub const COLLECTIONS: (f64, f64) = (0.415, 0.587);

/// The statements about memory and processor.
pub const COSTS: [Statement; 2] = [
    says("4", "memory: at most 2.5 % more than the baseline system, 1.6 % in the mean"),
    says("4", "processor: utilization at most 2 % more"),
];
/// The statements about data written.
pub const WRITTEN: [Statement; 2] = [
    says("5", "more data are generated than in the baseline system, by the metadata of deduplication"),
    says("5", "45.2 % less data are written to the eMMC storage, in the mean"),
];
/// The statements about access patterns.
pub const ACCESS: [Statement; 3] = [
    says("6", "sequential writes: throughput +11.5 %"),
    says("6", "sequential reads: throughput −30.0 %, since deduplication scatters the data"),
    says("6", "random reads and writes: like the baseline system"),
];
/// The statements about response times.
pub const RESPONSE_TIMES: [Statement; 2] = [
    says("7", "mean response times shorter by up to 15.4 %, 6.2 % in the mean"),
    says("7", "longer with Game2048 (1.1 %) and Tencent (2.3 %), which write little: the time of hashes outweighs the gain"),
];
/// The statements about collections.
pub const COLLECTED: [Statement; 1] = [says("8", "up to 58.7 % fewer collections, 41.5 % in the mean")];
