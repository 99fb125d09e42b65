//! A scrub of a volume that has lost blocks: damage that was found before, and given up.

use crate::media::pattern;
use crate::scrub::{BLOCKS, MODES, SOFT, page, scrubbed, served, settings, used};
use onefold_engine::format::page::Region;
use onefold_engine::interface::{Notice, Op};
use onefold_engine::units::index;

#[test]
fn what_is_lost_is_counted_until_it_is_written() {
    for mode in MODES {
        let m = used(mode);
        let at = page(&m, Region::Map, 0);
        let mut medium = m.close();
        medium[index(at.0) + 77] ^= 4;
        // The page is written again because of a neighbour, with its damaged sector given up.
        let mut m = served(medium, settings(mode));
        let lost = (0..BLOCKS + SOFT).filter(|&lbn| m.fails_to_read(lbn)).count();
        assert!((90..110).contains(&lost), "{mode:?}: {lost} blocks of a sector");
        m.write(4096 * (BLOCKS + SOFT), &pattern(7, 4096));
        let mut m = served(m.close(), settings(mode));
        let found = scrubbed(&mut m);
        assert_eq!((found.damaged, found.mended, found.lost), (0, 0, lost as u64), "{mode:?}");
        assert!(m.notices.contains(&Notice::Scrubbed { damaged: 0, mended: 0, lost: lost as u64 }), "{mode:?}: {:?}", m.notices);
        // What clients have written since counts, durable on its page or not.
        m.write(0, &pattern(0, 4096));
        assert_eq!(scrubbed(&mut m).lost, lost as u64 - 1, "{mode:?}");
        m.request(Op::Discard, 0, 4096 * (BLOCKS + SOFT), None, false);
        m.flush();
        assert_eq!(scrubbed(&mut m).lost, 0, "{mode:?}");
    }
}
