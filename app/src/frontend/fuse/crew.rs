//! The processes of a session, all of them this program.

use super::door::Details;
use super::helper::{self, LentRoot};
use super::session::request_bytes;
use super::supervisor::{Crew, Event};
use crate::attachment::record::Places;
use crate::frontend::servers::Servers;
use crate::runtime::messages::Message;
use crate::supervision::lent::Handover;
use crate::supervision::start::Start;
use std::path::Path;

impl Crew for Servers<'_> {
    fn server(&mut self, handover: &Handover<'_>) -> Start {
        let mut command = self.next_server();
        handover.lend_to(&mut command);
        command
    }

    fn attaches(&mut self, lent: &LentRoot<'_>) -> Start {
        let mut command = helper::attaches(&self.plan);
        lent.lend_to(&mut command);
        command
    }

    fn finder(&mut self) -> Start {
        helper::finds(&self.plan)
    }

    fn detach(&mut self, device: &Path) -> Start {
        helper::detaches(device)
    }

    fn word(&mut self, server: u32) -> Option<i32> {
        Servers::word(self, server)
    }

    fn is_upgraded(&self) -> bool {
        self.is_upgraded
    }

    fn report(&mut self, event: Event) {
        match event {
            Event::Attached { device } => {
                let link = Places::of(&self.plan.directory, &self.plan.id).device;
                let _ = std::fs::remove_file(&link);
                if let Err(error) = std::os::unix::fs::symlink(&device, &link) {
                    tracing::warn!(%error, place = %link.display(), "cannot make the link to the device");
                }
                self.attached(device.display().to_string());
            }
            Event::Mounted { resend } => {
                let request_bytes = request_bytes(self.plan.options.memory_bytes());
                self.plan.frontend.set_details(&Details { resend, request_bytes });
                if resend {
                    return tracing::info!("mounted");
                }
                let text = "this kernel cannot send requests again (Linux 6.9 can): if the server is killed, the device fails";
                tracing::warn!("{text}");
                self.plan.messages.push(Message::now(text));
            }
            Event::Replaced { dead, ending } if ending.is_orderly() => tracing::info!("server {dead} gave way to the next one"),
            other => tracing::info!("{other:?}"),
        }
    }
}
