//! Units of the log: a valid one with hostile bytes in it, or hostile bytes alone. None of them opens; whatever the decoder accepts without
//! authentication encodes to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_engine::format::unit::{at, open, parse};
use onefold_engine::units::BLOCK_SIZE;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    let sound = onefold_fuzz::sound_unit();
    let mut page = if mode & 1 == 0 { sound.clone() } else { Box::new([0; BLOCK_SIZE]) };
    onefold_fuzz::overlay(&mut page, data);
    let authenticator = onefold_fuzz::authenticator();
    assert_eq!(open(&authenticator, onefold_fuzz::PLACE, &page).is_some(), page == sound, "nobody else makes a unit");
    if let Some(unit) = parse(&page) {
        let again = onefold_fuzz::again(&unit, &page);
        page[at::AUTHENTICATOR.offset..][..at::AUTHENTICATOR.width]
            .copy_from_slice(&again[at::AUTHENTICATOR.offset..][..at::AUTHENTICATOR.width]);
        assert!(again == page, "what is read is what was written");
        let opened = open(&authenticator, onefold_fuzz::PLACE, &again).expect("a unit");
        assert_eq!((opened.header, opened.places, opened.slots, opened.records), (unit.header, unit.places, unit.slots, unit.records));
    }
});
