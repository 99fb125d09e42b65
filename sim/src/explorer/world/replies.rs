//! The meaning of a reply for the client's request and for the acknowledgements of the last server.

use super::World;
use crate::checkers::setcheck::View;
use crate::device::traffic::Situation;
use crate::ground::violation::Violation;
use onefold_engine::interface::{Failure, Reply, RequestId};

impl World {
    pub(super) fn replied(&mut self, request: RequestId, reply: &Reply) -> Result<(), Violation> {
        self.hear_of_doubts(request, reply)?;
        let raised = self.client.reply(request, reply, &mut self.oracle, self.faults)?;
        self.faults.lost &= !raised.reported_lost;
        self.faults.doubted &= self.journal.is_in_doubt();
        if raised.no_space {
            self.traffic.note(Situation::NoSpace);
        }
        for (mark, at, found) in &raised.learnt {
            self.oracle.learn(*mark, *at, found);
        }
        let learnt = raised.learnt.iter().map(|(mark, _, _)| mark.lbn);
        self.floors_raised(raised.lbns.iter().copied().chain(learnt))?;
        Ok(())
    }

    /// If acknowledgements are in doubt, uses the first reply that promises durability to learn whether any are lost.
    fn hear_of_doubts(&mut self, request: RequestId, reply: &Reply) -> Result<(), Violation> {
        if !self.journal.is_in_doubt() || !self.client.waits_for_durability(request) {
            return Ok(());
        }
        let lbns = match reply {
            Reply::Done => self.journal.answered(false, &mut self.oracle)?,
            Reply::Failed(Failure::Io) => self.journal.answered(true, &mut self.oracle)?,
            _ => return Ok(()),
        };
        self.floors_raised(lbns.into_iter())
    }

    pub(super) fn floors_raised(&self, mut lbns: impl Iterator<Item = u64>) -> Result<(), Violation> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let view = View { disk: &self.disk, oracle: &self.oracle };
        lbns.try_for_each(|lbn| checker.floor_raised(lbn, view))
    }
}
