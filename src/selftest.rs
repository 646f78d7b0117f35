//! Tests that recapd runs on itself, over anybody's conversations: evidence that doesn't depend on the ones it was
//! built with.

pub mod window;
