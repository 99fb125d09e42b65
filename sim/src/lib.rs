//! The test kit: simulated devices, oracle, checkers, crash explorer.

pub mod content;
pub mod record;
pub mod violation;
pub mod watchdog;
pub mod words;

pub mod ack_journal;
pub mod disk;
pub mod faulty_device;
mod mended;
mod objection;
pub mod oracle;
pub mod squeeze;

pub mod describe;
pub mod transcript;
pub mod volume;

pub mod ack_journal_check;
pub mod checker;
pub mod limits;
pub mod logcheck;
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
pub mod power_loss;
pub mod states;

pub mod crash;
pub mod explore;
pub mod failing;
pub mod formatting;
pub mod growing;
pub mod kind;
pub mod life;
pub mod offline;
pub mod plan;
pub mod rot;
pub mod scrubbing;
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
pub mod flash;
#[cfg(feature = "measure")]
pub mod index_lab;
#[cfg(feature = "measure")]
pub mod papers;
#[cfg(feature = "measure")]
pub mod replay;
#[cfg(feature = "measure")]
pub mod steps;
#[cfg(feature = "measure")]
pub mod sweeps;
#[cfg(feature = "measure")]
pub mod transcripts;
