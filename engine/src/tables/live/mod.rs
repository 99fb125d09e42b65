//! The live records: effects of committed epochs that pages on the medium do not hold yet.
//!
//! 1. Every effect newer than the last that was forgotten is here, in the order of commit. A page as the medium holds it, with these
//!    applied, is the page as it is after the last commit.
//! 2. Effects are kept in pieces, as [`Effect::pieces`] cuts them. The part of a piece that changes map and refs is kept apart from the
//!    part that changes fingerprints: the second is forgotten earlier, when the first has been compacted.
//! 3. They take little: 16 to 32 bytes a piece, 20 more with a fingerprint entry, four for each short name, and four at most for their
//!    place in chains.
//!
//! The pieces are the nodes of [`nodes`]; [`chains`] finds those that touch a page.

mod chains;
mod node;
mod nodes;

#[cfg(test)]
mod tests;

use crate::format::page::{PageContent, PageId, Region, SECTORS};
use crate::map::Map;
use crate::tables::effect::Effect;
use crate::units::Epoch;
use chains::Heads;
use node::{Chain, Node, keys};
use nodes::{NodePlace, Nodes};

/// Granules of new or old blocks whose counts stand in one refs page.
const GRANULES: u64 = Region::Refs.entries_per_page() / Region::Fingerprints.entries_per_page();

const _: () = assert!(Region::Refs.entries_per_page() % Region::Fingerprints.entries_per_page() == 0);

/// All live records.
pub(crate) struct Live {
    /// The pieces that change map and refs.
    links: Pieces,
    /// The pieces that change fingerprints.
    names: Pieces,
    newest: Epoch,
    /// The oldest of the links that is in no compacted unit, or an older one that was forgotten.
    compacted: NodePlace,
}

/// Pieces of effects, oldest first, and how a page finds them.
struct Pieces {
    nodes: Nodes,
    heads: Heads,
}

/// Live records that an opening reads. Chains are made at once when all of them are there: that takes a fraction of the time that making
/// them takes while their buckets grow.
pub(crate) struct UnlinkedRecords(Live);

impl Default for UnlinkedRecords {
    fn default() -> Self {
        Self(Live::new(0))
    }
}

impl UnlinkedRecords {
    /// These, to be added to.
    pub fn of(mut live: Live) -> Self {
        for pieces in [&mut live.links, &mut live.names] {
            pieces.heads = Heads::new(&pieces.nodes, 0);
        }
        Self(live)
    }

    /// Does the same as [`Live::push`].
    ///
    /// # Panics
    /// As there.
    pub fn push(&mut self, epoch: Epoch, effect: &Effect<'_>) {
        self.0.each_piece(epoch, effect, |pieces, piece| pieces.nodes.add(epoch, piece));
    }

    /// The number of records.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Bytes of memory that they take so far.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// All of them, to be found by page.
    pub fn chained(self) -> Live {
        let mut live = self.0;
        for pieces in [&mut live.links, &mut live.names] {
            pieces.heads = Heads::of(&mut pieces.nodes);
        }
        live
    }
}

impl Live {
    /// No records yet, and chains for as many pieces of each kind as are expected: beyond them a push takes about three times as long, for
    /// it makes chains too. Chains take three bytes for each piece.
    pub fn new(expected: u64) -> Self {
        Self::starting_at(0, expected)
    }

    /// Does the same as [`Self::new`]; nodes are numbered from about `first` on.
    fn starting_at(first: u32, expected: u64) -> Self {
        let (links, names) = (Pieces::starting_at(first, expected), Pieces::starting_at(first, expected));
        Self { compacted: links.nodes.end(), links, names, newest: Epoch(0) }
    }

    /// Adds the effect of a record of a committed epoch.
    ///
    /// # Panics
    /// When the epoch is older than the last one, the effect is none, or 8 GiB of them live: bugs of the caller, who has a budget.
    pub fn push(&mut self, epoch: Epoch, effect: &Effect<'_>) {
        self.each_piece(epoch, effect, |pieces, piece| pieces.push(epoch, piece));
    }

    fn each_piece(&mut self, epoch: Epoch, effect: &Effect<'_>, push: impl Fn(&mut Pieces, &Effect<'_>)) {
        assert!(epoch >= self.newest, "{epoch} is committed after {}", self.newest);
        effect.check();
        self.newest = epoch;
        for piece in effect.pieces() {
            let (links, names) = piece.apart();
            // A new block without a link counts, and so does an entry that goes.
            push(&mut self.links, &links);
            names.iter().for_each(|names| push(&mut self.names, names));
        }
    }

    /// Makes a page that was read from the medium the page as it is after this epoch. Leaves effects out that the page has already, by the
    /// tags of its sectors. Returns whether there was any other.
    pub fn apply(&self, upto: Epoch, id: PageId, content: &mut PageContent) -> bool {
        let oldest = (0..SECTORS).map(|sector| content.tag(sector)).min().unwrap_or(0);
        let pieces = self.of(id.region);
        let mut places: Vec<NodePlace> = pieces.on(id).collect();
        // A refs page has forty chains, and a node may be in two of them.
        places.sort_unstable_by_key(|&place| pieces.nodes.age(place));
        places.dedup();
        let mut changes = false;
        for place in places {
            let node = pieces.nodes.get(place);
            if node.epoch() > upto {
                break;
            }
            changes |= node.epoch().get() > oldest;
            node.effect().replay(node.epoch(), id, content);
        }
        changes
    }

    /// The last epoch up to this one that changed this page, if a live record did.
    pub fn newest_on(&self, id: PageId, upto: Epoch) -> Option<Epoch> {
        let pieces = self.of(id.region);
        let epochs = |chain| Iterator::map(chain, |place| pieces.nodes.get(place).epoch());
        pieces.chains_on(id).filter_map(|chain| epochs(chain).find(|&epoch| epoch <= upto)).max()
    }

    /// Whether live records change this page.
    pub fn touches(&self, id: PageId) -> bool {
        self.of(id.region).on(id).next().is_some()
    }

    fn of(&self, region: Region) -> &Pieces {
        if region == Region::Fingerprints { &self.names } else { &self.links }
    }

    /// The pages that records up to this epoch change, in order.
    pub fn pages(&self, upto: Epoch) -> impl Iterator<Item = PageId> + use<> {
        let refs = |node: Node<'_>| [Chain::New, Chain::Old].map(|chain| node.key(chain).map(|granule| u64::from(granule) / GRANULES));
        let map = |node: Node<'_>| [node.key(Chain::Map).map(u64::from)];
        let of = |region, numbers: Vec<u64>| numbers.into_iter().map(move |index| PageId { region, index });
        let links = || self.links.nodes.iter().take_while(|node| node.epoch() <= upto);
        let refs = of(Region::Refs, numbers(links(), refs));
        refs.chain(self.name_pages(upto)).chain(of(Region::Map, numbers(links(), map)))
    }

    /// The fingerprints pages that records up to this epoch change, in order.
    pub fn name_pages(&self, upto: Epoch) -> impl Iterator<Item = PageId> + use<> {
        let nodes = self.names.nodes.iter().take_while(|node| node.epoch() <= upto);
        let numbers = numbers(nodes, |node| [node.key(Chain::New).map(u64::from)]);
        numbers.into_iter().map(|index| PageId { region: Region::Fingerprints, index })
    }

    /// Forgets the effects of epochs up to this one: the pages hold them, with their tags, flushed.
    pub fn forget_upto(&mut self, epoch: Epoch) {
        self.links.forget_upto(epoch);
        self.names.forget_upto(epoch);
        self.compacted = self.links.nodes.at_least_oldest(self.compacted);
    }

    /// The effects on map and refs that no compacted unit holds, oldest first.
    pub fn not_compacted(&self) -> impl Iterator<Item = (Epoch, Effect<'_>)> {
        self.links.nodes.iter_from(self.compacted).map(|node| (node.epoch(), node.effect()))
    }

    /// Notes that compacted units hold the effects of epochs up to this one on map and refs, and the pages of fingerprints the rest,
    /// flushed.
    pub fn compacted_upto(&mut self, epoch: Epoch) {
        self.compacted = self.links.nodes.behind(self.compacted, epoch);
        self.names.forget_upto(epoch);
    }

    /// The number of records, each run that lies within its pages counted once.
    pub fn len(&self) -> u64 {
        self.links.nodes.len()
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> u64 {
        self.links.bytes() + self.names.bytes()
    }
}

/// The numbers that `of` gives for the nodes, each once, in order.
fn numbers<'a, const N: usize>(nodes: impl Iterator<Item = Node<'a>>, of: impl Fn(Node<'a>) -> [Option<u64>; N]) -> Vec<u64> {
    let mut seen = Map::default();
    seen.extend(nodes.flat_map(of).flatten().map(|number| (number, ())));
    let mut numbers: Vec<u64> = seen.into_keys().collect();
    numbers.sort_unstable();
    numbers
}

impl Pieces {
    fn starting_at(first: u32, expected: u64) -> Self {
        let nodes = Nodes::new(first);
        Self { heads: Heads::new(&nodes, expected), nodes }
    }

    fn push(&mut self, epoch: Epoch, piece: &Effect<'_>) {
        let place = self.nodes.next(epoch, piece);
        let links = self.heads.put(keys(piece), place);
        self.nodes.push(epoch, piece, links);
        self.heads.grow(&mut self.nodes);
    }

    fn forget_upto(&mut self, epoch: Epoch) {
        self.nodes.forget_upto(epoch);
        self.heads.forget(&self.nodes);
    }

    fn bytes(&self) -> u64 {
        self.nodes.bytes() + self.heads.bytes()
    }

    /// The nodes that change a page, chain for chain.
    fn on(&self, id: PageId) -> impl Iterator<Item = NodePlace> {
        self.chains_on(id).flatten()
    }

    /// The chains of nodes that change a page, in each the newest first.
    fn chains_on(&self, id: PageId) -> impl Iterator<Item = impl Iterator<Item = NodePlace>> {
        let (chains, keys): (&[Chain], _) = match id.region {
            Region::Written => (&[], 0..0),
            Region::Map => (&[Chain::Map], id.index..id.index + 1),
            Region::Fingerprints => (&[Chain::New], id.index..id.index + 1),
            Region::Refs => (&[Chain::New, Chain::Old], id.index * GRANULES..(id.index + 1) * GRANULES),
        };
        keys.filter_map(|key| u32::try_from(key).ok())
            .flat_map(move |key| chains.iter().map(move |&chain| self.heads.chain(&self.nodes, chain, key)))
    }

    /// All, oldest first.
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = (Epoch, Effect<'_>)> {
        self.nodes.iter().map(|node| (node.epoch(), node.effect()))
    }

    /// Asserts the invariants, at the cost of a traversal of all.
    #[cfg(test)]
    fn self_check(&self) {
        self.heads.self_check(&self.nodes);
    }
}
