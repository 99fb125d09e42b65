//! `stats --prometheus`: prints the metrics of one volume or of all attached ones, or answers scrapers on a unix socket.

use super::content::Stats;
use super::prometheus::{self, Seen};
use crate::attachment::find::{self, Found};
use crate::attachment::record::Record;
use crate::exit::{Exit, Failed, Outcome};
use crate::volume;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tiny_http::{Header, Method, Request, Response, Server};
use uuid::Uuid;

/// The only page.
const METRICS: &str = "/metrics";
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the metrics of the volume with this name, or of all that are attached.
///
/// # Errors
/// When there is no such volume, its server does not answer, or the directory of records cannot be read.
pub(super) fn text(name: Option<&str>) -> Outcome<String> {
    Ok(prometheus::text(&name.map_or_else(all_attached, |name| Ok(vec![named(name)?]))?))
}

fn named(name: &str) -> Outcome<Seen> {
    let Found { path, attached } = find::find(name)?;
    match attached {
        Some(record) => Ok(seen(&record, Some(Stats::of_attached(&record)?))),
        None => {
            let superblock = volume::peek(&path)?.superblock;
            let stats = Stats::of_detached(&path)?;
            let uuid = Uuid::from_bytes(superblock.uuid).to_string();
            let has_died = find::all_died()?.iter().any(|record| record.id == uuid);
            Ok(Seen { labels: labels(&stats.path, Some(uuid), Some(superblock.label)), has_died, stats: Some(stats) })
        }
    }
}

/// Looks at all attached volumes, and at those whose processes have all died. One whose server does not answer hides no other.
fn all_attached() -> Outcome<Vec<Seen>> {
    let attached: Vec<Seen> = find::all_attached()?.iter().map(|record| seen(record, Stats::of_attached(record).ok())).collect();
    let died = find::all_died()?;
    let died = died.iter().map(|record| Seen { has_died: true, ..seen(record, None) });
    Ok(attached.into_iter().chain(died).collect())
}

fn seen(record: &Record, stats: Option<Stats>) -> Seen {
    let path = stats.as_ref().map_or(&record.path, |stats| &stats.path);
    Seen { labels: labels(path, record.uuid.clone(), record.label.clone()), has_died: false, stats }
}

fn labels(path: &Path, uuid: Option<String>, label: Option<String>) -> Vec<(&'static str, String)> {
    vec![("store", path.display().to_string()), ("uuid", uuid.unwrap_or_default()), ("label", label.unwrap_or_default())]
}

/// Answers scrapers on a socket at `path`, until a signal ends it.
///
/// # Errors
/// When the socket cannot be made, or something else is there.
pub(super) fn listen(path: &Path, name: Option<&str>) -> Outcome {
    // A name that fits no volume is a mistake now, and not at each scrape.
    name.map(find::find).transpose()?;
    remove_unused(path)?;
    let cannot = |error: &dyn std::fmt::Display| Failed::new(Exit::System, format!("cannot listen at {}: {error}", path.display()));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|e| Failed::system("cannot watch for signals", e))?;
    let server = Server::http_unix(path).map_err(|e| cannot(&e))?;
    let name = name.map(str::to_owned);
    let answer_all = move || server.incoming_requests().for_each(|request| answer(request, name.as_deref()));
    std::thread::Builder::new().name("scrapes".to_owned()).spawn(answer_all).map_err(|e| cannot(&e))?;
    signals.forever().next();
    let _ = std::fs::remove_file(path);
    Ok(())
}

/// Removes a socket on which nobody listens any more.
fn remove_unused(path: &Path) -> Outcome {
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Only a socket refuses a connection.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(path) => {
            std::fs::remove_file(path).map_err(|e| Failed::system(format!("cannot remove {}", path.display()), e))
        }
        Ok(_) => Err(Failed::new(Exit::InUse, format!("another process listens at {}", path.display())).next("Give another socket.")),
        Err(error) => Err(Failed::system(format!("cannot listen at {}", path.display()), error)
            .next("Give the path of a socket that is to be made, in a directory that is there.")),
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket())
}

fn answer(request: Request, name: Option<&str>) {
    let is_read = matches!(request.method(), Method::Get | Method::Head);
    let page = request.url().split('?').next().unwrap_or_default();
    let (code, said) = match (is_read, page == METRICS) {
        (true, true) => text(name).map_or_else(|error| (500, format!("{error}\n")), |text| (200, text)),
        (true, false) => (404, format!("The metrics are at {METRICS}.\n")),
        (false, _) => (405, "There are only pages to read here.\n".to_owned()),
    };
    // In one piece, whatever its length.
    let response = Response::from_string(said).with_status_code(code).with_chunked_threshold(usize::MAX);
    let kind = Header::from_bytes("Content-Type", CONTENT_TYPE).ok();
    // A scraper that went away is no error.
    let _ = request.respond(kind.into_iter().fold(response, Response::with_header));
}
