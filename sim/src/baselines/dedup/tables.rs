//! Map, index, names and links, as a rival holds them in memory: the newest state, committed or not.
//!
//! A block's links count its fingerprint, so that content outlives its last LBN and is found again (Dmdedup's reference counts do the same:
//! 2 for a new block). What only its fingerprint holds is *kept*; it is collected when space is short. Dmdedup collects by a command that
//! walks the hash index, offline; here all that is kept goes at once (or as much as an epoch holds) when a request finds no room: as late as
//! can be.

use super::super::Settings;
use super::Changes;
use onefold_engine::fingerprint::{Digest, Fingerprint};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// What a scheme's structures can hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Blocks for content, and the block of the device where the first lies.
    pub data_blocks: u64,
    pub data_first: u64,
    /// The most links of a block.
    pub links_max: u32,
    /// Whether zeros are content like any other. Else they are not mapped.
    pub zero_is_content: bool,
}

/// What one written block turned out to be.
pub enum Kind {
    /// To be written to this PBN.
    New(u64),
    Duplicate,
    Unchanged,
    Zero,
}

const UNMAPPED: u64 = u64::MAX;

/// The metadata.
pub struct Tables {
    pub limits: Limits,
    map: Vec<u64>,
    index: FxHashMap<Fingerprint, u64>,
    names: FxHashMap<u64, Fingerprint>,
    links: Vec<u32>,
    /// Blocks never used begin here.
    fresh: u64,
    /// Blocks that were used and are free.
    returned: BTreeSet<u64>,
    kept: u64,
}

impl Tables {
    pub fn new(settings: &Settings, limits: Limits) -> Self {
        let words = |n: u64| usize::try_from(n).expect("tables of a simulated volume fit into memory");
        Self {
            limits,
            map: vec![UNMAPPED; words(settings.logical.0)],
            index: FxHashMap::default(),
            names: FxHashMap::default(),
            links: vec![0; words(limits.data_blocks)],
            fresh: 0,
            returned: BTreeSet::new(),
            kept: 0,
        }
    }

    /// Where an LBN's content lies.
    #[allow(clippy::cast_possible_truncation)] // the vector has an entry for every LBN
    pub fn at(&self, lbn: u64) -> Option<u64> {
        let pbn = self.map[lbn as usize];
        (pbn != UNMAPPED).then_some(pbn)
    }

    /// Blocks that could be written now.
    pub fn free(&self) -> u64 {
        self.limits.data_blocks - self.fresh + self.returned.len() as u64
    }

    /// Blocks that only their fingerprint holds.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Blocks that hold something, or will until a commit is durable.
    pub fn used(&self) -> u64 {
        self.limits.data_blocks - self.free()
    }

    /// Links an LBN to its new content.
    ///
    /// # Panics
    /// When there is no free block: the caller has looked before.
    pub fn write(&mut self, lbn: u64, digest: Digest, pinned: impl Fn(u64) -> bool, changes: &mut Changes) -> Kind {
        let name = match digest {
            Digest::Of(name) => name,
            Digest::Zero if self.limits.zero_is_content => Fingerprint([0; 20]),
            Digest::Zero => {
                self.unmap(lbn, changes);
                return Kind::Zero;
            }
            Digest::Partial => unreachable!("only whole blocks are admitted"),
        };
        let old = self.at(lbn);
        let known = self.index.get(&name).copied();
        if known.is_some() && known == old {
            return Kind::Unchanged;
        }
        let (pbn, kind) = match known.filter(|&pbn| self.links(pbn) < self.limits.links_max) {
            Some(pbn) => (pbn, Kind::Duplicate),
            None => {
                let pbn = self.allocate(pinned);
                self.index.insert(name, pbn);
                self.names.insert(pbn, name);
                changes.names.insert(pbn, (name, true));
                self.add(pbn, 1, changes);
                (pbn, Kind::New(pbn))
            }
        };
        self.add(pbn, 1, changes);
        self.set(lbn, pbn, changes);
        if let Some(old) = old {
            self.add(old, -1, changes);
        }
        kind
    }

    /// Takes an LBN's content away; whether it had any.
    pub fn unmap(&mut self, lbn: u64, changes: &mut Changes) -> bool {
        let Some(old) = self.at(lbn) else { return false };
        self.set(lbn, UNMAPPED, changes);
        self.add(old, -1, changes);
        true
    }

    /// Takes the fingerprint from kept blocks, `most` of them. They are free when these changes are durable.
    pub fn collect(&mut self, most: usize, changes: &mut Changes) -> u64 {
        let kept: Vec<u64> = (0..self.fresh).filter(|&pbn| self.links(pbn) == 1).take(most).collect();
        for &pbn in &kept {
            let name = self.names.remove(&pbn).expect("a kept block has its fingerprint");
            if self.index.get(&name) == Some(&pbn) {
                self.index.remove(&name);
            }
            changes.names.insert(pbn, (name, false));
            self.add(pbn, -1, changes);
        }
        changes.freed.extend(&kept);
        kept.len() as u64
    }

    /// Takes back blocks that nothing links to any more, not even in what is durable.
    pub fn give_back(&mut self, freed: &[u64]) {
        self.returned.extend(freed);
    }

    /// The lowest block never used, else the lowest free one that nobody reads.
    fn allocate(&mut self, pinned: impl Fn(u64) -> bool) -> u64 {
        if self.fresh < self.limits.data_blocks {
            self.fresh += 1;
            return self.fresh - 1;
        }
        let pbn = *self.returned.iter().find(|&&pbn| !pinned(pbn)).expect("the caller saw a free block");
        self.returned.remove(&pbn);
        pbn
    }

    #[allow(clippy::cast_possible_truncation)] // as above
    fn links(&self, pbn: u64) -> u32 {
        self.links[pbn as usize]
    }

    #[allow(clippy::cast_possible_truncation)] // as above
    fn set(&mut self, lbn: u64, pbn: u64, changes: &mut Changes) {
        self.map[lbn as usize] = pbn;
        changes.map.insert(lbn, (pbn != UNMAPPED).then_some(pbn));
    }

    #[allow(clippy::cast_possible_truncation)] // as above
    fn add(&mut self, pbn: u64, n: i32, changes: &mut Changes) {
        let links = &mut self.links[pbn as usize];
        let before = *links;
        *links = before.checked_add_signed(n).expect("links are counted");
        self.kept += u64::from(*links == 1);
        self.kept -= u64::from(before == 1);
        changes.refs.insert(pbn, *links);
    }
}
