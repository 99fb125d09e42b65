//! The test kit: simulated devices, oracle, checkers, crash explorer.

pub mod content;
pub mod record;
pub mod violation;
pub mod watchdog;
pub mod words;

pub mod disk;
mod objection;
pub mod oracle;
pub mod ring;
pub mod sin;
pub mod squeeze;

pub mod tell;
pub mod transcript;
pub mod volume;

pub mod checker;
pub mod limits;
pub mod logcheck;
pub mod ringcheck;
pub mod setcheck;
pub mod tables;
pub mod traffic;

pub mod account;
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
pub mod kind;
pub mod life;
pub mod plan;
pub mod spoil;

#[cfg(feature = "measure")]
pub mod baselines;
#[cfg(feature = "measure")]
pub mod codecs;
#[cfg(feature = "measure")]
pub mod counts;
#[cfg(feature = "measure")]
pub mod figure;
#[cfg(feature = "measure")]
pub mod papers;
#[cfg(feature = "measure")]
pub mod replay;
#[cfg(feature = "measure")]
pub mod steps;
#[cfg(feature = "measure")]
pub mod transcripts;
