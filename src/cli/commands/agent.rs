//! Commands about an agent: its conversation, window, archive and summary.

pub(crate) mod agents;
pub(crate) mod context;
pub(crate) mod facts;
pub(crate) mod forget;
pub(crate) mod handoff;
pub(crate) mod history;
pub(crate) mod hook;
pub(crate) mod items;
pub(crate) mod lineage;
pub(crate) mod mcp;
pub(crate) mod notes;
pub(crate) mod pins;
pub(crate) mod project;
pub(crate) mod push;
pub(crate) mod recall;
pub(crate) mod run;
pub(crate) mod summary;
pub(crate) mod update;
pub(crate) mod versions;
pub(crate) mod window;
