//! The text of the traces of FIU, with an MD5 for each block and for each sector: hostile lines; what is accepted is read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_trace::text::detect::FormName;
use onefold_trace::text::exercise::exercise;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, text)) = data.split_first() else { return };
    exercise(if mode & 1 == 0 { FormName::Fiu } else { FormName::FiuHomes }, text);
});
