//! A store in a file: small epochs are written where the host has written before, and space goes back to the host in whole pieces.

use crate::machine::{Done, Machine};
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Op};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, Pbn, index};
use std::ops::Range;

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
/// The blocks of a piece.
const PIECE: usize = 256;

/// A volume in a file of `mib` MiB that was formatted a moment ago: the host has written the metadata and this many blocks of data.
fn in_file(mib: u64, settings: Settings, written: u64) -> Machine {
    let mut m = Machine::open(blank(mib << 20, None), settings);
    let first = m.engine.geometry().block_at(Pbn(written));
    m.engine.take_unwritten(&[first..Bytes(mib << 20)]);
    m
}

fn stock_of(m: &Machine) -> u64 {
    m.engine.geometry().stock_blocks()
}

/// The device's blocks that hold the first blocks of data, this many.
fn first_data(m: &Machine, blocks: u64) -> Range<usize> {
    let first = index(m.engine.geometry().block_at(Pbn(0)).get()) / BLOCK_SIZE;
    first..first + index(blocks)
}

/// The blocks of data and of the log that were written, in order, since the history had this length.
fn data_written(m: &Machine, since: usize) -> Vec<usize> {
    let blocks_of = |done: &Done| match *done {
        Done::Write { class: Class::Data | Class::Log, first, blocks } => first..first + blocks,
        _ => 0..0,
    };
    m.history[since..].iter().flat_map(blocks_of).collect()
}

#[test]
fn synced_writes_go_where_the_host_has_written_before() {
    for commit_mode in MODES {
        let mut m = in_file(256, Settings { commit_mode, ..Settings::default() }, 1000);
        let written = first_data(&m, 1000);
        for i in 0..300 {
            m.write(4096 * (i % 50), &pattern(i, 4096));
            m.flush();
        }
        let blocks = data_written(&m, 0);
        assert!(blocks.len() >= 300 && blocks.iter().all(|block| written.contains(block)), "{commit_mode:?}: {written:?}, {blocks:?}");
        assert_eq!(m.engine.ledger().filled_bytes, 0, "{commit_mode:?}: the stock is not low");
        m.close();
    }
}

#[test]
fn a_large_epoch_goes_where_nothing_was_written_yet() {
    for commit_mode in MODES {
        let mut m = in_file(256, Settings { commit_mode, ..Settings::default() }, 1000);
        let written = first_data(&m, 1000);
        let content = pattern(7, 4096 * 3000);
        m.write(0, &content);
        m.flush();
        let in_stock = data_written(&m, 0).into_iter().filter(|block| written.contains(block)).count();
        assert!(in_stock < 200, "{commit_mode:?}: {in_stock} of 3000 blocks");
        assert_eq!(m.read(0, 4096 * 3000), content, "{commit_mode:?}");
        m.close();
    }
}

#[test]
fn a_low_stock_grows_by_pieces_of_free_blocks() {
    for commit_mode in MODES {
        let mut m = in_file(64, Settings { commit_mode, ..Settings::default() }, 100);
        let data = first_data(&m, m.engine.geometry().data_blocks);
        let mut written = first_data(&m, 100);
        let contents: Vec<_> = (0..1500).map(|i| pattern(i, 4096)).collect();
        for (i, content) in contents.iter().enumerate() {
            m.write(4096 * i as u64, content);
            m.flush();
            m.pass_ms(1);
        }
        let fills: Vec<_> = m
            .history
            .iter()
            .filter_map(|done| if let Done::Fill { first, blocks } = done { Some((*first, *blocks)) } else { None })
            .collect();
        assert!(fills.len() >= 4, "{commit_mode:?}: {fills:?}");
        for &(first, blocks) in &fills {
            assert!(blocks <= PIECE && data.contains(&first), "{commit_mode:?}: {fills:?}");
            assert!(first / PIECE == (first + blocks - 1) / PIECE, "{commit_mode:?}: a piece is aligned on the store");
        }
        let filled: usize = fills.iter().map(|(_, blocks)| blocks).sum();
        assert_eq!(m.engine.ledger().filled_bytes, (filled * BLOCK_SIZE) as u64);
        written.end = written.end.max(fills.iter().map(|(first, blocks)| first + blocks).max().unwrap());
        let outside = data_written(&m, 0).into_iter().filter(|block| !written.contains(block)).count();
        assert!(outside < 70, "{commit_mode:?}: {outside} blocks where the host had not written");
        for (i, content) in contents.iter().enumerate() {
            assert_eq!(&m.read(4096 * i as u64, 4096), content, "{commit_mode:?}: LBN {i}");
        }
        let mut m = Machine::open(m.close(), Settings { commit_mode, ..Settings::default() });
        assert_eq!(m.read(4096 * 1499, 4096), contents[1499], "{commit_mode:?}");
    }
}

#[test]
fn space_goes_back_to_a_file_in_whole_pieces_but_for_the_stock() {
    for commit_mode in MODES {
        let settings = Settings { commit_mode, discard_freed: true, keep_ms: 1000, ..Settings::default() };
        let mut m = in_file(256, settings.with_knobs(|knobs| knobs.discard_batch_blocks = 4), 1024);
        m.write(0, &pattern(1, 4096 * 10_000));
        m.flush();
        m.request(Op::Discard, 0, 4096 * 10_000, None, false);
        m.flush();
        (0..20).for_each(|i| {
            m.write(50 << 20, &pattern(50 + i, 4096));
            m.flush();
            m.pass_ms(2_000);
        });
        let mut given = 0;
        for done in &m.history {
            if let Done::Discard { first, blocks } = *done {
                assert_eq!((blocks, first % PIECE), (PIECE, 0), "{commit_mode:?}: a hole of {blocks} blocks at {first}");
                given += blocks;
            }
        }
        let stock = index(stock_of(&m));
        assert!((7_000..=11_000 - stock).contains(&given), "{commit_mode:?}: {given} of 10,000 given back, with a stock of {stock}");
        m.close();
    }
}

#[test]
fn a_device_has_no_stock() {
    for commit_mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), Settings { commit_mode, ..Settings::default() });
        for i in 0..500 {
            m.write(4096 * i, &pattern(i, 4096));
            m.flush();
        }
        m.pass_ms(1_000);
        assert_eq!(m.engine.ledger().filled_bytes, 0, "{commit_mode:?}");
        assert!(!m.history.iter().any(|done| matches!(done, Done::Fill { .. })), "{commit_mode:?}");
    }
}
