//! Properties that hold for any text, valid or hostile: for the fuzz targets and for a property test.
//!
//! A property that does not hold causes a panic.

use super::blkparse::Action;
use super::detect::FormName;
use super::{Form, Records};
use crate::record::Record;

/// Reads the records of a text, skipping malformed lines, and returns them with the form's reader.
fn read(form: FormName, text: &[u8]) -> (Vec<Record>, Box<dyn Form>) {
    let mut records = Records::new(form.form(Action::Queued), "fuzz", text);
    let all = records.by_ref().filter_map(Result::ok).collect();
    (all, records.into_form())
}

/// Writes the records as text, and returns it with the records that the form could represent.
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

/// Checks that a form can represent whatever it reads, and that what it writes reads back to the same records and is then written
/// identically.
///
/// # Panics
/// Panics if one of these properties does not hold.
pub fn exercise(name: FormName, text: &[u8]) {
    let _ = FormName::of(text, Action::Queued);
    let (records, form) = read(name, text);
    assert!(records.iter().all(Record::is_well_formed));
    let (written, fit) = write(name, &*form, &records);
    assert_eq!(fit, records, "the form cannot represent a record that it read");
    let (again, form) = read(name, written.as_bytes());
    assert_eq!(again, fit, "the written text reads back differently");
    assert_eq!(write(name, &*form, &again).0, written, "the records that were read back are written differently");
}
