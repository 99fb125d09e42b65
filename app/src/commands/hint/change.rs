//! Changes of a volume's rules: by its server, or in its store while nobody serves it.

use super::shown::{self, Rules};
use super::words::{Add, Remove};
use crate::attachment::control::{HintOrder, ServerRequest};
use crate::attachment::find::{Found, find};
use crate::attachment::questions;
use crate::attachment::record::Record;
use crate::commands::offline::change_backing;
use crate::exit::{Exit, Failed, Outcome};
use crate::hints::kept::{Kept, Place, no_place};
use crate::hints::locate::locate;
use crate::hints::no_rule;
use crate::hints::rule::Rule;
use crate::hints::sight::disk_at;
use crate::volume::peek;
use std::path::Path;

/// Adds a rule.
///
/// # Errors
/// When the rule makes no sense, or not for this volume; or it cannot be kept.
pub(super) fn add(typed: &Add) -> Outcome<Rules> {
    let Found { path, attached } = find(&typed.volume)?;
    if typed.default {
        return spare_compressed(&path, attached.as_ref(), true);
    }
    let rule = rule(typed, &path, attached.as_ref())?;
    let Some(record) = attached else {
        let mut numbers = Vec::new();
        let kept = change_kept(&path, |kept| {
            numbers = kept.add(vec![rule])?;
            Ok(())
        })?;
        return Ok(Rules::detached(&path, &kept, numbers));
    };
    let numbers = ask(&record, HintOrder::Add { rules: vec![rule] })?;
    let numbers = serde_json::from_value(numbers).map_err(|e| Failed::system("unexpected reply from the server", e))?;
    Ok(shown::rules(&typed.volume)?.with_added(numbers))
}

/// Removes rules.
///
/// # Errors
/// When there is none of such a number, or the volume cannot be written.
pub(super) fn remove(typed: &Remove) -> Outcome<Rules> {
    let Found { path, attached } = find(&typed.volume)?;
    if typed.default {
        let shown = spare_compressed(&path, attached.as_ref(), false)?;
        if typed.numbers.is_empty() {
            return Ok(shown);
        }
    }
    let Some(record) = attached else {
        let remove = |kept: &mut Kept, &number: &u32| if kept.remove(number) { Ok(()) } else { Err(no_rule(number)) };
        let kept = change_kept(&path, |kept| typed.numbers.iter().try_for_each(|number| remove(kept, number)))?;
        return Ok(Rules::detached(&path, &kept, Vec::new()));
    };
    ask(&record, HintOrder::Remove { numbers: typed.numbers.clone() })?;
    shown::rules(&typed.volume)
}

fn spare_compressed(path: &Path, attached: Option<&Record>, spares: bool) -> Outcome<Rules> {
    let Some(record) = attached else {
        let kept = change_kept(path, |kept| {
            kept.spares_compressed = spares;
            Ok(())
        })?;
        return Ok(Rules::detached(path, &kept, Vec::new()));
    };
    ask(record, HintOrder::SpareCompressed { spares })?;
    shown::rules(&record.path.to_string_lossy())
}

fn ask(record: &Record, order: HintOrder) -> Outcome<serde_json::Value> {
    questions::ask(record, &ServerRequest::Hints(order))
}

/// Returns the rule that was typed.
fn rule(typed: &Add, path: &Path, attached: Option<&Record>) -> Outcome<Rule> {
    let Add { acts, stream, file, process, cgroup, uid, meta, lifetime, lbn, path: files, .. } = typed;
    let files = match (files.as_slice(), attached) {
        ([], _) => Vec::new(),
        (_, None) => {
            return Err(Failed::new(Exit::State, format!("--path: {} is not attached, so nothing is mounted from it", path.display()))
                .next("Attach and mount it; or name files by --file."));
        }
        (files, Some(record)) => {
            let no_disk = || Failed::new(Exit::State, format!("--path: {} is reached by NBD, which has no disk here", path.display()));
            let disk = disk_at(Path::new(&record.location)).ok_or_else(no_disk)?;
            files.iter().map(|file| locate(file, disk)).collect::<Outcome<Vec<_>>>()?
        }
    };
    let (file, process, cgroup, stream) = (file.clone(), process.clone(), cgroup.clone(), stream.clone());
    let rule = Rule { act: acts.clone(), stream, file, process, cgroup, uid: *uid, meta: *meta, lifetime: *lifetime, lbn: *lbn, files };
    rule.check().map_err(|error| Failed::new(Exit::Usage, error))?;
    let blocks = peek(path)?.superblock.geometry.logical_blocks;
    match rule.lbn {
        Some(range) if range.end > blocks => {
            Err(Failed::new(Exit::Usage, format!("--lbn {range}: the volume has {blocks} blocks, from 0 to {}", blocks - 1)))
        }
        _ => Ok(rule),
    }
}

/// Changes the rules of a volume that nobody serves.
fn change_kept(path: &Path, change: impl FnOnce(&mut Kept) -> Outcome) -> Outcome<Kept> {
    change_backing(path, false, |backing| {
        let chosen = crate::volume::load(backing)?;
        let place = Place::of(backing, &chosen.superblock).ok_or_else(|| no_place(path))?;
        let mut kept = place.load()?;
        change(&mut kept)?;
        place.save(&kept)?;
        Ok(kept)
    })
}
