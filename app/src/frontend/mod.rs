//! Step 1 of a request's road: it arrives. Each front-end speaks one protocol to its clients and calls the
//! [`Target`](crate::target::Target).
//!
//! 1. A front-end knows nothing of dedup, digests or the medium.
//! 2. Every request that it took is answered, or its client is gone.
//! 3. Request bytes live in memory that [`Target::buffer`](crate::target::Target::buffer) handed out, so that one budget bounds all
//!    front-ends.
//! 4. Code outside a protocol uses its front-end through one [`door`]: to add a front-end is to write its folder and to name it in [`ALL`].

pub mod door;
pub mod fuse;
pub mod nbd;
pub mod servers;

use crate::attachment::plan::misused;
use crate::exit::Outcome;
use clap::parser::ValueSource;
use clap::{ArgGroup, ArgMatches, Command};
use door::Frontend;

/// All of them. Where the user asks for none, the first one that is available serves.
pub const ALL: [&dyn Frontend; 2] = [&fuse::FuseLoop, &nbd::Nbd];

/// Returns the front-end of this name, as a plan or a record has it.
///
/// # Errors
/// When there is none.
pub fn named(name: &str) -> Outcome<&'static dyn Frontend> {
    ALL.into_iter().find(|frontend| frontend.name() == name).ok_or_else(misused)
}

/// The options of `attach` by which a user asks for a front-end.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    name: Option<&'static str>,
    typed: Option<String>,
}

impl Asked {
    /// Returns the one that the user asked for, with the value of its option; or the one that is available.
    ///
    /// # Panics
    /// Never: the last one is always available.
    #[must_use]
    pub fn choice(&self) -> (&'static dyn Frontend, Option<&str>) {
        let chosen = |frontend: &&dyn Frontend| self.name.map_or_else(|| frontend.is_at_hand(), |name| frontend.name() == name);
        (ALL.into_iter().find(chosen).expect("one is always at hand"), self.typed.as_deref())
    }
}

impl clap::FromArgMatches for Asked {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_asked = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let name = ALL.into_iter().map(Frontend::name).find(is_asked);
        // A flag has no value.
        let typed = name.and_then(|name| matches.try_get_one::<String>(name).ok().flatten()).cloned();
        Ok(Self { name, typed })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Asked {
    fn augment_args(command: Command) -> Command {
        let option = |frontend: &dyn Frontend| frontend.option(clap::Arg::new(frontend.name()).long(frontend.name()));
        let command = ALL.into_iter().fold(command, |command, frontend| command.arg(option(frontend)));
        command.group(ArgGroup::new("frontend").args(ALL.map(Frontend::name)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn asked(words: &[&str]) -> Result<Asked, clap::Error> {
        let command = Asked::augment_args(Command::new("attach").no_binary_name(true));
        Asked::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    #[test]
    fn each_is_found_by_its_name_and_by_its_option() {
        for frontend in ALL {
            assert_eq!(named(frontend.name()).unwrap().name(), frontend.name());
            let option = format!("--{}", frontend.name());
            assert_eq!(asked(&[&option]).unwrap().choice().0.name(), frontend.name());
            for other in ALL.into_iter().filter(|other| other.name() != frontend.name()) {
                assert!(asked(&[&option, &format!("--{}", other.name())]).is_err(), "one at a time");
            }
        }
        assert!(named("carrier pigeon").is_err() && ALL[ALL.len() - 1].is_at_hand());
    }

    #[test]
    fn the_value_of_an_option_is_handed_on() {
        assert_eq!(asked(&["--nbd=/a/socket"]).unwrap().choice().1, Some("/a/socket"));
        assert_eq!(asked(&["--nbd"]).unwrap().choice().1, None);
        assert!(asked(&["--fuse=x"]).is_err());
    }
}
