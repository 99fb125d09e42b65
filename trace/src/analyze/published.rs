//! The published tables, to print beside those of a trace: Bo Mao, Suzhen Wu, Hong Jiang, Xiao Chen, Weijian Yang, *Content-aware Trace
//! Collection and I/O Deduplication for Smartphones*, section II.B, fifteen applications on a Nexus 5.

use super::tables::mean;

/// A row of Table I.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Characteristics {
    pub name: &'static str,
    /// In percent.
    pub redundancy: f64,
    pub requests_per_second: f64,
    pub size_mb: f64,
    /// In percent.
    pub write_ratio: f64,
}

const fn row(name: &'static str, redundancy: f64, requests_per_second: f64, size_mb: f64, write_ratio: f64) -> Characteristics {
    Characteristics { name, redundancy, requests_per_second, size_mb, write_ratio }
}

/// Table I.
pub const TABLE_1: [Characteristics; 15] = [
    row("Qiu", 40.5, 1.6, 55.0, 87.9),
    row("58City", 32.2, 2.6, 153.3, 69.4),
    row("Baidu Tieba", 39.5, 4.3, 213.5, 88.6),
    row("Game2048", 31.7, 1.7, 63.2, 89.2),
    row("Meitu", 31.3, 5.6, 131.6, 41.9),
    row("Moji Weather", 32.4, 2.6, 82.1, 63.4),
    row("Opera Browser", 33.1, 3.0, 72.7, 57.5),
    row("Fruit Cool", 36.6, 6.0, 159.9, 47.1),
    row("Sohu News", 32.2, 2.0, 138.2, 84.2),
    row("Tencent", 34.1, 1.5, 82.6, 95.4),
    row("Pea Pod", 35.4, 2.1, 237.0, 67.8),
    row("Wechat", 30.0, 4.6, 345.5, 90.4),
    row("Weibo", 29.0, 1.4, 97.0, 88.5),
    row("Xiami Music", 27.3, 7.4, 122.9, 39.4),
    row("Youdao Dict", 31.9, 9.2, 136.5, 35.2),
];

/// Table II, in percent: the rows and the columns are the applications of Table I, in the same order.
pub const TABLE_2: [[f64; 15]; 15] = [
    [40.5, 0.2, 1.0, 0.1, 0.3, 0.0, 0.1, 0.4, 0.2, 0.0, 0.1, 0.5, 1.5, 0.2, 0.3],
    [0.3, 32.2, 3.3, 1.3, 3.6, 3.2, 4.3, 3.9, 4.9, 1.2, 3.9, 2.4, 1.6, 4.2, 3.5],
    [0.4, 6.5, 39.5, 0.2, 2.4, 5.5, 7.1, 4.4, 3.9, 0.0, 3.5, 3.2, 3.6, 3.6, 6.4],
    [0.3, 0.7, 1.0, 31.7, 1.0, 2.0, 2.9, 1.5, 0.7, 2.0, 1.4, 0.3, 1.5, 1.0, 2.4],
    [0.3, 3.1, 2.2, 1.3, 31.3, 2.2, 5.9, 6.4, 1.5, 1.1, 2.3, 1.3, 1.6, 4.4, 3.1],
    [0.1, 2.7, 4.7, 2.8, 2.3, 32.4, 6.5, 5.5, 3.5, 0.8, 3.5, 1.4, 1.5, 3.8, 3.8],
    [0.2, 1.5, 2.7, 3.4, 3.7, 5.7, 33.1, 4.8, 3.0, 1.7, 1.9, 2.1, 1.1, 1.4, 4.2],
    [0.3, 1.1, 2.5, 3.2, 3.8, 6.4, 4.7, 36.6, 2.6, 0.5, 2.2, 2.6, 2.0, 1.7, 2.7],
    [0.4, 5.9, 3.5, 1.3, 1.6, 5.3, 4.5, 3.8, 32.2, 1.1, 2.5, 3.3, 4.6, 2.5, 4.1],
    [0.0, 0.8, 0.0, 2.7, 1.8, 0.8, 2.1, 0.6, 0.8, 34.1, 0.5, 0.2, 0.6, 2.2, 2.8],
    [0.2, 6.1, 2.9, 3.9, 4.5, 7.3, 4.5, 5.0, 3.6, 1.2, 35.4, 2.1, 1.1, 6.2, 3.9],
    [1.3, 3.5, 4.8, 0.1, 0.7, 4.2, 3.5, 5.5, 4.3, 0.2, 1.8, 30.0, 5.0, 1.9, 3.0],
    [0.4, 0.4, 1.5, 0.0, 0.6, 0.4, 0.2, 0.9, 1.4, 0.2, 0.1, 2.1, 29.0, 0.4, 0.5],
    [0.2, 5.0, 2.6, 3.3, 5.6, 6.5, 3.6, 3.0, 2.9, 9.3, 6.1, 2.1, 1.3, 27.3, 3.6],
    [0.2, 1.7, 2.7, 5.8, 3.0, 4.6, 5.4, 3.7, 3.2, 2.1, 5.2, 2.1, 1.2, 1.4, 31.9],
];

/// Returns the mean of a column of Table I.
///
/// # Panics
/// Never panics: the table has rows.
#[must_use]
pub fn mean_of(column: fn(&Characteristics) -> f64) -> f64 {
    mean(TABLE_1.iter().map(column)).expect("the table has rows")
}

/// Returns the mean of the cells of Table II off its diagonal, in percent.
///
/// # Panics
/// Never panics: the table has such cells.
#[must_use]
pub fn shared_mean() -> f64 {
    let cells =
        TABLE_2.iter().enumerate().flat_map(|(row, cells)| cells.iter().enumerate().map(move |(column, cell)| (row, column, *cell)));
    mean(cells.filter(|(row, column, _)| row != column).map(|(_, _, cell)| cell)).expect("the table has more than one row")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_agree_with_each_other_and_with_the_text() {
        for (number, row) in TABLE_1.iter().enumerate() {
            assert_eq!(TABLE_2[number][number].to_bits(), row.redundancy.to_bits(), "{}", row.name);
        }
        // "with an average of 33.1%", "less than 5% for most cases", "the IOPS is less than 10 for all".
        assert!((mean_of(|row| row.redundancy) - 33.1).abs() < 0.05);
        assert!(TABLE_2.as_flattened().iter().filter(|cell| **cell < 5.0).count() * 2 > 225);
        assert!(TABLE_1.iter().all(|row| row.requests_per_second < 10.0));
        assert!(shared_mean() > 0.0 && shared_mean() < 5.0);
    }

    /// If the cells counted distinct contents, `a` of `b` times the total of `a` would be `b` of `a` times the total of `b`; so around
    /// three applications both products would be equal, whatever the totals.
    #[test]
    fn the_cells_count_chunks_and_not_distinct_contents() {
        let product = |cells: [f64; 3], rounding: f64| cells.iter().map(|cell| (cell + rounding).max(0.0)).product::<f64>();
        let is_contradiction = |[a, b, c]: [usize; 3]| {
            let around = [TABLE_2[a][b], TABLE_2[b][c], TABLE_2[c][a]];
            let back = [TABLE_2[b][a], TABLE_2[c][b], TABLE_2[a][c]];
            product(around, -0.05) > product(back, 0.05) || product(back, -0.05) > product(around, 0.05)
        };
        let triples = || (0..15).flat_map(|a| (0..a).flat_map(move |b| (0..b).map(move |c| [a, b, c])));
        assert_eq!((triples().filter(|triple| is_contradiction(*triple)).count(), triples().count()), (291, 455));
    }
}
