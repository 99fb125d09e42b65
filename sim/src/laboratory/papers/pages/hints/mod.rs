//! The page of Using Hints, and the rows that it is judged by.

pub mod csv;
pub mod figures;
pub mod page;
pub mod rows;
