//! Did you mean …?

/// Names less alike than this aren't what was meant.
const LIKENESS_MIN: f64 = 0.8;

/// The name among `known` that `name` was most likely meant to be.
pub(super) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let likeness = |one: &str| strsim::jaro_winkler(&one.to_lowercase(), &name.to_lowercase());
    let alike = known.into_iter().map(|one| (likeness(one), one));
    alike
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, one)| one)
}

/// What to say of an agent that isn't there, with those that are.
pub(super) fn unknown_agent(agent: &str, known: &[&str], shown_max: usize) -> String {
    if known.is_empty() {
        let cure =
            format!("store messages with `recapd push {agent} < messages.jsonl`, or run `recapd replay`");
        return format!("agent `{agent}` is unknown: the database holds no agents yet; {cure}");
    }
    if let Some(nearest) = nearest(agent, known.iter().copied()) {
        return format!("agent `{agent}` is unknown; did you mean `{nearest}`?");
    }
    let shown: Vec<&str> = known.iter().copied().take(shown_max).collect();
    let more = if known.len() > shown.len() { ", …" } else { "" };
    format!(
        "agent `{agent}` is unknown; known agents: {}{more}; `recapd agents` lists them",
        shown.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_told_and_nothing_far_off() {
        let known = ["ikigai-main", "coder", "planner"];
        assert_eq!(nearest("codr", known), Some("coder"));
        assert_eq!(nearest("Ikigai_main", known), Some("ikigai-main"));
        assert_eq!(nearest("zebra", known), None);
        assert!(unknown_agent("codr", &known, 2).ends_with("did you mean `coder`?"));
        assert!(unknown_agent("zebra", &known, 2).contains("known agents: ikigai-main, coder, …"));
        assert!(unknown_agent("zebra", &[], 2).contains("recapd push zebra"));
    }
}
