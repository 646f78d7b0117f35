//! What a reader waits for.

fn main() {}
