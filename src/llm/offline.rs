//! The built-in summariser: extractive, deterministic, without a model, a key or a network.
