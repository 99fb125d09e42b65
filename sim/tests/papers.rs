//! The papers' report over one small recorded trace: its content, and the result of the command.

use onefold_sim::laboratory::papers::pages::targets::OWN_MODEL;
use onefold_sim::laboratory::papers::report::{Options, report};
use onefold_sim::laboratory::papers::studies::matrix::GRANULAR;
use onefold_sim::laboratory::papers::studies::workloads::MODELS;
use onefold_sim::laboratory::replay::scheme::Scheme;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const TRACE: &str = "05_vehicle";

fn options(out: &Path, only: &str) -> Options {
    let traces = [env!("CARGO_MANIFEST_DIR"), "..", "data", "traces"].iter().collect();
    let recorded = out.join("none");
    Options {
        out: out.to_path_buf(),
        traces,
        recorded,
        only: vec![only.to_owned()],
        schemes: Vec::new(),
        made_writes: 0,
        hint_writes: 0,
        loads: None,
        live: None,
        live_hints: None,
        live_loads: None,
        live_figures: None,
        figures: None,
        stored: None,
        replays_nothing: false,
        revision: None,
        threads: 2,
    }
}

/// A directory that is removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("onefold-papers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory can be written");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Fails with the names of the elements that are open at the end, or with an end tag without its start tag.
fn unbalanced(html: &str) -> Result<(), String> {
    const VOID: [&str; 2] = ["meta", "br"];
    let mut open = Vec::new();
    for piece in html.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').ok_or_else(|| format!("'<{piece}' is not closed"))?;
        if text.contains('>') {
            return Err(format!("a bare > in '{text}'"));
        }
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or_default();
        if tag.starts_with('/') {
            let last = open.pop();
            if last != Some(name) {
                return Err(format!("</{name}> where {last:?} is open"));
            }
        } else if !tag.starts_with('!') && !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("open at the end: {open:?}")) }
}

/// Fails if the page is not well-formed, has an id twice, or loads anything from elsewhere.
fn assert_whole(html: &str) {
    unbalanced(html).unwrap_or_else(|error| panic!("{error}"));
    let ids = attributes(html, "id");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "every id once");
    for from_elsewhere in ["http://", "https://", "<script", "<link", "<img", "url(//", "@import"] {
        assert!(!html.contains(from_elsewhere), "{from_elsewhere} in the page");
    }
}

/// Returns the values of the attributes with this name.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let needle = format!(" {name}=\"");
    html.split(&needle).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn the_report_of_one_trace_is_whole() {
    let scratch = Scratch::new("whole");
    let options = options(&scratch.0, TRACE);
    let targets = report(&options, &OWN_MODEL).expect("it can be written");
    let of_ordered = targets.iter().find(|t| t.name == "ordered-weak-05_vehicle").expect("it is judged");
    assert!(of_ordered.holds, "{of_ordered}");
    assert!(targets.iter().any(|t| t.name == "replays-that-failed" && t.holds));
    assert!(!targets.iter().any(|t| t.name.contains("01_apt")), "what was not replayed is not judged");
    assert!(!targets.iter().any(|t| t.name == "minutes"), "a part says nothing of the time of the whole");

    let read = |name: &str| std::fs::read_to_string(scratch.0.join(name)).expect("it was written");
    let csv = read("results.csv");
    let heads: Vec<&str> = csv.lines().next().expect("a first line").split(',').collect();
    let column = |name: &str| heads.iter().position(|head| *head == name).unwrap_or_else(|| panic!("no column {name} in {heads:?}"));
    let wanted = ["scheme", "persistence", "outstanding", "device_model", "request_blocks_max"].map(column);
    let rows: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == heads.len() && row[column("client_units")] == "3731"));
    let found: BTreeSet<Vec<&str>> = rows.iter().map(|row| wanted.map(|at| row[at]).to_vec()).collect();
    let mut expected = BTreeSet::new();
    for scheme in Scheme::ALL {
        for (persistence, outstanding, models) in
            [("weak", "", &MODELS[..]), ("strong", "32", &MODELS[..]), ("strong", "1", &["tablet"][..])]
        {
            expected.extend(models.iter().map(|model| vec![scheme.name(), persistence, outstanding, model, ""]));
        }
    }
    // It stands for a workload of the paper.
    for (persistence, outstanding) in [("weak", ""), ("strong", "32")] {
        expected.insert(vec![Scheme::OrderedPeriod.name(), persistence, outstanding, "tablet", ""]);
    }
    for (scheme, outstanding) in GRANULAR.into_iter().flat_map(|scheme| ["1", "4", "32"].map(|outstanding| (scheme, outstanding))) {
        expected.insert(vec![scheme.name(), "strong", outstanding, "tablet", "1"]);
    }
    assert_eq!((found, rows.len()), (expected, Scheme::ALL.len() * 7 + 2 + GRANULAR.len() * 3));

    let html = read("index.html");
    assert_whole(&html);
    for figure in ["Figure 2 (A)", "Figure 2 (B)", "Figure 3 (A)", "Figure 3 (B)", "Section 4.4", "Section 4.5", "ideal", "bound"] {
        assert!(html.contains(figure), "{figure} is missing");
    }
    assert!(html.matches("<svg ").count() >= 6 && html.matches("<caption>").count() > html.matches("<svg ").count());

    let json: serde_json::Value = serde_json::from_str(&read("results.json")).expect("it is JSON");
    assert_eq!((json["version"].as_u64(), json["runs"].as_array().map(Vec::len)), (Some(2), Some(rows.len())));
    for key in
        ["trace", "scheme", "persistence", "client_units", "client_flushes", "epochs", "device_units", "device_flushes", "cpu_seconds"]
    {
        assert!(json["runs"][1].get(key).is_some(), "{key}");
    }
    let verdicts: BTreeSet<&str> =
        json["against_published"].as_array().expect("rows").iter().filter_map(|r| r["verdict"].as_str()).collect();
    assert!(verdicts.contains("not measured") && verdicts.iter().any(|verdict| verdict.starts_with("stand-in")), "{verdicts:?}");

    let count = count_of(&html);
    assert_eq!(count, counted(&json), "the page begins with the count of its rows");
    assert_eq!(count, count_of(&read("smartdedup.html")), "and the other page with the same");
    assert!(html.contains("journal writes less than ordered-anticipate on 1 of 1 traces (05_vehicle)"), "and it says why");
    let parts = json["contents"][0]["kinds"].as_array().expect("kinds");
    assert_eq!(parts.iter().filter_map(|kind| kind["name"].as_str()).collect::<Vec<_>>(), ["D", "J", "M"]);
    assert!(html.contains("% duplicates (data ") && html.contains("% zeros"), "what duplicates are stands beside their figure");

    // Judge the same results by a target that cannot be reached.
    let impossible = report(&options, &[(TRACE, 0.1)]).expect("it can be written");
    let missed = impossible.iter().find(|t| t.name == "ordered-weak-05_vehicle").expect("it is judged");
    assert!(!missed.holds && missed.to_string().contains("MISSED") && missed.to_string().contains("client units"), "{missed}");
}

/// The count that a page begins with.
fn count_of(html: &str) -> String {
    let (_, after) = html.split_once("</h1>\n<p>").expect("a paragraph after the title");
    after.split_once(". ").expect("a sentence").0.to_owned()
}

/// The count of the rows in the file of results.
fn counted(json: &serde_json::Value) -> String {
    let rows: Vec<&str> =
        json["against_published"].as_array().expect("rows").iter().map(|row| row["verdict"].as_str().expect("a verdict")).collect();
    let of = |verdict: &str| rows.iter().filter(|row| row.starts_with(verdict)).count();
    let (holds, missed, stand_in, none) = (of("holds"), of("missed"), of("stand-in"), of("not measured"));
    format!("{} rows: {holds} holds, {missed} missed, {stand_in} stand-in, {none} not measured", rows.len())
}

#[test]
fn the_pages_are_made_again_of_the_stored_results() {
    let (first, again, rest) = (Scratch::new("first"), Scratch::new("again"), Scratch::new("rest"));
    let some = vec![Scheme::None, Scheme::Journal, Scheme::OrderedAnticipate];
    let options = Options { schemes: some.clone(), revision: Some("aaaa".to_owned()), ..options(&first.0, TRACE) };
    let targets = report(&options, &OWN_MODEL).expect("it can be written");
    let read = |scratch: &Scratch, name: &str| std::fs::read_to_string(scratch.0.join(name)).expect("it was written");
    let stored = Some(first.0.join("results.json"));
    let without = Options { out: again.0.clone(), stored: stored.clone(), replays_nothing: true, ..options.clone() };
    assert_eq!(report(&without, &OWN_MODEL).expect("it can be written").len(), targets.len());
    for page in ["index.html", "smartdedup.html"] {
        assert!(read(&first, page) == read(&again, page), "{page} is another page");
    }

    // What is there is not replayed again, and what lacks is.
    let schemes = [some, vec![Scheme::Packed]].concat();
    let more = Options { out: rest.0.clone(), stored, schemes, revision: Some("bbbb".to_owned()), ..options };
    report(&more, &OWN_MODEL).expect("it can be written");
    let seconds = |scratch: &Scratch| {
        let json: serde_json::Value = serde_json::from_str(&read(scratch, "results.json")).expect("it is JSON");
        let runs = json["runs"].as_array().expect("runs").clone();
        (runs.len(), runs.iter().map(|run| run["cpu_seconds"].to_string()).collect::<BTreeSet<_>>(), json["made"]["commands"].as_u64())
    };
    let ((few, known, one), (all, seen, two)) = (seconds(&first), seconds(&rest));
    // Two of the schemes are replayed in requests of one block, too.
    assert_eq!((few, all, one, two), (3 * 7 + 2 * 3, 4 * 7 + 2 * 3, Some(1), Some(2)));
    assert!(known.is_subset(&seen), "the earlier replays are the same ones");
    assert!(read(&rest, "index.html").contains("by revision aaaa and bbbb"));

    let other = again.0.join("results.json");
    std::fs::write(&other, "{\"version\": 1}").expect("it can be written");
    let wrong = report(&Options { stored: Some(other), ..without }, &OWN_MODEL).unwrap_err();
    assert!(wrong.contains("results.json: version 1 instead of 2"), "{wrong}");
}

/// A file of live figures, as the benchmarks leave it.
const LIVE: &str = r#"{"cores": 2, "fio": [
    {"setup": "passthrough", "store": "bare", "mib": 64, "duplicates_percent": 25, "write_mib_per_second": 40.0, "write_p95_us": 90,
     "read_mib_per_second": 50, "read_p50_us": 10, "read_p95_us": 30, "saved": null, "units_ratio": 1},
    {"setup": "index 3M", "store": "bare", "mib": 64, "duplicates_percent": 25, "write_mib_per_second": 50.0, "write_p95_us": 80,
     "read_mib_per_second": 50, "read_p50_us": 10, "read_p95_us": 30, "saved": 0.25, "units_ratio": 0.75}]}"#;

#[test]
fn the_page_of_smartdedup_has_every_figure_or_says_that_it_was_not_measured() {
    let scratch = Scratch::new("smart");
    let live = scratch.0.join("live.json");
    std::fs::write(&live, LIVE).expect("the temporary directory can be written");
    let schemes = vec![Scheme::None, Scheme::OrderedAnticipate];
    let options = Options { schemes, made_writes: 20_000, live: Some(live), ..options(&scratch.0, TRACE) };
    report(&options, &OWN_MODEL).expect("it can be written");
    let html = std::fs::read_to_string(scratch.0.join("smartdedup.html")).expect("it was written");
    assert_whole(&html);
    for figure in ["Table 2", "Table 4", "Figure 3", "Figure 5", "Figure 6", "Figure 8", "Figure 9", "Figure 10", "Figure 11", "Figure 12"]
    {
        assert!(html.contains(figure), "{figure} is missing");
    }
    assert_eq!(html.matches("Not measured in this run").count(), 2, "Figures 5 and 9");
    assert!(html.contains("+25.0 %") && html.contains("-25.0 %"), "Figure 3: faster, with fewer units");
    assert!(html.contains("64 MiB on the bare store"), "the caption has the size of the runs");
    assert_eq!(html.matches("<svg ").count(), 6, "Figure 8, for each row of Table 1");

    let json = std::fs::read_to_string(scratch.0.join("results.json")).expect("it was written");
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    // A figure that the page shows has its verdict.
    let row = |published: &str| {
        let rows = json["against_published"].as_array().expect("rows");
        rows.iter().find(|row| row["published"].as_str().is_some_and(|says| says.starts_with(published))).expect("such a row").clone()
    };
    let quarter = row("25 % duplicates: +16.9 % write");
    assert_eq!(quarter["verdict"], "missed", "reads are not faster");
    assert!(quarter["measured"].as_str().is_some_and(|text| text.contains("writes +25.0 %, reads +0.0 %")), "{quarter}");
    assert_eq!([row("Figure 5")["verdict"].clone(), row("Figure 9")["verdict"].clone()], ["not measured"; 2]);
    assert_eq!(counted(&json), count_of(&html));
    let studies = json["studies"].as_array().expect("studies");
    assert_eq!(studies.len(), 7);
    for study in studies {
        let (full, policies) = (&study["full"], study["policies"].as_array().expect("policies"));
        assert_eq!(policies.len(), 6 * 8, "eight policies with six sizes of memory");
        let best = policies.iter().filter_map(|run| run["found"]["inline"].as_u64()).max();
        assert!(best <= full["inline"].as_u64(), "nothing finds more than everything in memory: {}", study["trace"]);
        assert!(study["by_battery"]["fingerprinted"].as_u64() < study["by_battery"]["writes"].as_u64());
    }
    let filtered = studies[0]["filtered"].as_array().expect("a recorded trace is filtered");
    let of = |run: usize, key: &str| filtered[run][key].as_u64().expect("a count");
    assert!(
        of(0, "duplicates") > of(3, "duplicates") && of(3, "duplicates") > of(4, "duplicates"),
        "longer runs, fewer duplicates: {filtered:?}"
    );
    assert!(of(0, "extents") > of(4, "extents"), "links break files into pieces");
}

/// Links two small loads into a folder, and returns it.
fn small_loads(scratch: &Scratch) -> PathBuf {
    let folder = scratch.0.join("loads");
    std::fs::create_dir(&folder).expect("the temporary directory can be written");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/loads").canonicalize().expect("the loads come along");
    for name in ["office.tsv.zst", "photos.tsv.zst"] {
        std::os::unix::fs::symlink(shipped.join(name), folder.join(name)).expect("the folder can be written");
    }
    folder
}

#[test]
fn the_page_of_app_dedupe_has_every_figure_or_says_that_it_was_not_measured() {
    let scratch = Scratch::new("loads");
    let loads = Some(small_loads(&scratch));
    let options = Options { schemes: vec![Scheme::None], loads, ..options(&scratch.0, TRACE) };
    report(&options, &OWN_MODEL).expect("it can be written");
    let read = |name: &str| std::fs::read_to_string(scratch.0.join(name)).expect("it was written");
    let html = read("app-dedupe.html");
    assert_whole(&html);
    for figure in ["Figure 4", "Figure 5", "Figure 6", "Figure 7", "Figure 8", "Section III.B", "office", "photos", "sequential reads"] {
        assert!(html.contains(figure), "{figure} is missing");
    }
    assert_eq!(html.matches("Not measured in this run").count(), 1, "Figure 4");
    assert_eq!(html.matches("<svg ").count(), 5, "Figures 5 to 8, and the index in parts");

    let json: serde_json::Value = serde_json::from_str(&read("results.json")).expect("it is JSON");
    let runs = json["loads"].as_array().expect("loads");
    assert_eq!((runs.len(), read("app-dedupe.csv").lines().count()), (2 * 4 * 3, 1 + 2 * 4 * 3), "four cases on three schemes");
    for run in runs {
        let of = |key: &str| run[key].as_u64().unwrap_or_else(|| panic!("{key} is no count in {run}"));
        let flash = &run["flash"];
        assert_eq!(flash["host_pages"].as_u64(), Some(of("device_units_all")), "the flash gets what the device counts");
        assert!(flash["collections"].as_u64() > Some(0) || run["begin"] == "held", "{run}");
        let written = (of("device_units_all"), of("client_units"));
        assert!(if run["scheme"] == "none" { written.0 == written.1 } else { written.0 < written.1 }, "{written:?} in {run}");
    }
    let rows = json["against_published"].as_array().expect("rows");
    let verdict = |published: &str| {
        let is_it = |row: &&serde_json::Value| row["published"].as_str().is_some_and(|says| says.starts_with(published));
        rows.iter().find(is_it).and_then(|row| row["verdict"].as_str()).expect("such a row")
    };
    assert_eq!(verdict("Figure 4: memory"), "not measured");
    for figure in ["Figure 5: 45.2", "Figure 6: sequential writes", "Figure 6: sequential reads", "Figure 7: responses", "Figure 8: 41.5"] {
        assert!(verdict(figure).starts_with("stand-in: "), "{figure}");
    }
    assert_eq!(counted(&json), count_of(&html));

    // Of the stored results the page is made again, with what was measured live meanwhile.
    let costs = scratch.0.join("costs.json");
    let cost = |setup: &str, seconds: f64, mib: f64| {
        format!(r#"{{"load": "office", "setup": "{setup}", "load_seconds": 50, "cpu_seconds": {seconds}, "peak_mib": {mib}}}"#)
    };
    let text = format!(r#"{{"cores": 2, "costs": [{}, {}]}}"#, cost("passthrough", 0.1, 10.0), cost("volume", 0.6, 30.48));
    std::fs::write(&costs, text).expect("the temporary directory can be written");
    let stored = Some(scratch.0.join("results.json"));
    let again = Options { stored, replays_nothing: true, live_loads: Some(costs), ..options };
    report(&again, &OWN_MODEL).expect("it can be written");
    let (html, before) = (read("app-dedupe.html"), html);
    assert!(html.contains("volume +1.0 % in the mean, +1.0 % at most"), "20.48 of 2048 MiB");
    assert_eq!(html.matches("<svg ").count(), 6);
    let figure_8 = |html: &str| html.split("<section ").find(|part| part.starts_with("id=\"figure-8\"")).map(str::to_owned);
    assert_eq!(figure_8(&html), figure_8(&before), "what was replayed stays");
}

#[test]
fn a_file_of_live_figures_that_is_none_is_named() {
    let scratch = Scratch::new("live");
    let live = scratch.0.join("live.json");
    std::fs::write(&live, "{\"fio\": 3}").expect("the temporary directory can be written");
    let wrong = report(&Options { live: Some(live), ..options(&scratch.0, TRACE) }, &OWN_MODEL).unwrap_err();
    assert!(wrong.contains("live.json") && wrong.contains("smartdedup-fio"), "{wrong}");
}

#[test]
fn a_trace_that_is_not_there_is_named_before_anything_is_done() {
    let scratch = Scratch::new("missing");
    let unknown = report(&options(&scratch.0, "99_moon"), &OWN_MODEL).unwrap_err();
    assert!(unknown.contains("99_moon") && unknown.contains(TRACE), "{unknown}");
    let elsewhere = Options { traces: scratch.0.clone(), ..options(&scratch.0, TRACE) };
    let missing = report(&elsewhere, &OWN_MODEL).unwrap_err();
    assert!(missing.contains("--traces") && missing.contains("05_vehicle.tsv.zst"), "{missing}");
}
