//! The setting of a life: everything in a world but the machine, its device and its clients.

use super::options::Options;
use crate::device::volume::Volume;
use std::rc::Rc;

/// Neighbouring blocks that writes go to.
pub type Stretch = (u64, u64);

/// The parts of a world apart from the machine.
#[derive(Clone)]
pub struct Setting {
    pub volume: Rc<Volume>,
    pub options: Rc<Options>,
    pub stretches: Rc<Vec<Stretch>>,
}
