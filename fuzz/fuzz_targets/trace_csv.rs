//! The text of comma-separated values: hostile lines; what is accepted is read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_trace::text::detect::FormName;
use onefold_trace::text::exercise::exercise;

fuzz_target!(|data: &[u8]| {
    exercise(FormName::Csv, data);
});
