//! Suggestions for misspelled names.

use recapd_core::domain::likeness::nearest;

/// Returns the message about an unknown agent. It names a similar agent, or the existing ones.
pub(crate) fn unknown_agent(agent: &str, names: &[&str], shown_max: usize) -> String {
    if names.is_empty() {
        let cure =
            format!("store messages with `recapd push {agent} < messages.jsonl`, or run `recapd replay`");
        return format!("agent `{agent}` is unknown: the database has no agents yet; {cure}");
    }
    if let Some(nearest) = nearest(agent, names.iter().copied()) {
        return format!("agent `{agent}` is unknown; did you mean `{nearest}`?");
    }
    let first_names: Vec<&str> = names.iter().copied().take(shown_max).collect();
    let more = if names.len() > first_names.len() { ", …" } else { "" };
    format!(
        "agent `{agent}` is unknown; known agents: {}{more}; `recapd agents` lists them",
        first_names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_agent_is_suggested_or_existing_ones_are_listed() {
        let known = ["ikigai-main", "coder", "planner"];
        assert!(unknown_agent("codr", &known, 2).ends_with("did you mean `coder`?"));
        assert!(unknown_agent("zebra", &known, 2).contains("known agents: ikigai-main, coder, …"));
        assert!(unknown_agent("zebra", &[], 2).contains("recapd push zebra"));
    }
}
