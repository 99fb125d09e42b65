//! Content traces: records, import, export, synthesis. Nearly empty until recording and replay arrive.
