//! The crash explorer: worlds in which a machine lives over a simulated device with its clients, and runs that end such lives in every
//! way and look at what the next one finds.

pub mod client;
pub mod options;
pub mod setting;

pub mod opening;
pub mod world;

pub mod plan;
pub mod prepare;
pub mod states;

pub mod crash;
pub mod explore;
pub mod kind;
pub mod life;

pub mod failing;
pub mod formatting;
pub mod growing;
pub mod offline;
pub mod rot;
pub mod runs;
pub mod scrubbing;
pub mod spoil;
