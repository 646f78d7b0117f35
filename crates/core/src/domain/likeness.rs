//! Finding the known name that was most likely meant.

/// The least likeness (by Jaro and Winkler, 1 is equal) of a name that may have been meant.
const LIKENESS_MIN: f64 = 0.8;

/// The name among `known` that `name` was most likely meant to be, whatever the case of its letters.
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let likeness = |one: &str| strsim::jaro_winkler(&one.to_lowercase(), &name.to_lowercase());
    let alike = known.into_iter().map(|one| (likeness(one), one));
    alike
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, one)| one)
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
    }
}
