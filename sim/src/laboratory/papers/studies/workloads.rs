//! The recorded traces, and the workload of the paper that each one represents.

/// A recorded trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The name of its file, without the ending.
    pub trace: &'static str,
    /// A word for the program that ran.
    pub label: &'static str,
    /// The device model for the figures: that of the machine on which the paper ran such a workload (section 4.1).
    pub device: &'static str,
    /// The workload of the paper that it represents. Of several traces with the same one, the first is judged; the others stand beside it.
    pub paper: Option<&'static str>,
    /// The difference between the two.
    pub stand_in: &'static str,
}

const fn like(trace: &'static str, label: &'static str, device: &'static str, paper: &'static str, stand_in: &'static str) -> Workload {
    Workload { trace, label, device, paper: Some(paper), stand_in }
}

const fn other(trace: &'static str, label: &'static str, device: &'static str) -> Workload {
    Workload { trace, label, device, paper: None, stand_in: "" }
}

/// The models that every trace is replayed on: one that takes no time, and the paper's two.
pub const MODELS: [&str; 3] = ["instant", "tablet", "850pro"];

/// All traces of `data/traces`, beginning with those that represent a workload of the paper, in its order.
pub const WORKLOADS: [Workload; 24] = [
    like("01_apt_update", "update", "tablet", "Update", "another release, other packages"),
    like("02_apt_install", "install", "tablet", "Install", "another release, another browser package"),
    like("04_browse_firefox", "browse", "tablet", "BBench", "local pages in a headless browser, no BBench"),
    like("05_vehicle", "vehicle", "tablet", "Vehicle", "free traffic video instead of Caltrans's"),
    like("06b_hadoop_local", "hadoop", "850pro", "Hadoop", "the documentation of another kernel"),
    like("08_ycsb_wiredtiger", "ycsb", "850pro", "YCSB", "WiredTiger itself instead of a MongoDB server, no YCSB client"),
    like("07b_ycsb_ferretdb", "ycsb-ferretdb", "850pro", "YCSB", "YCSB's Go client on FerretDB over SQLite instead of MongoDB"),
    like("08b_ycsb_postgres", "ycsb-postgres", "850pro", "YCSB", "YCSB's Go client on PostgreSQL instead of MongoDB"),
    other("03_apt_upgrade_release", "upgrade", "tablet"),
    other("05b_vehicle_orig", "vehicle-b", "tablet"),
    other("06_hadoop_grep", "hadoop-a", "850pro"),
    other("07_ycsb_mongo", "ycsb-mongo", "850pro"),
    other("10_phone_mix", "phone", "tablet"),
    other("11_sqlite_modes", "sqlite", "tablet"),
    other("13_pkg_trees", "packages", "850pro"),
    other("14_vm_images", "vm-images", "850pro"),
    other("15_build", "build", "850pro"),
    other("16_fio_dup0", "fio-0", "850pro"),
    other("16_fio_dup25", "fio-25", "850pro"),
    other("16_fio_dup50", "fio-50", "850pro"),
    other("16_fio_dup75", "fio-75", "850pro"),
    other("17_dd_copy", "dd", "850pro"),
    other("18_fileserver_4to1", "files-4to1", "850pro"),
    other("18_fileserver_uniq", "files-uniq", "850pro"),
];

impl Workload {
    /// Returns the beginning of the trace's name, which identifies it.
    #[must_use]
    pub fn number(&self) -> &'static str {
        self.trace.split('_').next().unwrap_or(self.trace)
    }

    /// Returns whether it is judged by what the paper has of its workload.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.paper.and_then(of_paper) == Some(self)
    }

    /// Returns the number and the label.
    #[must_use]
    pub fn short(&self) -> String {
        format!("{} {}", self.number(), self.label)
    }
}

/// Returns every trace that represents a workload of the paper, the one that is judged first.
pub fn all_of_paper(name: &str) -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().filter(move |w| w.paper == Some(name))
}

/// Returns the trace that represents a workload of the paper, and is judged for it: the first one.
#[must_use]
pub fn of_paper(name: &str) -> Option<&'static Workload> {
    all_of_paper(name).next()
}

/// Returns the workload with this trace.
#[must_use]
pub fn of_trace(trace: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|w| w.trace == trace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::papers::studies::published::PUBLISHED;
    use onefold_trace::model::Model;
    use std::collections::BTreeSet;

    #[test]
    fn one_trace_of_each_of_the_papers_workloads_is_judged() {
        let judged: Vec<_> = WORKLOADS.iter().filter(|w| w.is_judged()).map(|w| w.paper).collect();
        assert_eq!(judged, PUBLISHED.map(|p| Some(p.name)));
        assert_eq!(all_of_paper("YCSB").count(), 3);
    }

    #[test]
    fn every_recorded_trace_is_a_workload_and_every_model_exists() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/traces");
        let files = std::fs::read_dir(folder).expect("the traces come along");
        let names = files.map(|file| file.expect("it can be listed").file_name().into_string().expect("UTF-8"));
        let there: BTreeSet<String> = names.filter_map(|name| name.strip_suffix(".tsv.zst").map(str::to_owned)).collect();
        let known: BTreeSet<String> = WORKLOADS.iter().map(|w| w.trace.to_owned()).collect();
        assert_eq!(there, known);
        assert!(WORKLOADS.iter().all(|w| MODELS.contains(&w.device)));
        assert!(MODELS.iter().all(|name| Model::named(name).is_ok()));
    }
}
