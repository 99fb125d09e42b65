//! The page of APP-Dedupe, and the rows that it is judged by.

pub mod cost_figure;
pub mod csv;
pub mod figures;
pub mod page;
pub mod rows;
pub mod throughput;
