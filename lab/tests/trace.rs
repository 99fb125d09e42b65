//! `onefold-lab trace`: the output of each verb, its exit code, and its treatment of malformed lines.

mod common;

use common::home::{Home, shipped};

const MD5: &str = "56f11b711d91a065a2b6458eca924523";

#[test]
fn a_shipped_trace_is_imported_counted_cut_and_exported() {
    let home = Home::of(&["trace"]);
    let text = shipped("05_vehicle.tsv.zst");
    let imported = home.json(&["import", &text, "vehicle"]);
    assert_eq!((imported["version"].as_u64(), imported["report"].as_str()), (Some(1), Some("trace-written")));
    let (of_text, of_folder) = (home.json(&["info", &text]), home.json(&["info", "vehicle"]));
    assert_eq!(of_text["total"], of_folder["total"]);
    let run = &of_folder["phases"][2];
    assert_eq!((run["name"].as_str(), run["blocks_written"].as_u64(), run["flushes"].as_u64()), (Some("run"), Some(3731), Some(79)));
    let live = run["duplication"]["live"].as_f64().unwrap();
    assert!((live - 0.236).abs() < 0.0006, "{live}");
    let table = home.expect(0, &["info", "vehicle"]).0;
    assert!(table.contains("comes from") && table.contains("overwrites"), "{table}");
    assert!(table.contains("8 bytes of md5") && table.contains("umount") && table.contains("jbd2/loop0-8"), "{table}");

    home.expect(0, &["cut", "vehicle", "run", "--phase", "run"]);
    let cut = home.json(&["info", "run"]);
    assert_eq!((cut["total"]["blocks_written"].as_u64(), cut["phases"][0]["begin_ns"].as_u64()), (Some(3731), Some(0)));
    home.expect(0, &["cut", &text, "journal", "--stream", "J", "--time", "..50", "--lbn", "262144+16384"]);
    assert_eq!(
        home.json(&["info", "journal"])["streams"].as_array().unwrap().iter().map(|s| s["name"].as_str()).collect::<Vec<_>>(),
        [Some("J")]
    );

    home.expect(0, &["export", "vehicle", "again.tsv", "--to", "recorded"]);
    let again = home.expect(0, &["export", &text, "-", "--to", "recorded"]).0;
    assert!(home.read("again.tsv") == again.as_bytes() && again.lines().count() == 478, "{}", again.lines().count());
}

#[test]
fn errors_name_what_was_typed_and_what_to_do() {
    let home = Home::of(&["trace"]);
    home.write("good", format!("5 1 x 0 8 W 8 0 {MD5}\n"));
    home.write("bad", format!("5 1 x 0 8 W 8 0 {MD5}\nnonsense\n"));
    home.write("letter", "Dear Sir or Madam,\n");
    let complaint = |code, words: &[&str], wanted| home.complaint(code, words, wanted);
    complaint(3, &["import", "none", "t"], "none: ");
    complaint(3, &["info", "none"], "none: ");
    complaint(6, &["import", "letter", "t"], "--form");
    complaint(6, &["import", "bad", "t"], "bad:2: ");
    complaint(6, &["info", "bad"], "--lenient");
    complaint(2, &["import", "good", "t", "--form", "parquet"], "fiu-homes");
    complaint(2, &["cut", "good", "t"], "--stream");
    complaint(2, &["cut", "good", "t", "--time", "later"], "later");
    complaint(2, &["cut", "good", "t", "--phase", "later"], "no record of good");
    complaint(2, &["export", "good", "t", "--to", "fiu-homes"], "512 bytes");
    assert_eq!(home.names(), ["bad", "good", "letter"], "nothing half-written");

    home.expect(0, &["import", "bad", "t", "--lenient"]);
    complaint(5, &["import", "good", "t"], "t exists already");
    complaint(5, &["export", "t", "good", "--to", "mobile"], "--force");
    home.expect(0, &["export", "t", "good", "--to", "mobile", "--force"]);
    assert_eq!(home.read("good"), format!("0.000000000 W 0 8 1 x {MD5}\n").as_bytes());
    home.write("t/000000.parquet", "not any more");
    complaint(6, &["info", "t"], "000000.parquet");
}

#[test]
fn help_names_the_verbs_and_the_forms() {
    let home = Home::of(&["trace"]);
    let help = home.expect(0, &["--help"]).0;
    let has = |verb: &str| help.lines().any(|line| line.split_whitespace().next() == Some(verb));
    for verb in ["import", "export", "info", "analyze", "cut", "record", "mark", "replay"] {
        assert!(has(verb), "{verb}: {help}");
    }
    assert!(!has("synth") && !has("scan"), "{help}");
    assert!(home.expect(0, &["replay", "--help"]).0.contains("`onefold-lab replay`"));
    home.complaint(2, &["replay", "none", "--sim"], "--sim");
    home.complaint(2, &["replay", "none"], "--on");
    for verb in ["import", "export", "info"] {
        let help = home.expect(0, &[verb, "--help"]).0;
        assert!(help.contains("fiu-homes") && help.contains("blkparse prints"), "{help}");
    }
}

/// Lines of each form that others publish: sizes below a block, and requests of several MD5s.
fn lines(form: &str, count: usize) -> String {
    let md5 = |n: usize| format!("{:032x}", n % 7 + 1);
    let line = |n: usize| {
        let sectors: usize = [8, 1, 24, 9, 16][n % 5];
        let digests = |each: usize| (0..sectors.div_ceil(each)).map(|i| md5(n + i)).collect::<Vec<_>>();
        let (op, first) = (["W", "W", "R"][n % 3], n * 40);
        match form {
            "mobile" => format!("{n}.000500 {op} {first} {sectors} 7 app {}\n", digests(8).join("-")),
            "fiu" => format!("{} 7 a b {first} {sectors} {op} 8 0 {}\n", 1000 + n, digests(8).concat()),
            _ => format!("{} 7 nfsd {first} {sectors} {op} 8 1 {}\n", 1000 + n, digests(1).concat()),
        }
    };
    (0..count).map(line).collect()
}

#[test]
fn malformed_lines_are_counted_and_more_than_one_in_a_hundred_refused() {
    for form in ["fiu", "fiu-homes", "mobile"] {
        let home = Home::of(&["trace"]);
        let good = lines(form, 198);
        home.write("whole", &good);
        home.expect(0, &["import", "whole", "whole-folder"]);
        assert!(home.json(&["info", "whole-folder"])["form"].as_str().is_some_and(|told| told.starts_with(form)), "{form} was detected");
        home.expect(0, &["export", "whole-folder", "whole-again", "--to", form]);
        assert!(home.read("whole-again") == good.as_bytes(), "{form}: other bytes");

        // An MD5 too short, and one too few.
        let cut = good.lines().next().unwrap();
        let bad = format!("{}\n{}\n", &cut[..cut.len() - 1], &cut[..cut.len() - 32]);
        home.write("few", format!("{good}{bad}"));
        let (_, complaints) = home.expect(0, &["import", "few", "few-folder"]);
        assert!(complaints.contains("few:199: ") && complaints.contains("few:200: "), "{form}: {complaints}");
        assert_eq!(home.json(&["info", "few"])["malformed_lines"].as_u64(), Some(2));
        home.expect(0, &["export", "few-folder", "few-again", "--to", form]);
        assert!(home.read("few-again") == good.as_bytes(), "{form}: the sound lines come back");

        home.write("many", format!("{}{bad}", lines(form, 197)));
        home.complaint(6, &["import", "many", "many-folder"], "2 of 199 lines of many");
        home.complaint(6, &["info", "many"], "--lenient");
        home.complaint(6, &["export", "many", "many-again", "--to", form], "--lenient");
        assert!(!home.names().iter().any(|name| name.contains("many-")), "{form}: {:?}", home.names());
        let taken = home.json(&["import", "many", "many-folder", "--lenient"]);
        assert_eq!((taken["records"].as_u64(), taken["malformed_lines"].as_u64()), (Some(197), Some(2)), "{form}");
    }
}
