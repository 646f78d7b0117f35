//! Finds the entries of a tree that the last entry follows from: a session may have been continued from an earlier point.

use std::collections::HashMap;

use super::Fields;

/// Returns for each entry whether the last entry follows from it. `id` and `parent` are the names of the fields with an entry's id and its
/// parent's. Entries without these fields are always current.
pub(super) fn find_current(entries: &[Fields<'_>], id: &str, parent: &str) -> Vec<bool> {
    let is_node = |entry: &Fields<'_>| entry.text(id).is_some() && entry.contains(parent);
    let indices: HashMap<String, usize> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| is_node(entry))
        .filter_map(|(index, entry)| Some((entry.text(id)?, index)))
        .collect();
    let mut is_current: Vec<bool> = entries.iter().map(|entry| !is_node(entry)).collect();
    let mut next = entries.iter().rposition(is_node);
    while let Some(index) = next.filter(|&index| !is_current[index]) {
        is_current[index] = true;
        next = entries[index].text(parent).and_then(|id| indices.get(&id).copied());
    }
    is_current
}
