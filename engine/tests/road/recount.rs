//! What a recount gives back is no room for links before it is durable: a crash may bring it back.

use crate::checked::findings;
use crate::forged::rewrite;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::{CommitMode, REFS_MAX, Region};
use onefold_engine::interface::Notice;
use onefold_engine::settings::Settings;

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, recount_window_blocks: 64, ..Settings::default() }
}

/// A volume after a crash in mode `ordered`: a block has so many links, and its name, and a count that is one too high.
fn with_excess(links: u64) -> Machine {
    let mut m = Machine::open(blank(32 << 20, Some(800 * 400)), settings(CommitMode::Ordered));
    (0..links).for_each(|lbn| m.write(4096 * lbn, &pattern(1, 4096)));
    m.flush();
    let mut m = Machine::open(m.close(), settings(CommitMode::Ordered));
    m.write(4096 * 2000, &pattern(2, 4096));
    m.flush();
    rewrite(&mut m.medium, Region::Refs, |page| {
        let at = (0..1000).find(|&at| u64::from(page.refs(at)) == links + 1).expect("its count");
        page.set_refs(at, page.refs(at) + 1);
    });
    Machine::open(m.medium, settings(CommitMode::Log))
}

#[test]
fn what_a_recount_gives_back_is_not_given_away_before_it_is_durable() {
    let mut m = with_excess(u64::from(REFS_MAX) - 2);
    m.read(0, 4096);
    // The first of many windows.
    m.wait(20);
    assert!(!m.notices.iter().any(|notice| matches!(notice, Notice::Recounted { .. })), "{:?}", m.notices);
    m.write(4096 * 1000, &pattern(1, 4096));
    m.flush();
    assert_eq!(m.engine.ledger().new_blocks, 1, "it is stored anew");
    let mut m = Machine::open(m.medium, Settings { recount_window_blocks: 1 << 20, ..settings(CommitMode::Log) });
    assert_eq!(m.read(4096 * 1000, 4096), pattern(1, 4096));
    m.wait(1000);
    let medium = m.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
}
