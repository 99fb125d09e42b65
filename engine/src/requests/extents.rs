//! Extents: what the bytes of a volume are made of, for copies that skip holes, and to see how far data is broken up.
//!
//! 1. Of each LBN the present meaning counts, as for a read. The answer covers a part of the range only, so that no step takes long.
//! 2. One request is answered at a time: questions must not take the pages from those who write.

use super::Requests;
use super::extents_op::ExtentsOp;
use crate::format::geometry::Geometry;
use crate::interface::{Failure, Reply, Request};
use crate::io::Io;
use crate::pool::Pool;
use crate::schedule::Task;
use crate::tables::Tables;

impl Requests {
    pub fn begin_extents(&mut self, pool: &mut Pool, request: Request) {
        // Who only looks may ask until the very end.
        if pool.io.stage().is_closing() {
            return pool.space.refuse(&mut pool.io, request.id, Failure::Io);
        }
        self.extents.push_back(ExtentsOp::new(request));
        if self.extents.len() == 1 {
            self.go_on_with_extents(&mut pool.io, &mut pool.tables, &pool.geometry);
        }
    }

    pub fn go_on_with_extents(&mut self, io: &mut Io, tables: &mut Tables, geometry: &Geometry) {
        let Some(op) = self.extents.front_mut() else { return };
        if let Some(page) = op.look_up(io, tables, geometry) {
            return tables.wait(io, page, Task::Extents);
        }
        io.reply(op.request.id, Reply::Extents(std::mem::take(&mut op.found)));
        self.extents.pop_front();
        if !self.extents.is_empty() {
            io.schedule.push(Task::Extents);
        }
    }
}
