//! A workload of which every byte is known, and the trace that it has to give.

use super::common::Dice;
use super::common::nbd_client::*;
use super::{BLOCK, KEPT};
use onefold_trace::record::{ContentName, Op, Record};
use std::path::Path;

/// A request that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub op: Op,
    pub fua: bool,
    pub offset: u64,
    pub length: u64,
    pub content: Vec<u8>,
}

pub fn send(client: &mut Client, op: Op, fua: bool, offset: u64, content: &[u8], length: u64) -> Sent {
    let flags = if fua { FUA } else { 0 };
    let bytes = u32::try_from(length).unwrap();
    match op {
        Op::Write => client.write(flags, offset, content).unwrap(),
        Op::Read => drop(client.read(offset, bytes).unwrap()),
        Op::Flush => client.command(FLUSH, 0, 0, 0).unwrap(),
        Op::Discard => client.command(TRIM, flags, offset, bytes).unwrap(),
        Op::WriteZeroes => client.command(WRITE_ZEROES, flags, offset, bytes).unwrap(),
        Op::Mark => panic!("no request"),
    }
    Sent { op, fua, offset, length, content: content.to_vec() }
}

/// Makes a block of content number `n`: 0 is all zeros, every second one compresses well.
pub fn block(n: u64) -> Vec<u8> {
    let mut content = vec![0; BLOCK];
    if n > 0 {
        let random = if n % 2 == 0 { 1000 } else { BLOCK };
        Dice::new(n).fill(&mut content[..random]);
    }
    content
}

/// Sends requests of every kind, one after the other; writes of new and of known content, of parts of blocks and across blocks.
pub fn workload(client: &mut Client, dice: &mut Dice, requests: usize, first_block: u64, blocks: u64) -> Vec<Sent> {
    let mut sent = Vec::new();
    for _ in 0..requests {
        let many = 1 + dice.below(16);
        let at = (first_block + dice.below(blocks - many)) * BLOCK as u64;
        let fua = dice.below(4) == 0;
        let whole: Vec<u8> = (0..many).flat_map(|_| block(dice.below(40))).collect();
        let length = whole.len() as u64;
        sent.push(match dice.below(20) {
            0 => send(client, Op::Flush, false, 0, &[], 0),
            1 => send(client, Op::Read, false, at, &[], length),
            2 => send(client, Op::Discard, fua, at, &[], length),
            3 => send(client, Op::WriteZeroes, fua, at, &[], length),
            4 => send(client, Op::Write, fua, at, &whole[..whole.len() - 512], length - 512),
            5 => send(client, Op::Write, fua, at + 1024, &whole[..whole.len() - 1024], length - 1024),
            _ => send(client, Op::Write, fua, at, &whole, length),
        });
    }
    sent
}

/// Checks that a record equals what was sent, with its content under `name_of`.
pub fn assert_records(record: &Record, sent: &Sent, name_of: &dyn Fn(&[u8]) -> [u8; KEPT]) {
    assert_eq!((record.op, record.fua), (sent.op, sent.fua), "{sent:?}");
    assert_eq!((record.offset.get(), record.length.get()), (sent.offset, sent.length));
    assert_eq!((record.pid, &record.process), (None, &None));
    if sent.op != Op::Write || sent.offset % BLOCK as u64 != 0 {
        assert!(record.blocks.is_empty(), "{record:?}");
        return;
    }
    assert_eq!(record.blocks.len(), sent.content.len().div_ceil(BLOCK));
    for (found, content) in record.blocks.iter().zip(sent.content.chunks(BLOCK)) {
        let wanted = match content {
            part if part.len() < BLOCK => None,
            zeros if zeros.iter().all(|byte| *byte == 0) => Some(None),
            whole => Some(Some(name_of(whole))),
        };
        match (found.name, wanted) {
            (ContentName::Unknown, None) | (ContentName::Zero, Some(None)) => {}
            (ContentName::Of(found), Some(Some(wanted))) => assert!(found[..KEPT] == wanted && found[KEPT..] == [0; 4], "{sent:?}"),
            (found, wanted) => panic!("{found:?} where {wanted:?} was sent"),
        }
    }
}

pub fn kept(digest: &[u8]) -> [u8; KEPT] {
    digest[..KEPT].try_into().unwrap()
}

/// Checks that the blocks of the backing file have the fingerprints in the last request for them.
pub fn assert_store(store: &Path, records: &[Record], name_of: &dyn Fn(&[u8]) -> [u8; KEPT]) -> usize {
    let content = std::fs::read(store).unwrap();
    let mut last = vec![None; content.len() / BLOCK];
    for record in records {
        let first = (record.offset.get() / BLOCK as u64) as usize;
        let touched = if record.length.get() == 0 { 0 } else { record.blocks_touched() as usize };
        match record.op {
            Op::Write => (0..touched).for_each(|i| last[first + i] = record.blocks.get(i).map(|block| block.name)),
            Op::Discard | Op::WriteZeroes => last[first..first + touched].fill(Some(ContentName::Zero)),
            _ => {}
        }
    }
    let mut checked = 0;
    for (content, name) in content.chunks(BLOCK).zip(last) {
        match name {
            Some(ContentName::Zero) => assert!(content.iter().all(|byte| *byte == 0)),
            Some(ContentName::Of(bytes)) => assert_eq!(bytes[..KEPT], name_of(content)),
            Some(ContentName::Unknown) | None => continue,
        }
        checked += 1;
    }
    checked
}
