use std::{fs, io::Read as _, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cli::{
    GlobalOptions,
    exit::{CommandFailure, USAGE},
    terminal::output,
};
use recapd_core::{
    domain::text::one_line,
    validator::{Evidence, Severity, Target, Violation, validate},
};

/// Longer files aren't read. No provider accepts such a request.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
Reads a whole request body or the bare array of its messages. Examples:
  recapd check-request --format anthropic request.json
  recapd check-request --format gemini --model gemini-3-pro contents.json
  jq .messages log.json | recapd check-request --format openai -

Exit codes: 0 nothing would be refused, 1 something would be refused (with --strict: or is risky), 2 no request to check.")]
pub(crate) struct CheckRequest {
    /// The API that the request is for
    #[arg(long, value_enum)]
    format: ApiFormat,
    /// The model that the request is for; overrides the model in the request
    #[arg(long)]
    model: Option<String>,
    /// Also fail if something is only risky
    #[arg(long)]
    strict: bool,
    /// The request as JSON; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ApiFormat {
    Anthropic,
    Openai,
    OpenaiResponses,
    Gemini,
}

impl From<ApiFormat> for Target {
    fn from(format: ApiFormat) -> Self {
        match format {
            ApiFormat::Anthropic => Self::Anthropic,
            ApiFormat::Openai => Self::OpenAiChat,
            ApiFormat::OpenaiResponses => Self::OpenAiResponses,
            ApiFormat::Gemini => Self::Gemini,
        }
    }
}

impl CheckRequest {
    pub(crate) fn run(&self, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let request = self.read().map_err(|error| CommandFailure::new(USAGE, error))?;
        let violations = validate(self.format.into(), &request, self.model.as_deref());
        if options.json {
            output::json(&violations)?;
        } else {
            output::text(&text(&violations))?;
        }
        let fails = |violation: &Violation| self.strict || violation.severity == Severity::Refused;
        Ok(ExitCode::from(u8::from(violations.iter().any(fails))))
    }

    fn read(&self) -> anyhow::Result<Value> {
        let name = self.file.display();
        let mut bytes = Vec::new();
        let read = if self.file.as_os_str() == "-" {
            std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
        } else {
            fs::File::open(&self.file).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        };
        read.with_context(|| format!("can't read {name}"))?;
        anyhow::ensure!(bytes.len() as u64 <= FILE_BYTES_MAX, "{name} is larger than 256 MB");
        let request: Value = serde_json::from_slice(&bytes).with_context(|| format!("{name} isn't JSON"))?;
        anyhow::ensure!(
            request.is_object() || request.is_array(),
            "{name} is neither a request nor an array of messages"
        );
        Ok(request)
    }
}

/// Formats a paragraph for each violation: place, rule, severity, evidence, and the provider's message.
fn text(violations: &[Violation]) -> String {
    if violations.is_empty() {
        return "no problems found".to_owned();
    }
    let count = |severity| violations.iter().filter(|violation| violation.severity == severity).count();
    let mut lines: Vec<String> = violations.iter().map(paragraph).collect();
    lines.push(format!("{} refused, {} risky", count(Severity::Refused), count(Severity::Risky)));
    lines.join("\n")
}

fn paragraph(violation: &Violation) -> String {
    let path = if violation.path.is_empty() { "(the whole request)" } else { &violation.path };
    let severity = match violation.severity {
        Severity::Refused => "refused",
        Severity::Risky => "risky",
    };
    let evidence = match violation.evidence {
        Evidence::Documented => "documented",
        Evidence::Schema => "schema",
        Evidence::Reported => "reported",
        Evidence::Unverified => "unverified",
    };
    format!("{path}  {severity}: {} ({evidence})\n    {}", violation.rule, one_line(&violation.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_violation_is_a_paragraph() {
        let request = serde_json::json!([
            {"role": "user", "content": "What time is it?"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "clock", "input": {}},
                {"type": "text", "text": " "},
            ]},
            {"role": "user", "content": "Hello?"},
            {"role": "user", "content": "Anybody?"},
        ]);
        insta::assert_snapshot!(text(&validate(Target::Anthropic, &request, None)), @r#"
        /1/content/1  refused: text_empty (reported)
            messages: text content blocks must contain non-whitespace text
        /3  risky: roles_alternate (schema)
            messages: roles must alternate between "user" and "assistant" (the API joins them, compatible servers may refuse)
        /1  refused: call_unanswered (documented)
            messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next message.
        2 refused, 1 risky
        "#);
        assert_eq!(text(&[]), "no problems found");
    }

    #[test]
    fn control_characters_of_a_request_are_escaped() {
        let request = serde_json::json!([{"role": "\u{1b}[31mred\n", "content": "x"}]);
        let printed = text(&validate(Target::OpenAiChat, &request, None));
        assert!(!printed.contains('\u{1b}'), "{printed}");
    }
}
