//! What holds of any text, sound or hostile: for the fuzz targets and for a property test.
//!
//! It panics where it does not hold.

use super::blkparse::Action;
use super::detect::FormName;
use super::{Form, Records};
use crate::record::Record;

/// The records of a text, its malformed lines passed over, and the form with what it remembers.
fn read(form: FormName, text: &[u8]) -> (Vec<Record>, Box<dyn Form>) {
    let mut records = Records::new(form.form(Action::Queued), "fuzz", text);
    let all = records.by_ref().filter_map(Result::ok).collect();
    (all, records.into_form())
}

/// The records as text, and which of them the form had a place for.
fn write(name: FormName, form: &dyn Form, records: &[Record]) -> (String, Vec<Record>) {
    let (mut text, mut fit) = (String::new(), Vec::new());
    let Ok(mut lines) = name.lines(&form.header()) else { return (text, fit) };
    lines.begin(&mut text);
    for record in records {
        let before = text.len();
        match lines.push(&mut text, record) {
            Ok(()) => fit.push(record.clone()),
            Err(_) => text.truncate(before),
        }
    }
    (text, fit)
}

/// Whatever is read has a place in its form; what is written reads back to the same records, and is written the same again.
///
/// # Panics
/// Where that is not so.
pub fn exercise(name: FormName, text: &[u8]) {
    let _ = FormName::of(text, Action::Queued);
    let (records, form) = read(name, text);
    assert!(records.iter().all(Record::is_well_formed));
    let (written, fit) = write(name, &*form, &records);
    assert_eq!(fit, records, "a record that was read has no place in its form");
    let (again, form) = read(name, written.as_bytes());
    assert_eq!(again, fit, "what is written does not read back");
    assert_eq!(write(name, &*form, &again).0, written, "what was read back is written otherwise");
}
