//! Keeps a FUSE session.

use super::servers::Servers;
use crate::attachment::launch;
use crate::attachment::record::Places;
use crate::frontend::fuse::THREADS;
use crate::frontend::fuse::supervisor::{self, Adoption, DeathLimit, Ended, Event, Handover, Hands, prepare_process};
use crate::runtime::said::Said;
use crate::supervision::start::Start;
use std::path::Path;
use std::process::Stdio;

pub(super) fn supervise(mut servers: Servers<'_>, adoption: Option<Adoption>) -> Result<(), Ended> {
    for refused in prepare_process() {
        tracing::warn!("{refused} was refused: where memory is short, the device may stall");
    }
    let fuse = supervisor::Plan {
        source: servers.plan.path.display().to_string(),
        tag: servers.plan.id.clone(),
        threads: THREADS,
        limit: DeathLimit::default(),
        without_resend: false,
    };
    match adoption {
        None => supervisor::supervise(&fuse, &mut servers),
        Some(adoption) => {
            let device = servers.recorded().map(|record| record.location.into());
            supervisor::adopt(&fuse, &mut servers, adoption, device)
        }
    }
}

impl supervisor::Crew for Servers<'_> {
    fn server(&mut self, handover: &Handover<'_>) -> Start {
        let mut command = self.next_server();
        handover.lend_to(&mut command);
        command
    }

    fn hands(&mut self, hands: &Hands<'_>) -> Start {
        let mut command = launch::command("hands", &self.plan);
        hands.lend_to(&mut command);
        command.stdin(Stdio::null());
        command
    }

    fn finder(&mut self) -> Start {
        let mut command = launch::command("hands", &self.plan);
        command.stdin(Stdio::null());
        command
    }

    fn detach(&mut self, device: &Path) -> Start {
        let mut command = launch::detach_device(device);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn word(&mut self, server: u32) -> Option<i32> {
        Servers::word(self, server)
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
            Event::Mounted { resend: false } => {
                let text = "this kernel cannot send requests again (Linux 6.9 can): if the server is killed, the device fails";
                tracing::warn!("{text}");
                self.plan.said.push(Said::now(text));
            }
            other => tracing::info!("{other:?}"),
        }
    }
}
