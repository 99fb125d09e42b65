//! Measured results compared with published ones: a row for every row of the tables that Onefold is to be judged by, even if nothing was
//! measured for it.
//!
//! These are the goals of the whole project. A row that is missed is marked so; it fails the command only if it is a target (`targets.rs`).
//! Every row is computed from the results that the pages are made of.

use super::{app_dedupe, hints, order_merge, rivals, smartdedup};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::verdict::Row;

/// Returns all rows.
#[must_use]
pub fn rows(results: &Results) -> Vec<Row> {
    let mut rows = order_merge::rows(results);
    rows.extend(smartdedup::rows::rows(results));
    rows.extend(hints::rows::rows(results));
    rows.extend(app_dedupe::rows::rows(results));
    rows.extend(rivals::rows(results));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::papers::verdict::RowResult;

    #[test]
    fn without_results_no_row_is_judged() {
        let rows = rows(&Results::default());
        assert!(rows.iter().all(|row| row.verdict == RowResult::NotMeasured && !row.measured.is_empty()), "{rows:#?}");
    }
}
