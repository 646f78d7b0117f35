//! The `recapd` binary.

fn main() {}
