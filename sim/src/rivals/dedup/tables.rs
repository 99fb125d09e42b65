//! Map, index, fingerprints and links, as a rival holds them in memory: the newest state, committed or not.
//!
//! The links of a block include that of its fingerprint, so that content outlives its last LBN and is found again (Dmdedup's reference
//! counts do the same: 2 for a new block). A block that only its fingerprint refers to is *kept*; kept blocks are collected when space is
//! short. Dmdedup collects by a command that scans the hash index, offline; here all kept blocks are collected at once (or as many as an
//! epoch holds) when a request finds no room, which is as late as possible.
//!
//! A block that stays apart (the hint NODEDUP) has no fingerprint: its LBN is its one link, and it is free after the commit that takes it.

use super::Changes;
use crate::rivals::Settings;
use onefold_engine::fingerprint::{Digest, Fingerprint};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// The limits of a scheme's structures.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The number of blocks for content, and the device block where the first one lies.
    pub data_blocks: u64,
    pub data_first: u64,
    /// The largest number of links of a block.
    pub links_max: u32,
    /// Whether zeros are content like any other. Otherwise they are not mapped.
    pub zero_is_content: bool,
}

/// The classification of a written block.
pub enum WriteOutcome {
    /// New content, to be written to this PBN.
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
    /// The blocks in use that have no fingerprint.
    apart: FxHashSet<u64>,
    links: Vec<u32>,
    /// The first block that was never used.
    never_used: u64,
    /// Blocks that were used and are free.
    freed: BTreeSet<u64>,
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
            apart: FxHashSet::default(),
            links: vec![0; words(limits.data_blocks)],
            never_used: 0,
            freed: BTreeSet::new(),
            kept: 0,
        }
    }

    /// Returns the block that holds an LBN's content.
    #[allow(clippy::cast_possible_truncation)] // the vector has an entry for every LBN
    pub fn at(&self, lbn: u64) -> Option<u64> {
        let pbn = self.map[lbn as usize];
        (pbn != UNMAPPED).then_some(pbn)
    }

    /// Returns whether the index leads from this content to that block.
    pub fn is_at(&self, name: &Fingerprint, pbn: u64) -> bool {
        self.index.get(name) == Some(&pbn)
    }

    /// Returns the fingerprint of an LBN's content, and its block; none if there is no content, or it stays apart.
    pub fn name_at(&self, lbn: u64) -> Option<(Fingerprint, u64)> {
        let pbn = self.at(lbn)?;
        self.names.get(&pbn).map(|&name| (name, pbn))
    }

    /// Returns the number of blocks that could be written now.
    pub fn free(&self) -> u64 {
        self.limits.data_blocks - self.never_used + self.freed.len() as u64
    }

    /// Returns the number of blocks that only their fingerprint refers to.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Returns the number of blocks that hold something, or will until a commit is durable.
    pub fn used(&self) -> u64 {
        self.limits.data_blocks - self.free()
    }

    /// Links an LBN to its new content, which stays apart or is looked up.
    ///
    /// # Panics
    /// Panics if there is no free block: the caller has to check before.
    pub fn write(&mut self, lbn: u64, digest: Digest, apart: bool, pinned: impl Fn(u64) -> bool, changes: &mut Changes) -> WriteOutcome {
        let name = match digest {
            Digest::Of(name) => name,
            Digest::Zero if self.limits.zero_is_content => Fingerprint([0; 20]),
            Digest::Zero => {
                self.unmap(lbn, changes);
                return WriteOutcome::Zero;
            }
            Digest::Checksum(_) => unreachable!("a replay defers writes of the engine alone"),
            Digest::Partial => unreachable!("only whole blocks are admitted"),
        };
        let old = self.at(lbn);
        if apart {
            let pbn = self.allocate(pinned);
            self.apart.insert(pbn);
            self.add(pbn, 1, changes);
            self.set(lbn, pbn, changes);
            old.into_iter().for_each(|old| self.release(old, changes));
            return WriteOutcome::New(pbn);
        }
        let known = self.index.get(&name).copied();
        if known.is_some() && known == old {
            return WriteOutcome::Unchanged;
        }
        let (pbn, kind) = match known.filter(|&pbn| self.links(pbn) < self.limits.links_max) {
            Some(pbn) => (pbn, WriteOutcome::Duplicate),
            None => {
                let pbn = self.allocate(pinned);
                self.index.insert(name, pbn);
                self.names.insert(pbn, name);
                changes.names.insert(pbn, (name, true));
                self.add(pbn, 1, changes);
                (pbn, WriteOutcome::New(pbn))
            }
        };
        self.add(pbn, 1, changes);
        self.set(lbn, pbn, changes);
        old.into_iter().for_each(|old| self.release(old, changes));
        kind
    }

    /// Removes an LBN's content, and returns whether it had any.
    pub fn unmap(&mut self, lbn: u64, changes: &mut Changes) -> bool {
        let Some(old) = self.at(lbn) else { return false };
        self.set(lbn, UNMAPPED, changes);
        self.release(old, changes);
        true
    }

    /// Removes the fingerprints of up to `most` kept blocks. The blocks become free when these changes are durable.
    pub fn collect(&mut self, most: usize, changes: &mut Changes) -> u64 {
        let kept: Vec<u64> = (0..self.never_used).filter(|&pbn| self.links(pbn) == 1 && !self.apart.contains(&pbn)).take(most).collect();
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

    /// Returns blocks to the free ones; nothing links to them any more, not even in the durable state.
    pub fn give_back(&mut self, freed: &[u64]) {
        self.freed.extend(freed);
    }

    /// Allocates the lowest block that was never used or, if there is none, the lowest free block that is not being read.
    fn allocate(&mut self, pinned: impl Fn(u64) -> bool) -> u64 {
        if self.never_used < self.limits.data_blocks {
            self.never_used += 1;
            return self.never_used - 1;
        }
        let pbn = *self.freed.iter().find(|&&pbn| !pinned(pbn)).expect("the caller saw a free block");
        self.freed.remove(&pbn);
        pbn
    }

    #[allow(clippy::cast_possible_truncation)] // as above
    fn links(&self, pbn: u64) -> u32 {
        self.links[pbn as usize]
    }

    /// Takes an LBN's link from a block.
    fn release(&mut self, pbn: u64, changes: &mut Changes) {
        self.add(pbn, -1, changes);
        if self.apart.remove(&pbn) {
            changes.freed.push(pbn);
        }
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
        if !self.apart.contains(&pbn) {
            self.kept += u64::from(*links == 1);
            self.kept -= u64::from(before == 1);
        }
        changes.refs.insert(pbn, *links);
    }
}
