//! The labels of points: `Answer: the gate is quiet now`. The built-in summariser writes them, and compaction weighs points by them. Points
//! of other summarisers have no label.

/// What a point is about. Points are written in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PointLabel {
    /// What the user asked for.
    Request,
    /// An answer of the user to a question of the model.
    Decision,
    /// The model's last text, and its earlier reports.
    Outcome,
    /// The model's text before its last calls, if no text follows them.
    Progress,
    /// Files that were written.
    Files,
    /// Files whose changes were all refused or failed.
    Unchanged,
    /// Commits.
    Commits,
    /// Addresses of pages, pull requests and issues that were made.
    Links,
    /// Results of tests and builds.
    Checks,
    /// Entries of the plan that are not done yet.
    Left,
    /// The question to the user that ends the outcome.
    Question,
    /// The exchange was interrupted, or takes back the previous one.
    End,
    /// An earlier text of the model.
    Step,
    /// Other content from the user: code, a patch, a log.
    Given,
    /// Files that were read.
    Looked,
}

impl PointLabel {
    const ALL: [Self; 15] = [
        Self::Request,
        Self::Decision,
        Self::Outcome,
        Self::Progress,
        Self::Files,
        Self::Unchanged,
        Self::Commits,
        Self::Links,
        Self::Checks,
        Self::Left,
        Self::Question,
        Self::End,
        Self::Step,
        Self::Given,
        Self::Looked,
    ];

    /// Returns the label's text, with a colon and a blank.
    pub fn text(self) -> &'static str {
        match self {
            Self::Request => "User: ",
            Self::Decision => "Decided by the user: ",
            Self::Outcome => "Answer: ",
            Self::Progress => "So far: ",
            Self::Files => "Files changed: ",
            Self::Unchanged => "Not changed: ",
            Self::Commits => "Commits: ",
            Self::Links => "Made: ",
            Self::Checks => "Checks: ",
            Self::Left => "Left to do: ",
            Self::Question => "Asked the user: ",
            Self::End => "Note: ",
            Self::Step => "On the way: ",
            Self::Given => "The user gave: ",
            Self::Looked => "Looked at: ",
        }
    }

    /// Returns true if the words after the label are quoted, since they are the user's or are put to the user.
    pub fn is_quoted(self) -> bool {
        matches!(self, Self::Request | Self::Given | Self::Decision | Self::Question)
    }

    /// Splits a point into its label, if it has one, and the rest.
    pub(super) fn split(point: &str) -> (Option<Self>, &str) {
        let labelled =
            Self::ALL.into_iter().find_map(|label| Some((Some(label), point.strip_prefix(label.text())?)));
        labelled.unwrap_or((None, point))
    }

    /// Returns true if a line of `text` has this label.
    pub(super) fn is_in(self, text: &str) -> bool {
        text.lines().any(|point| point.starts_with(self.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_split_at_its_label() {
        for label in PointLabel::ALL {
            let point = format!("{}it squeaks: always", label.text());
            assert_eq!(PointLabel::split(&point), (Some(label), "it squeaks: always"));
            assert!(label.is_in(&format!("one\n{point}")) && !label.is_in("one"));
        }
        assert_eq!(PointLabel::split("Gate: it squeaks"), (None, "Gate: it squeaks"));
        assert!(PointLabel::ALL.is_sorted());
    }
}
