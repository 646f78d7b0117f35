//! Finds the existing name that a misspelt name most likely means.

/// An existing name must be at least this similar (Jaro–Winkler, 1 is equal).
const LIKENESS_MIN: f64 = 0.8;

/// Returns the one of `names` most similar to `name`, ignoring case; `None` if none is similar enough.
pub fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let likeness = |one: &str| strsim::jaro_winkler(&one.to_lowercase(), &name.to_lowercase());
    let candidates = names.into_iter().map(|one| (likeness(one), one));
    candidates
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_nearest_name_and_nothing_far_off() {
        let known = ["ikigai-main", "coder", "planner"];
        assert_eq!(nearest("codr", known), Some("coder"));
        assert_eq!(nearest("Ikigai_main", known), Some("ikigai-main"));
        assert_eq!(nearest("zebra", known), None);
    }
}
