//! The brief of a project, which a new session of the project reads. It says which other sessions are at work, which facts hold, and what
//! was done, newest first.

use super::{
    brief::{BriefOptions, Excerpt, sections},
    reading::{DAY_MARK, SECTION_MARK},
    shared::SHARED_FOOTER,
    state::HEADING,
};
use crate::domain::{
    agent::AgentId,
    exchange::Exchange,
    neutralize::{defanged, quoted},
    project::ProjectId,
    text::one_line,
    time::{HOUR_MS, Timestamp},
    tokens::TokenCounter,
};

/// A session whose last message is older than this isn't at work.
pub const AT_WORK_MS: i64 = HOUR_MS;
/// Limits the facts of other sessions to this many characters, so that there is room for what was done.
const STATE_CHARS_MAX: usize = 2_000;
/// Cuts the request of another session to this many characters.
const REQUEST_CHARS_MAX: usize = 160;

/// What a project's brief is made of.
#[derive(Clone, Debug)]
pub struct ProjectBrief {
    /// The project.
    pub project: ProjectId,
    /// The document that its agents share.
    pub document: String,
    /// The agents that were active last, with their own documents; the last active agent first.
    pub states: Vec<AgentState>,
    /// A line about each other session that is at work.
    pub at_work: Vec<String>,
    /// The agent that reads the brief and doesn't need its own part.
    pub reader: Option<AgentId>,
}

/// The document of one agent, which has its facts.
#[derive(Clone, Debug)]
pub struct AgentState {
    /// The agent.
    pub agent: AgentId,
    /// Its document.
    pub document: String,
}

/// Writes the line about a session that is at work on `exchange`.
pub fn at_work(agent: &AgentId, exchange: &Exchange, last_at: Timestamp) -> String {
    let request = quoted(&defanged(&one_line(&exchange.headline.title)), REQUEST_CHARS_MAX);
    let at = last_at.format("%H:%M");
    format!("At work in another session: {agent} since {at} on #{}: {request}", exchange.first_leg())
}

impl ProjectBrief {
    /// Shortens the brief to `options`. Returns an empty text if there is nothing to say.
    pub fn excerpt(&self, options: BriefOptions, counter: &dyn TokenCounter) -> Excerpt {
        let head = self.at_work.iter().fold(String::new(), |head, line| head + line + "\n");
        let project = &self.project;
        let closing = format!(
            "*Each #n is an exchange of the agent above it: `recapd expand AGENT N`. All of it: `recapd summary --project {project}`.*"
        );
        let document = self.facts() + &self.without_reader();
        if document.trim().is_empty() && !head.is_empty() {
            let text = format!("{head}\n{closing}\n");
            let tokens = counter.count(&text);
            return Excerpt { text, tokens, truncated: false };
        }
        options.shorten_below(&head, &document, &closing, counter)
    }

    /// Writes the section of facts, with the name of each agent above the facts of its document.
    fn facts(&self) -> String {
        let mut text = String::new();
        for state in self.states.iter().filter(|state| Some(&state.agent) != self.reader.as_ref()) {
            let sections = sections(&state.document).into_iter();
            for section in sections.filter(|section| section.title == HEADING) {
                let part = format!("{DAY_MARK}{}\n{}\n\n", state.agent, section.content);
                if text.chars().count() + part.chars().count() <= STATE_CHARS_MAX {
                    text.push_str(&part);
                }
            }
        }
        if text.is_empty() {
            return text;
        }
        format!("{SECTION_MARK}{HEADING}\n{text}")
    }

    /// Returns the document without the part of the reader and without the footer.
    fn without_reader(&self) -> String {
        let reader_heading = self.reader.as_ref().map(|agent| format!("{DAY_MARK}{agent}"));
        let mut is_left_out = false;
        let lines = self.document.lines().filter(|line| {
            if line.starts_with(DAY_MARK) || line.starts_with(SECTION_MARK) {
                is_left_out = reader_heading.as_deref() == Some(line);
            }
            !is_left_out && *line != SHARED_FOOTER
        });
        let lines: Vec<&str> = lines.collect();
        let has_text = lines.iter().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
        if has_text { lines.join("\n") + "\n" } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::BytesCounter;

    fn brief(reader: Option<&str>, at_work: &[&str]) -> String {
        let document = "## Previously in This Session (5 January 2026)\n### one\n- Fixed bug 1 (#1)\n\n### two\n- Fixed bug 2 (#2)\n\n\
             ## Yesterday\n### one\n- Fixed bug 0 (#0)\n\n";
        let document_of_two =
            "## Where Things Stand\n- Demand (#2): never push\n\n## Yesterday\n- Fixed bug 2 (#2)\n";
        let brief = ProjectBrief {
            project: "shop".parse().unwrap(),
            document: format!("{document}{SHARED_FOOTER}\n"),
            states: vec![AgentState { agent: "two".parse().unwrap(), document: document_of_two.to_owned() }],
            at_work: at_work.iter().map(|&line| line.to_owned()).collect(),
            reader: reader.map(|name| name.parse().unwrap()),
        };
        let options = BriefOptions::new(true, Some(2_000), None).unwrap();
        brief.excerpt(options, &BytesCounter).text
    }

    #[test]
    fn a_brief_has_other_sessions_then_facts_then_items() {
        insta::assert_snapshot!(brief(None, &["At work in another session: two"]), @r"
        At work in another session: two

        ## Where Things Stand
        ### two
        - Demand (#2): never push

        ## Previously in This Session (5 January 2026)
        ### two
        - Fixed bug 2 (#2)
        ### one
        - Fixed bug 1 (#1)

        ## Yesterday
        ### one
        - Fixed bug 0 (#0)

        *Each #n is an exchange of the agent above it: `recapd expand AGENT N`. All of it: `recapd summary --project shop`.*
        ");
    }

    #[test]
    fn the_readers_own_part_is_left_out() {
        let text = brief(Some("two"), &[]);
        assert!(!text.contains("two") && !text.contains("never push") && text.contains("bug 1"), "{text}");
        let nothing = ProjectBrief {
            project: "shop".parse().unwrap(),
            document: format!("## Yesterday\n### two\n- Fixed bug 2 (#2)\n\n{SHARED_FOOTER}\n"),
            states: Vec::new(),
            at_work: Vec::new(),
            reader: Some("two".parse().unwrap()),
        };
        let options = BriefOptions::new(true, None, None).unwrap();
        assert_eq!(nothing.excerpt(options, &BytesCounter).text, "");
        let alone = ProjectBrief { at_work: vec!["At work: x".to_owned()], ..nothing };
        assert!(alone.excerpt(options, &BytesCounter).text.starts_with("At work: x\n\n*Each"));
    }
}
