//! The page of SmartDedup, and the rows that it is judged by.

pub mod figures;
pub mod live_rows;
pub mod live_tables;
pub mod page;
pub mod rows;
