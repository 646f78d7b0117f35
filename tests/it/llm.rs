//! Providers against fake servers.

mod openai;
