//! The test kit: simulated devices, oracle, checkers, crash explorer.

pub mod content;
pub mod record;
pub mod violation;
pub mod watchdog;

pub mod disk;
pub mod oracle;
pub mod ring;
pub mod sin;

pub mod tell;
pub mod volume;

pub mod setcheck;
pub mod tables;
pub mod traffic;

pub mod client;
pub mod machine;
pub mod options;
pub mod prepare;
pub mod world;

pub mod audit;
pub mod cuts;
pub mod states;

pub mod crash;
pub mod explore;
pub mod failing;
pub mod formatting;
pub mod life;
pub mod mutants;
pub mod spoil;

pub mod baselines;
pub mod counts;
pub mod figure;
pub mod papers;
pub mod replay;
pub mod steps;
