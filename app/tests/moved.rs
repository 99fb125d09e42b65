//! The verbs and options that are the laboratory's now: each names its new place.

mod common;

use common::home::Home;

#[test]
fn a_verb_of_the_laboratory_is_refused_with_its_place() {
    let home = Home::new();
    home.write("t", "");
    for verb in ["import", "export", "info", "analyze", "cut", "replay"] {
        for words in [&["t"][..], &["t", "--lenient", "--json"], &[]] {
            let place = format!("`onefold-lab trace {verb}`");
            home.complaint(2, &[&["trace", verb], words].concat(), &place);
        }
    }
    let help = home.expect(0, &["trace", "--help"]).0;
    let has = |verb: &str| help.lines().any(|line| line.split_whitespace().next() == Some(verb));
    assert!(has("record") && has("mark") && !has("info") && help.contains("onefold-lab trace"), "{help}");
    home.complaint(2, &["trace", "understand"], "unrecognized subcommand");
}

#[test]
fn a_device_model_is_refused_with_its_place() {
    let home = Home::new();
    home.says(0, &["create", "disk", "--size", "16M"]);
    home.complaint(2, &["attach", "disk", "--nbd", "--device-model", "tablet"], "onefold-lab attach --device-model tablet");
    assert!(home.json(&["list"])["volumes"].as_array().is_none_or(Vec::is_empty), "nothing is attached");
    assert!(!home.expect(0, &["attach", "--help"]).0.contains("--device-model"));
}
