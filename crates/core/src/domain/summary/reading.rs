//! Reads a document line by line, for a brief, a comparison or a page.

use super::render::is_footer;

pub(super) const SECTION_MARK: &str = "## ";
pub(super) const DAY_MARK: &str = "### ";

/// A line of a document with the headings above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadLine<'d> {
    /// The section's heading with its dates; empty for a line before the first section.
    pub heading: &'d str,
    /// The day's heading, if there is one.
    pub day: Option<&'d str>,
    /// The text without its bullet or number.
    pub text: &'d str,
    /// The further points below the line, without their bullets.
    pub points: Vec<&'d str>,
}

impl ReadLine<'_> {
    /// Returns the section's name: `Yesterday`.
    pub fn section(&self) -> &str {
        name_and_span(self.heading).0
    }
}

/// Returns the lines of a document, in order, without headings and footer.
pub fn read_lines(document: &str) -> Vec<ReadLine<'_>> {
    let (mut heading, mut day) = ("", None);
    let mut lines: Vec<ReadLine<'_>> = Vec::new();
    for line in document.lines() {
        if let Some(day_heading) = line.strip_prefix(DAY_MARK) {
            day = Some(day_heading);
        } else if let Some(section_heading) = line.strip_prefix(SECTION_MARK) {
            (heading, day) = (section_heading, None);
        } else if let (Some(point), Some(last)) = (point(line), lines.last_mut()) {
            last.points.push(point);
        } else if !line.trim().is_empty() && !is_footer(line) {
            let (text, points) = (strip_bullet(line), Vec::new());
            lines.push(ReadLine { heading, day, text, points });
        }
    }
    lines
}

/// Splits a section's heading: `Yesterday (9–12 March 2026)` has a name and a span.
pub fn name_and_span(heading: &str) -> (&str, Option<&str>) {
    let parts = heading.strip_suffix(')').and_then(|heading| heading.split_once(" ("));
    parts.map_or((heading, None), |(name, span)| (name, Some(span)))
}

/// Strips the indent and bullet of `  - text`; `None` if the line isn't a further point.
fn point(line: &str) -> Option<&str> {
    let point = line.trim_start();
    (point.len() < line.len()).then(|| point.strip_prefix("- "))?
}

/// Strips the number or bullet from `12. Fixed it` or `- Fixed it`.
fn strip_bullet(line: &str) -> &str {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = rest.strip_prefix(". ").filter(|_| rest.len() < line.len());
    numbered.or_else(|| line.strip_prefix("- ")).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_with_its_headings_and_points() {
        let document = "## Yesterday (9–12 March 2026)\n### Mon 9 March\n- Did two things (#5)\n  - one\n  - another\n\n\
                        ### Tue 10 March\n- Rested (#6)\n\n## This Week\n3. Chose WAL (Mon, ~2k tokens)\n   - for readers\n\n\
                        *Older history is archived: look up any #n with recall.*\n";
        let lines: Vec<String> = read_lines(document)
            .iter()
            .map(|line| format!("{}, {:?}: {} {:?}", line.section(), line.day, line.text, line.points))
            .collect();
        assert_eq!(
            lines,
            [
                r#"Yesterday, Some("Mon 9 March"): Did two things (#5) ["one", "another"]"#,
                r#"Yesterday, Some("Tue 10 March"): Rested (#6) []"#,
                r#"This Week, None: Chose WAL (Mon, ~2k tokens) ["for readers"]"#,
            ]
        );
        assert_eq!(read_lines(""), []);
    }

    #[test]
    fn headings_have_a_name_and_may_have_a_span() {
        for (heading, name, span) in [
            ("Yesterday (9–12 March 2026)", "Yesterday", Some("9–12 March 2026")),
            ("Yesterday", "Yesterday", None),
            ("", "", None),
        ] {
            assert_eq!(name_and_span(heading), (name, span));
        }
    }
}
