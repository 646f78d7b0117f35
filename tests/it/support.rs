//! What several tests need.

pub(crate) mod backend;
pub(crate) mod cases;
pub(crate) mod conversation;
pub(crate) mod fake_openai;
<<<<<<< HEAD
pub(crate) mod server;
pub(crate) mod troubled_store;
=======
pub(crate) mod flaky_store;
pub(crate) mod rig;
pub(crate) mod scripted;
>>>>>>> conformance
