//! Output for people: lines, colours, tables, progress, figures and suggestions.

pub(super) mod answer;
pub(super) mod colour;
pub(super) mod figures;
pub(super) mod likeness;
pub(super) mod output;
pub(super) mod paragraphs;
pub(super) mod table;
pub(super) mod ticker;
