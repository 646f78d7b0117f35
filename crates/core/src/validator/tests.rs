//! Tests of the validator: the rules as vectors, and what holds for any request.

mod any_json;
mod generated;
mod mutated;
mod vectors;
