//! `onefold-lab trace analyze`: tables that are known by hand, what users see of them, and the same tables by SQL.

mod common;

use common::home::{Home, shipped};
use common::{BINARY, run, skipped};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two applications. With A to C for contents, Z for zeros and ? for unknown, `alpha` writes AAZ, BZ and ??, and `beta` ACCC and Z.
const ALPHA: &str = "time_ns,op,offset,length,process,fingerprints
0,write,0,12288,one,aa aa 0
1000000000,write,40960,8192,two,bb 0
2000000000,read,0,8192,one,
3000000000,write,512,4096,one,dd
4000000000,flush,0,0,one,
";
const BETA: &str = "time_ns,op,offset,length,process,fingerprints
500,write,0,16384,three,aa cc cc cc
2000000500,write,40960,4096,two,0
";

/// Imports both into folders.
fn home() -> Home {
    let home = Home::of(&["trace"]);
    for (name, text) in [("alpha", ALPHA), ("beta", BETA)] {
        home.write(&format!("{name}.csv"), text);
        home.expect(0, &["import", &format!("{name}.csv"), name]);
    }
    home
}

fn close(found: &Value, wanted: f64) -> bool {
    found.as_f64().is_some_and(|found| (found - wanted).abs() < 1e-12)
}

#[test]
fn tables_are_those_known_by_hand() {
    let home = home();
    let made = home.json(&["analyze", "alpha", "beta"]);
    let (alpha, beta) = (&made["applications"][0], &made["applications"][1]);
    assert_eq!((&alpha["name"], &beta["name"]), (&json!("alpha"), &json!("beta")));
    let counts = |row: &Value| ["reads", "writes", "read_bytes", "written_bytes", "duration_ns"].map(|name| row[name].as_u64().unwrap());
    assert_eq!(counts(alpha), [1, 3, 8192, 24576, 4_000_000_000]);
    assert_eq!(counts(beta), [0, 2, 0, 20480, 2_000_000_000]);
    let chunks = |row: &Value| ["chunks", "zeros", "unknown", "contents"].map(|name| row[name].as_u64().unwrap());
    assert_eq!((chunks(alpha), chunks(beta)), ([7, 2, 2, 2], [5, 1, 0, 2]));
    for (row, rate, bytes, ratio) in [(alpha, 1.0, 8192.0, 0.75), (beta, 1.0, 10240.0, 1.0)] {
        assert!(close(&row["requests_per_second"], rate) && close(&row["request_bytes_mean"], bytes) && close(&row["write_ratio"], ratio));
    }
    let is_cells = |sharing: &str, wanted: [[f64; 2]; 2]| {
        let cells = &made[sharing]["cells"];
        assert!((0..4).all(|n| close(&cells[n / 2][n % 2], wanted[n / 2][n % 2])), "{sharing}: {cells}");
        assert!(close(&made[sharing]["mean"], (wanted[0][1] + wanted[1][0]) / 2.0), "{sharing}");
    };
    is_cells("sharing", [[2.0 / 7.0, 4.0 / 7.0], [2.0 / 5.0, 2.0 / 5.0]]);
    is_cells("sharing_without_zeros", [[1.0 / 7.0, 2.0 / 7.0], [1.0 / 5.0, 2.0 / 5.0]]);
    assert!(close(&made["found"]["by_one_index"], 4.0 / 12.0) && close(&made["found"]["by_one_each"], 3.0 / 12.0));
    let sharing = made["published"]["sharing"].as_f64().unwrap();
    assert!(sharing > 0.02 && sharing < 0.03, "Table II of the paper: {sharing}");
}

#[test]
fn a_trace_is_divided_by_process_and_by_phase() {
    let home = home();
    let names = |made: &Value| made["applications"].as_array().unwrap().iter().map(|row| row["name"].clone()).collect::<Vec<_>>();
    let made = home.json(&["analyze", "alpha", "beta", "--by", "process"]);
    assert_eq!(names(&made), ["one", "three", "two"], "most written first");
    assert_eq!(made["applications"][2]["duration_ns"], 6_000_000_000u64, "it is in both traces");
    assert!(close(&made["sharing_without_zeros"]["cells"][0][1], 2.0 / 5.0), "{made}");
    let made = home.json(&["analyze", "alpha", "beta", "--by", "process", "--most", "1"]);
    assert_eq!((names(&made), &made["others"]), (vec![json!("one"), json!("(others)")], &json!(2)));
    assert!(close(&made["applications"][1]["redundancy"], 3.0 / 7.0), "acccbzz: {made}");

    let made = home.json(&["analyze", &shipped("05_vehicle.tsv.zst"), "--by", "phase"]);
    assert_eq!(names(&made), ["(start)", "setup", "run", "umount"]);
    let info = home.json(&["info", &shipped("05_vehicle.tsv.zst")]);
    for (row, phase) in made["applications"].as_array().unwrap().iter().zip(info["phases"].as_array().unwrap()) {
        assert_eq!((&row["chunks"], &row["zeros"]), (&phase["blocks_written"], &phase["zeros"]), "{}", row["name"]);
    }
    let vehicle = home.json(&["analyze", &shipped("05_vehicle.tsv.zst")]);
    let row = &vehicle["applications"][0];
    assert_eq!(row["name"], "05_vehicle");
    assert!(close(&row["redundancy_without_zeros"], info["duplication"]["ever"].as_f64().unwrap()), "{row}");
}

#[test]
fn a_page_has_both_tables_and_pictures() {
    let home = home();
    home.write("<b>.csv", ALPHA);
    let (text, _) = home.expect(0, &["analyze", "<b>.csv", "beta", "--html", "page.html"]);
    assert!(text.contains("28.6 %") && text.contains("Mao et al.") && text.contains("without zeros"), "{text}");
    let page = String::from_utf8(home.read("page.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 6, "four columns, and Table II with zeros and without");
    assert!(page.contains("28.6 %") && page.contains("57.1"), "{page}");
    assert!(page.contains("&lt;b&gt;") && !page.contains("<b>") && !page.contains("src="), "{page}");
    home.complaint(5, &["analyze", "beta", "--html", "page.html"], "page.html exists already");
    home.expect(0, &["analyze", "beta", "--html", "page.html", "--force"]);
}

#[test]
fn mistakes_are_named() {
    let home = home();
    home.complaint(2, &["analyze", "alpha", "alpha"], "alpha is given twice");
    home.complaint(2, &["analyze", "alpha", "--by", "colour"], "process");
    home.complaint(2, &["analyze", "alpha", "--memory", "1K"], "1 MiB");
    home.complaint(3, &["analyze", "alpha", "gamma"], "gamma");
    home.complaint(2, &["analyze"], "TRACE");
    let made = home.json(&["analyze", "alpha", "./alpha"]);
    assert_eq!((&made["applications"][0]["name"], &made["applications"][1]["name"]), (&json!("alpha"), &json!("./alpha")));
}

/// Returns the Python that `./dev sql --setup` installs beside the binaries, or another one that has DataFusion.
fn python() -> Option<PathBuf> {
    let target = Path::new(BINARY).ancestors().nth(2).expect("target/PROFILE/onefold");
    let has = |python: &PathBuf| {
        Command::new(python).args(["-c", "import datafusion, pyarrow"]).output().is_ok_and(|output| output.status.success())
    };
    [target.join("sql/bin/python"), PathBuf::from("python3")].into_iter().find(has)
}

/// Asserts that two analyses have the same applications and cells, whatever their order.
fn assert_same(ours: &Value, sql: &Value) {
    let rows = |made: &Value| made["applications"].as_array().unwrap().clone();
    let (our_rows, sql_rows) = (rows(ours), rows(sql));
    assert_eq!(our_rows.len(), sql_rows.len());
    let place = |row: &Value| sql_rows.iter().position(|other| other["name"] == row["name"]).expect("the same names");
    let is_same = |ours: &Value, sql: &Value| ours == sql || ours.as_f64().is_some_and(|wanted| close(sql, wanted));
    for (number, row) in our_rows.iter().enumerate() {
        for (name, value) in row.as_object().unwrap() {
            assert!(is_same(value, &sql_rows[place(row)][name]), "{name}: {row} {}", sql_rows[place(row)]);
        }
        for sharing in ["sharing", "sharing_without_zeros"] {
            for (column, other) in our_rows.iter().enumerate() {
                let (ours, sql) = (&ours[sharing]["cells"][number][column], &sql[sharing]["cells"][place(row)][place(other)]);
                assert!(is_same(ours, sql), "{sharing} of {} and {}: {ours} {sql}", row["name"], other["name"]);
            }
        }
    }
    for (object, name) in [("sharing", "mean"), ("sharing_without_zeros", "mean"), ("found", "by_one_index"), ("found", "by_one_each")] {
        assert!(is_same(&ours[object][name], &sql[object][name]), "{name} of {object}: {} {}", ours[object], sql[object]);
    }
}

#[test]
fn sql_makes_the_same_tables() {
    let Some(python) = python() else {
        skipped("sql_makes_the_same_tables", "DataFusion is not installed; ./dev sql --setup installs it");
        return;
    };
    let home = home();
    for name in ["04_browse_firefox", "05_vehicle"] {
        home.expect(0, &["import", &shipped(&format!("{name}.tsv.zst")), name]);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/sql/analyze.py");
    let all = ["alpha", "beta", "04_browse_firefox", "05_vehicle"];
    // By stream, alpha and beta are one application.
    for (by, folders) in [("trace", &all[..]), ("process", &all), ("stream", &all), ("trace", &all[..1])] {
        let mut command = Command::new(&python);
        command.arg(&script).args(["--json", "--memory", "512M", "--by", by, "--dir", &home.path("")]);
        command.args(folders.iter().map(|folder| home.path(folder)));
        let sql: Value = serde_json::from_str(run(&mut command).trim()).unwrap();
        assert_same(&home.json(&[&["analyze", "--by", by, "--most", "1000"], folders].concat()), &sql);
    }
    assert!(home.names().iter().all(|name| !name.contains("sql")), "nothing is left behind");
}
