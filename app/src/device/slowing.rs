//! The slowing of stores to the pace of a model of flash, for measurements. The laboratory's program brings it along.

use super::Device;
use std::sync::Arc;

/// The ability of a program to slow stores down.
pub trait Slowing {
    /// Checks the name of a model.
    ///
    /// # Errors
    /// The reason why there is no such model.
    fn check(&self, model: &str) -> Result<(), String>;

    /// Slows a store to the pace of a model.
    ///
    /// # Errors
    /// The reason why there is no such model.
    fn slow(&self, store: Arc<dyn Device>, model: &str) -> Result<Arc<dyn Device>, String>;
}

/// The ability of a program that slows nothing down.
pub struct NoSlowing;

impl NoSlowing {
    fn refusal(model: &str) -> String {
        format!("--device-model {model}: only the laboratory slows stores down, by `onefold-lab attach --device-model {model}`")
    }
}

impl Slowing for NoSlowing {
    fn check(&self, model: &str) -> Result<(), String> {
        Err(Self::refusal(model))
    }

    fn slow(&self, _: Arc<dyn Device>, model: &str) -> Result<Arc<dyn Device>, String> {
        Err(Self::refusal(model))
    }
}
