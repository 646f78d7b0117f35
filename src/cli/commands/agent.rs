//! What is said to an agent, what its model sees, and what is kept of the rest: its conversation, window and summary.

pub(in crate::cli) mod agents;
pub(in crate::cli) mod context;
pub(in crate::cli) mod facts;
pub(in crate::cli) mod forget;
pub(in crate::cli) mod history;
pub(in crate::cli) mod hook;
pub(in crate::cli) mod items;
pub(in crate::cli) mod lineage;
pub(in crate::cli) mod mcp;
pub(in crate::cli) mod pins;
pub(in crate::cli) mod project;
pub(in crate::cli) mod push;
pub(in crate::cli) mod recall;
pub(in crate::cli) mod summary;
pub(in crate::cli) mod update;
pub(in crate::cli) mod versions;
pub(in crate::cli) mod window;
