//! From counts to tables: the applications that have rows of their own, and the contents that rows share.

use super::occurrences::Writer;
use super::tables::{Application, Found, Sharing, Tables, ratio};
use super::{By, OTHERS};
use std::sync::Arc;

/// The counts of an application, its contents excluded.
#[derive(Clone, Debug)]
pub struct Counted {
    pub name: Arc<str>,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub duration_ns: u64,
    pub chunks: u64,
    pub zeros: u64,
    pub unknown: u64,
}

impl Counted {
    pub const fn new(name: Arc<str>) -> Self {
        Self { name, reads: 0, writes: 0, read_bytes: 0, written_bytes: 0, duration_ns: 0, chunks: 0, zeros: 0, unknown: 0 }
    }

    /// Counts a read.
    pub fn read(&mut self, bytes: u64) {
        self.reads += 1;
        self.read_bytes += bytes;
    }

    /// Counts a write, and its chunks, some of which are not examined.
    pub fn write(&mut self, bytes: u64, chunks: u64, unexamined: u64) {
        self.writes += 1;
        self.written_bytes += bytes;
        self.chunks += chunks;
        self.unknown += unexamined;
    }

    /// Counts a chunk of zeros.
    pub fn zero(&mut self) {
        self.zeros += 1;
    }

    /// Counts a chunk whose content is unknown.
    pub fn unknown(&mut self) {
        self.unknown += 1;
    }

    /// Counts a trace of this duration.
    pub fn last(&mut self, ns: u64) {
        self.duration_ns += ns;
    }

    /// Adds another application, which was recorded at the same time (`is_parallel`) or another one.
    fn add(&mut self, other: &Self, is_parallel: bool) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.duration_ns = if is_parallel { self.duration_ns.max(other.duration_ns) } else { self.duration_ns + other.duration_ns };
        self.chunks += other.chunks;
        self.zeros += other.zeros;
        self.unknown += other.unknown;
    }
}

/// The rows of the tables, and what is known of their contents, zeros excluded.
pub struct Rows {
    counted: Vec<Counted>,
    /// The row of each application.
    row_of: Vec<usize>,
    /// The number of applications that are one row together.
    others: usize,
    /// The number of distinct contents of each row, and of all rows together.
    distinct: Vec<u64>,
    distinct_of_all: u64,
    /// The chunks of each row whose content a column wrote, too.
    shared: Vec<Vec<u64>>,
    /// The rows that wrote a content, and how often.
    writers: Vec<(usize, u64)>,
}

impl Rows {
    /// Makes a row of each of the `applications_max` that wrote the most chunks, and one of the others.
    pub fn of(by: By, applications: &[Counted], applications_max: usize) -> Self {
        let mut order: Vec<usize> = (0..applications.len()).collect();
        order.sort_by(|a, b| {
            let (a, b) = (&applications[*a], &applications[*b]);
            b.chunks.cmp(&a.chunks).then(b.reads.cmp(&a.reads)).then_with(|| a.name.cmp(&b.name))
        });
        let others = order.split_off(applications_max.min(order.len()));
        if by.is_of_whole() {
            order.sort_unstable();
        }
        let mut row_of = vec![order.len(); applications.len()];
        for (row, application) in order.iter().enumerate() {
            row_of[*application] = row;
        }
        let mut counted: Vec<Counted> = order.iter().map(|application| applications[*application].clone()).collect();
        if !others.is_empty() {
            let mut joined = Counted::new(OTHERS.into());
            others.iter().for_each(|application| joined.add(&applications[*application], !by.is_of_whole()));
            counted.push(joined);
        }
        let (distinct, shared) = (vec![0; counted.len()], vec![vec![0; counted.len()]; counted.len()]);
        Self { counted, row_of, others: others.len(), distinct, distinct_of_all: 0, shared, writers: Vec::new() }
    }

    /// Counts a content, which these applications wrote.
    pub fn content(&mut self, writers: &[Writer]) {
        self.writers.clear();
        for Writer { application, times } in writers {
            let row = self.row_of[*application as usize];
            match self.writers.iter_mut().find(|(known, _)| *known == row) {
                Some((_, known)) => *known += times,
                None => self.writers.push((row, *times)),
            }
        }
        self.distinct_of_all += 1;
        for (row, times) in &self.writers {
            self.distinct[*row] += 1;
            for (column, _) in &self.writers {
                self.shared[*row][*column] += times;
            }
        }
    }

    /// Returns the tables.
    pub fn tables(&self, bytes_aside: u64) -> Tables {
        let applications: Vec<Application> =
            self.counted.iter().zip(&self.distinct).map(|(counted, distinct)| Application::of(counted, *distinct)).collect();
        let sharing = self.sharing(
            &applications,
            |application| application.redundancy,
            |row, column| {
                if column.zeros > 0 { row.zeros } else { 0 }
            },
        );
        let sharing_without_zeros = self.sharing(&applications, |application| application.redundancy_without_zeros, |_, _| 0);
        let chunks = applications.iter().map(|application| application.chunks).sum();
        let known: u64 = applications.iter().map(Application::known).sum();
        let found = Found {
            by_one_index: ratio(known - self.distinct_of_all, chunks),
            by_one_each: ratio(known - self.distinct.iter().sum::<u64>(), chunks),
        };
        Tables { applications, others: self.others, sharing, sharing_without_zeros, found, bytes_aside }
    }

    /// Makes a Table II with this diagonal, and these zeros of a row that count as shared with a column.
    fn sharing(
        &self,
        applications: &[Application],
        diagonal: fn(&Application) -> Option<f64>,
        zeros: fn(&Application, &Application) -> u64,
    ) -> Sharing {
        let row = |(number, row): (usize, &Application)| {
            let cell = |(column_number, column): (usize, &Application)| {
                if number == column_number {
                    return diagonal(row);
                }
                ratio(self.shared[number][column_number] + zeros(row, column), row.chunks)
            };
            applications.iter().enumerate().map(cell).collect()
        };
        Sharing::of(applications.iter().enumerate().map(row).collect())
    }
}
