//! What people see: lines and colours, tables, progress, figures and near misses.

pub(super) mod figures;
pub(super) mod likeness;
pub(super) mod output;
pub(super) mod table;
pub(super) mod ticker;
