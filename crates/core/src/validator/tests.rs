//! Tests of the validator: the rules as vectors, and properties of any request.

mod any_json;
mod generated;
mod mutated;
mod vectors;
