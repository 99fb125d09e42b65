//! The rules that are in force, in the form in which requests are compared with them.
//!
//! 1. Conditions on what the kernel knew of a request are compared with each run of its blocks; those on LBNs with each block.
//! 2. A file that a rule names by its path is known by its inode and the generation of that, where the observer saw that; content of others
//!    in its old place is not its own. Where nothing was seen, its place when the rule was made has to do.

use super::groups::each_below;
use super::kept::{Kept, Numbered, name_stream};
use super::rule::{Lives, Marked, Range, Rule, policy_of};
use onefold_engine::policy::{Policy, Stream};
use onefold_observer::{File, Lifetime, Observation, Source};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use wildmatch::WildMatch;

/// The rules in force.
#[derive(Default)]
pub struct Live {
    rules: Vec<LiveRule>,
    /// The names of streams, from number 1 on: those of the volume, and behind them those of its configuration.
    streams: Vec<String>,
    pub(super) spares_compressed: bool,
    /// The blocks that the files of `spares_compressed` have brought.
    pub(super) compressed: AtomicU64,
}

/// A rule in force, and the blocks that have matched.
struct LiveRule {
    /// Its number in the volume; none if it is from the configuration.
    number: Option<u32>,
    rule: Rule,
    policy: Policy,
    file: Option<WildMatch>,
    cgroups: HashSet<u64>,
    files: Files,
    matched: AtomicU64,
}

/// The files that a rule names by their paths.
#[derive(Default)]
struct Files {
    /// Their inodes with their generations, by the place of their file system.
    inodes: HashSet<(Range, u64, u32)>,
    /// The places of their file systems.
    within: Vec<Range>,
    /// The places of their content at the time of the command, in order.
    ranges: Vec<Range>,
}

/// A rule, and the number of blocks that have matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    pub number: Option<u32>,
    pub rule: Rule,
    pub blocks: u64,
}

impl Live {
    /// Puts the rules of a volume, and those of its configuration, in force. Rules that were in force before go on counting.
    #[must_use]
    pub fn new(kept: &Kept, configured: &[Rule], before: &Self) -> Self {
        let of_volume = kept.rules.iter().map(|Numbered { number, rule }| (Some(*number), rule));
        let of_configuration = configured.iter().map(|rule| (None, rule));
        let mut streams = kept.streams.clone();
        let rules = of_volume.chain(of_configuration).map(|(number, rule)| {
            let stream = rule.stream.as_deref().and_then(|name| name_stream(&mut streams, name)).unwrap_or_default();
            let known = before.rules.iter().find(|known| known.number == number && known.rule == *rule);
            LiveRule::new(number, rule.clone(), stream, known.map_or(0, |known| known.matched.load(Ordering::Relaxed)))
        });
        let compressed = before.compressed.load(Ordering::Relaxed).into();
        let rules = rules.collect();
        Self { rules, streams, spares_compressed: kept.spares_compressed, compressed }
    }

    /// Whether no request can match.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty() && !self.spares_compressed
    }

    /// Whether some rule needs to know files, names of files, and reads.
    pub(super) fn wants(&self) -> onefold_observer::Wants {
        let names = self.spares_compressed || self.rules.iter().any(|rule| rule.file.is_some());
        let files = names || self.rules.iter().any(|rule| rule.rule.wants_files());
        onefold_observer::Wants { files, names, reads: self.minds_reads() }
    }

    /// Whether some rule says something of reads.
    pub(super) fn minds_reads(&self) -> bool {
        self.rules.iter().any(|rule| rule.policy.is_prefetched())
    }

    /// Whether some rule is about LBNs, so that it is to be compared with each block.
    pub(super) fn minds_lbns(&self) -> bool {
        self.rules.iter().any(|rule| rule.rule.lbn.is_some() || !rule.files.ranges.is_empty())
    }

    /// The policy for a run of blocks, from `first` to before `end`, of which this was seen; and counts them. The blocks are one if some
    /// rule is about LBNs.
    pub(super) fn policy(&self, first: u64, end: u64, seen: Option<&Observation>) -> Policy {
        let mut policy = Policy::DEFAULT;
        for rule in self.rules.iter().filter(|rule| rule.matches(first, seen)) {
            rule.matched.fetch_add(end - first, Ordering::Relaxed);
            policy = policy.and(rule.policy);
        }
        let name = seen.and_then(|seen| seen.file.as_ref()?.name.as_ref());
        if self.spares_compressed && name.is_some_and(|name| super::extensions::is_compressed(name.as_bytes())) {
            self.compressed.fetch_add(end - first, Ordering::Relaxed);
            policy = policy.plain();
        }
        policy
    }

    /// Each rule, with the number of blocks that have matched.
    pub(super) fn matched(&self) -> impl Iterator<Item = Matched> + '_ {
        let matched =
            |rule: &LiveRule| Matched { number: rule.number, rule: rule.rule.clone(), blocks: rule.matched.load(Ordering::Relaxed) };
        self.rules.iter().map(matched)
    }

    /// The names of streams, from number 1 on.
    pub(super) fn streams(&self) -> &[String] {
        &self.streams
    }

    /// The LBNs that rules have protected.
    pub(super) fn protected(&self) -> impl Iterator<Item = Range> + '_ {
        self.rules.iter().filter_map(|rule| rule.rule.protected())
    }

    /// Whether a rule names control groups, which may come and go.
    pub(super) fn minds_cgroups(&self) -> bool {
        self.rules.iter().any(|rule| rule.rule.cgroup.is_some())
    }
}

impl LiveRule {
    fn new(number: Option<u32>, rule: Rule, stream: Stream, matched: u64) -> Self {
        let policy = policy_of(&rule.act).of_stream(stream);
        let file = rule.file.as_deref().map(WildMatch::new);
        let cgroups = rule.cgroup.as_deref().map(groups_below).unwrap_or_default();
        let files = Files::of(&rule.files);
        Self { number, rule, policy, file, cgroups, files, matched: matched.into() }
    }

    fn matches(&self, lbn: u64, seen: Option<&Observation>) -> bool {
        let Rule { process, cgroup, uid, meta, lifetime, lbn: range, files, .. } = &self.rule;
        let file = seen.and_then(|seen| seen.file.as_ref());
        let name = file.and_then(|file| file.name.as_ref());
        range.is_none_or(|range| range.has(lbn))
            && (!meta || seen.is_some_and(|seen| seen.meta))
            && lifetime.is_none_or(|lives| seen.is_some_and(|seen| is_lifetime(lives, seen.lifetime)))
            && process.as_ref().is_none_or(|name| seen.is_some_and(|seen| seen.comm.as_bytes() == name.as_bytes()))
            && (cgroup.is_none() || seen.is_some_and(|seen| self.cgroups.contains(&seen.cgroup)))
            && uid.is_none_or(|uid| file.is_some_and(|file| has_owner(file) && file.uid == uid))
            && self.file.as_ref().is_none_or(|glob| name.is_some_and(|name| glob.matches(&String::from_utf8_lossy(name.as_bytes()))))
            && (files.is_empty() || self.files.has(lbn, seen, file))
    }
}

impl Files {
    fn of(marked: &[Marked]) -> Self {
        let mut within: Vec<Range> = marked.iter().map(|file| file.within).collect();
        within.sort_unstable();
        within.dedup();
        let mut ranges: Vec<Range> = marked.iter().flat_map(|file| file.ranges.iter().copied()).collect();
        ranges.sort_unstable();
        Self { inodes: marked.iter().map(|file| (file.within, file.inode, file.generation)).collect(), within, ranges }
    }

    /// Whether a file of the file system that has this LBN is one of them.
    fn has_file(&self, lbn: u64, file: &File) -> bool {
        self.within.iter().any(|within| within.has(lbn) && self.inodes.contains(&(*within, file.inode, file.generation)))
    }

    fn has(&self, lbn: u64, seen: Option<&Observation>, file: Option<&File>) -> bool {
        match (seen, file) {
            (_, Some(file)) => self.has_file(lbn, file),
            (Some(seen), None) if seen.meta => false,
            _ => {
                let behind = self.ranges.partition_point(|range| range.first <= lbn);
                self.ranges[..behind].last().is_some_and(|range| range.has(lbn))
            }
        }
    }
}

/// Whether it is a file of somebody: what the file system keeps for itself is not.
const fn has_owner(file: &File) -> bool {
    file.inode != 0 && !matches!(file.source, Source::DiskCache)
}

fn is_lifetime(wanted: Lives, seen: Lifetime) -> bool {
    matches!(
        (wanted, seen),
        (Lives::Short, Lifetime::Short)
            | (Lives::Medium, Lifetime::Medium)
            | (Lives::Long, Lifetime::Long)
            | (Lives::Extreme, Lifetime::Extreme)
    )
}

/// The numbers of a control group and of those below it; none if there is no such group now.
fn groups_below(path: &str) -> HashSet<u64> {
    let mut found = HashSet::new();
    each_below(path, |_, number| {
        found.insert(number);
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::rule::Act;
    use onefold_observer::Operation;

    fn live(rule: Rule) -> Live {
        Live::new(&Kept { spares_compressed: false, ..Kept::default() }, &[rule], &Live::default())
    }

    fn rule() -> Rule {
        Rule { act: vec![Act::Nodedup], ..Rule::default() }
    }

    fn seen(change: impl FnOnce(&mut Observation)) -> Observation {
        let mut seen = Observation::new(Operation::Write);
        change(&mut seen);
        seen
    }

    fn of_file(inode: u64, name: &str) -> Observation {
        seen(|seen| seen.file = Some(File::new(Source::PageCache, inode, Some(name.as_bytes()))))
    }

    fn matches(live: &Live, lbn: u64, seen: Option<&Observation>) -> bool {
        live.policy(lbn, lbn + 1, seen).is_apart()
    }

    #[test]
    fn all_conditions_have_to_hold() {
        let live = live(Rule { file: Some("*.raw".into()), meta: true, lbn: Some(Range { first: 5, end: 8 }), ..rule() });
        let both = seen(|seen| (seen.meta, seen.file) = (true, of_file(1, "a.raw").file));
        assert!(matches(&live, 5, Some(&both)) && matches(&live, 7, Some(&both)));
        assert!(!matches(&live, 8, Some(&both)) && !matches(&live, 4, Some(&both)), "outside");
        assert!(!matches(&live, 5, Some(&of_file(1, "a.raw"))), "no metadata");
        assert!(!matches(&live, 5, None), "nothing is known");
        let counted: Vec<u64> = live.matched().map(|matched| matched.blocks).collect();
        assert_eq!(counted, [2]);
    }

    #[test]
    fn a_file_is_known_by_its_inode_and_only_unseen_by_its_place() {
        let within = Range { first: 100, end: 200 };
        let marked = Marked { path: "/mnt/a".into(), inode: 12, generation: 0, within, ranges: vec![Range { first: 110, end: 112 }] };
        let live = live(Rule { files: vec![marked], ..rule() });
        assert!(matches(&live, 150, Some(&of_file(12, "anything"))), "it has grown, and was renamed");
        assert!(!matches(&live, 110, Some(&of_file(13, "a"))), "another file took its place");
        let mut later = of_file(12, "a");
        later.file.as_mut().expect("it has one").generation = 1;
        assert!(!matches(&live, 150, Some(&later)), "a later file got its number");
        assert!(!matches(&live, 50, Some(&of_file(12, "a"))), "the inode of another file system");
        assert!(matches(&live, 111, None) && !matches(&live, 112, None), "its place has to do");
        let metadata = seen(|seen| seen.meta = true);
        assert!(!matches(&live, 111, Some(&metadata)));
    }

    #[test]
    fn files_that_are_compressed_are_known_by_their_names() {
        let live = Live::new(&Kept::default(), &[], &Live::default());
        assert!(!live.policy(0, 3, Some(&of_file(1, "a.mp4"))).compresses());
        assert!(live.policy(0, 3, Some(&of_file(1, "a.txt"))).compresses());
        assert_eq!(live.compressed.load(Ordering::Relaxed), 3);
        assert!(live.wants().names && !live.wants().reads);
    }

    #[test]
    fn a_stream_has_a_number_and_files_an_owner() {
        let of = |stream: &str, uid| Rule { stream: Some(stream.into()), uid: Some(uid), ..Rule::default() };
        let mut kept = Kept { spares_compressed: false, ..Kept::default() };
        kept.add(vec![of("mail", 1000), of("photos", 1001), of("mail", 1002)]).expect("there is room");
        let live = Live::new(&kept, &[of("maps", 1003)], &Live::default());
        assert_eq!(live.streams(), ["mail", "photos", "maps"]);
        let number = |uid, source| {
            let mut file = File::new(source, 7, None);
            file.uid = uid;
            live.policy(0, 1, Some(&seen(|seen| seen.file = Some(file)))).stream().number()
        };
        assert_eq!([1000, 1001, 1002, 1003, 1004].map(|uid| number(uid, Source::PageCache)), [1, 2, 1, 3, 0]);
        assert_eq!(number(1000, Source::DiskCache), 0, "metadata of the file system");
        let names = (0..20).map(|number| of(&format!("s{number}"), number)).collect();
        assert!(kept.add(names).expect_err("there are too many").message.contains("s13"), "13 more than two");
    }

    /// A rule that stays goes on counting when others come.
    #[test]
    fn counts_outlive_a_change_of_the_rules() {
        let kept = |rules: Vec<Rule>| {
            let mut kept = Kept { spares_compressed: false, ..Kept::default() };
            kept.add(rules).expect("they name no stream");
            kept
        };
        let first = Rule { meta: true, ..rule() };
        let before = Live::new(&kept(vec![first.clone()]), &[], &Live::default());
        before.policy(0, 7, Some(&seen(|seen| seen.meta = true)));
        let after = Live::new(&kept(vec![first, Rule { process: Some("dd".into()), ..rule() }]), &[], &before);
        assert_eq!(after.matched().map(|matched| matched.blocks).collect::<Vec<_>>(), [7, 0]);
    }
}
