//! How long a device takes, and its client between two requests. Only the engine's timers (the commit period, the non-critical delay,
//! anticipation) can tell one pace from another.

use onefold_trace::model::Model;

/// A device, and a client at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    pub model: Model,
    /// Between two requests of the client.
    pub think_ns: u64,
}

/// (model, microseconds that the client thinks).
const PACES: [(&str, u64); 3] = [("emmc", 50), ("sata", 10), ("nvme", 5)];

/// A card and a client that takes its time: the delay of 30 s passes again and again. No model of its own: only the engine's timers are meant.
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
    /// All paces; the first is the usual one.
    ///
    /// # Panics
    /// Never: every name is that of a model.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let of =
            |&(name, think_us): &(&str, u64)| Self { model: Model::named(name).expect("the model is there"), think_ns: think_us * 1000 };
        PACES.iter().map(of).chain([Self { model: CARD, think_ns: 5_000_000 }]).collect()
    }

    /// The pace with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|p| p.model.name == name)
    }
}
