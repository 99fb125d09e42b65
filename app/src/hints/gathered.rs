//! The policies of a request as they are found, run by run.

use onefold_engine::policy::{Policies, Policy};

/// The policies so far: one for all blocks, as long as that is enough.
pub struct Gathered {
    first: u64,
    /// The block behind the last one that has its policy.
    end: u64,
    same: Policy,
    each: Vec<Policy>,
}

impl Gathered {
    /// Those of a request whose first block is this.
    pub fn new(first: u64) -> Self {
        Self { first, end: first, same: Policy::DEFAULT, each: Vec::new() }
    }

    /// Adds the policy of the blocks from `first` to before `end`, which follow the ones before.
    pub fn add(&mut self, first: u64, end: u64, policy: Policy) {
        debug_assert_eq!(first, self.end, "runs follow each other");
        if self.each.is_empty() && (self.end == self.first || self.same == policy) {
            self.same = policy;
        } else {
            if self.each.is_empty() {
                self.each = (self.first..self.end).map(|_| self.same).collect();
            }
            self.each.extend((first..end).map(|_| policy));
        }
        self.end = end;
    }

    /// The policies of all blocks.
    pub fn done(self) -> Policies {
        if self.each.is_empty() { Policies::Same(self.same) } else { Policies::Each(self.each.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_the_policy_of_its_run() {
        let (apart, plain) = (Policy::DEFAULT.apart(), Policy::DEFAULT.plain());
        let gather = |runs: &[(u64, Policy)]| {
            let mut gathered = Gathered::new(7);
            let mut at = 7;
            for &(blocks, policy) in runs {
                gathered.add(at, at + blocks, policy);
                at += blocks;
            }
            gathered.done()
        };
        let of = |policies: &Policies| (0..5).map(|i| policies.of(i)).collect::<Vec<_>>();
        assert!(matches!(gather(&[]), Policies::Same(Policy::DEFAULT)));
        assert!(matches!(gather(&[(2, apart), (3, apart)]), Policies::Same(policy) if policy == apart));
        assert_eq!(of(&gather(&[(2, apart), (1, plain), (2, apart)])), [apart, apart, plain, apart, apart]);
        assert_eq!(of(&gather(&[(1, Policy::DEFAULT), (4, plain)])), [Policy::DEFAULT, plain, plain, plain, plain]);
    }
}
