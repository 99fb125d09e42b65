//! The parts that pages are drawn with: text and tables as HTML, and charts as SVG.

pub mod chart;
mod fill;
pub mod html;
