//! The speed of a device and the think time of its client. Only the engine's timers (the commit period, the non-critical delay,
//! anticipation) behave differently at different paces.

use onefold_trace::model::Model;

/// A device and the client that uses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    pub model: Model,
    /// The time between two requests of the client.
    pub think_ns: u64,
}

/// The paces: a model, and the client's think time in microseconds.
const PACES: [(&str, u64); 3] = [("emmc", 50), ("sata", 10), ("nvme", 5)];

/// A card and a slow client: the delay of 30 s passes again and again. It is not a model to choose, because it is only about the engine's
/// timers.
const CARD: Model = Model {
    name: "card",
    source: "slow",
    read: &[(4096, 500_000)],
    write: &[(4096, 1_000_000)],
    flush_ns: 30_000_000,
    commands_max: None,
    bus_bytes_per_s: Some(20_000_000),
};

impl Pace {
    /// Returns all paces, the usual one first.
    ///
    /// # Panics
    /// Never panics: every name is that of a model.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let of =
            |&(name, think_us): &(&str, u64)| Self { model: Model::named(name).expect("the model is there"), think_ns: think_us * 1000 };
        PACES.iter().map(of).chain([Self { model: CARD, think_ns: 5_000_000 }]).collect()
    }

    /// Returns the pace with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|p| p.model.name == name)
    }
}
