//! The files of `onefold-lab scan`, and DEDISbench's: hostile ones; what is accepted adds up, and is read back in both forms.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_trace::synth::Distribution;

fuzz_target!(|text: &str| {
    let Ok(distribution) = Distribution::from_text(text) else { return };
    let sum: u64 = distribution.occurring().iter().map(|o| o.times * o.contents).sum();
    assert_eq!(sum + distribution.zero_blocks, distribution.blocks());
    for text in [distribution.to_json(), distribution.to_csv()] {
        assert_eq!(Distribution::from_text(&text).as_ref(), Ok(&distribution), "{text}");
    }
    let _ = distribution.thinned(0.37);
});
