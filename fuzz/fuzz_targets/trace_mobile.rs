//! The text of MobileTraces: hostile lines; what is understood comes back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_fuzz::text::exercise;
use onefold_trace::text::detect::FormName;

fuzz_target!(|data: &[u8]| {
    exercise(FormName::Mobile, data, true);
});
