//! Records of attached volumes: any text, or a record of hostile numbers and names. An accepted record names no file outside its directory,
//! and does not identify a process by its number alone.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold::attachment::launch::End;
use onefold::attachment::record::{Places, parse};
use onefold_fuzz::craft::{Draw, number};
use onefold_fuzz::volume::Input;
use std::path::Path;

const ID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    if mode & 3 == 0 {
        look_at(data);
        let _ = serde_json::from_slice::<End>(data);
    } else {
        look_at(record(&mut Input::new(data)).as_bytes());
    }
});

fn look_at(text: &[u8]) {
    let directory = Path::new("/run/onefold");
    let place = directory.join(format!("{ID}.json"));
    let Some(record) = parse(&place, text) else { return };
    let places = Places::of(directory, &record.id);
    // Whatever processes it names, an attachment is alive only if it holds its lock, and there is none.
    assert!(!places.are_alive(), "{record:?}");
    let Places { record: file, control, socket, log, end, ring, lock, device, program, growth, grown, counts, recorder, spare } = places;
    assert_eq!(file, place);
    let others = [control, socket, log, end, ring, lock, device, program, growth, grown, counts, recorder, spare];
    assert!(others.iter().all(|path| path.parent() == Some(directory)), "{record:?}");
}

fn value(input: &mut Input<'_>) -> String {
    let any = number(input, &[i32::MAX as u64, u64::from(u32::MAX), u64::from(std::process::id())]);
    match input.below(12) {
        0 => format!("-{any}"),
        1 => format!("{any}.5"),
        2 => format!("{any}e{}", input.byte()),
        3 => format!("\"{any}\""),
        4 => "null".to_owned(),
        5 => "true".to_owned(),
        6 => format!("[{any}]"),
        7 => format!("\"{ID}\""),
        8 => "\"../../etc/passwd\"".to_owned(),
        9 => format!("{any}{any}"),
        _ => any.to_string(),
    }
}

/// Makes a record in which one to three values of a valid record are replaced.
fn record(input: &mut Input<'_>) -> String {
    let mut fields: Vec<(&str, String)> = [
        ("id", format!("\"{ID}\"")),
        ("uuid", format!("\"{ID}\"")),
        ("label", "null".to_owned()),
        ("path", "\"/store\"".to_owned()),
        ("process", "{\"pid\":1,\"start_ticks\":0}".to_owned()),
        ("frontend", "\"nbd\"".to_owned()),
        ("location", "\"nbd+unix:///?socket=/s\"".to_owned()),
        ("is_passthrough", "false".to_owned()),
        ("is_read_only", "false".to_owned()),
        ("since", "1".to_owned()),
    ]
    .into();
    for _ in 0..=input.below(3) {
        let at = input.below(10) as usize;
        fields[at].1 = match input.below(3) {
            0 => format!("{{\"pid\":{},\"start_ticks\":{}}}", value(input), value(input)),
            _ => value(input),
        };
    }
    if input.below(8) == 0 {
        fields.remove(input.below(10) as usize);
    }
    let fields: Vec<String> = fields.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}
