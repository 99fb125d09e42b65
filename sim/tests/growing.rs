//! Volumes that grow, cut off at each operation: runs of the explorer's kind for that alone.

use fastrand::Rng;
use onefold_engine::format::CommitMode;
use onefold_sim::explorer::explore::Explorer;
use onefold_sim::explorer::growing;
use onefold_sim::explorer::options::{Modes, Options};
use onefold_sim::ground::record;

/// The number of runs in each of the modes.
fn runs() -> u64 {
    std::env::var("ONEFOLD_GROWING_RUNS").map_or(8, |runs| runs.parse().expect("ONEFOLD_GROWING_RUNS is a number"))
}

fn grow(modes: Modes) {
    let mut explorer = Explorer::new(modes).expect("volumes to begin with");
    let run = |explorer: &mut Explorer, seed| {
        let mut rng = Rng::with_seed(seed);
        let options = Options::draw_in(modes, &mut rng);
        let options = if rng.bool() { options.filling() } else { options };
        growing::run(explorer, options, &mut rng)
    };
    for seed in 0..runs() {
        if let Err(violation) = run(&mut explorer, seed) {
            record::begin();
            let _again = run(&mut explorer, seed);
            let history = record::end();
            let last = &history[history.len().saturating_sub(60)..];
            panic!("{modes:?}, seed {seed}: {violation}\n{}", last.join("\n"));
        }
    }
    assert!(explorer.coverage.opened > 20 * runs(), "{} states were opened", explorer.coverage.opened);
}

#[test]
fn a_volume_grows_in_mode_log() {
    grow(Modes::One(CommitMode::Log));
}

#[test]
fn a_volume_grows_in_mode_ordered() {
    grow(Modes::One(CommitMode::Ordered));
}

#[test]
fn a_volume_grows_from_one_mode_into_the_other() {
    grow(Modes::Any);
}
