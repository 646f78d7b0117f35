//! `recapd push`: sends messages from standard input or files to one agent.

use std::{
    io::{IsTerminal as _, stdin},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    commands::check::replay,
    conversations,
    exit::CommandFailure,
    terminal::{figures::thousands, output},
    unshown::Unshown,
};
use recapd_api::http::AppendReply;
use recapd_config::Config;
use recapd_core::{
    domain::{
        agent::AgentId,
        message::{Format, Message},
        number::{count, grouped},
    },
    formats::file::{FileReader, ReadError},
};
use recapd_engine::{assembly, ingest::Ingestor};
use recapd_platform::clock::SystemClock;
use recapd_store::Store;

/// Limits a push to this many messages and bytes, because all are read before any is stored.
const MESSAGES_MAX: usize = 100_000;
const BYTES_MAX: usize = 256 << 20;
/// Limits a request to this many messages and bytes.
const CHUNK_MESSAGES_MAX: usize = 256;
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// How many unreadable lines are reported one by one.
const SKIPPED_SHOWN_MAX: usize = 20;
const STDIN: &str = "-";

#[derive(Debug, Args)]
#[command(after_help = "\
Messages of any known format, as lines, an array, or a request: one turn or many. All are read before any is stored; if one
can't be read, none is stored. Messages with an id are stored once, however often they are pushed. A role that no provider knows
is refused, and so is a message with only unknown blocks, because no model would ever get it; `recapd import` stores both as parts
of a transcript. Examples:
  echo '{\"role\":\"user\",\"content\":\"Fix the parser\"}' | recapd push my-agent
  recapd push my-agent < messages.jsonl
  recapd push my-agent session.jsonl --format claude-code
  recapd push my-agent < messages.jsonl --json")]
pub(crate) struct Push {
    /// The agent; its first message creates it
    agent: AgentId,
    /// Files to read, in order [default: standard input, also named `-`]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the messages [default: detected]
    #[arg(long, value_parser = replay::format_name())]
    format: Option<Format>,
}

#[derive(Default)]
struct PushInput {
    messages: Vec<Message>,
    /// The number of messages that can't be read.
    unread: usize,
    bytes: usize,
}

/// The daemon's answers to all requests of a push, as one answer.
#[derive(Debug, Default, Serialize, Deserialize)]
struct PushReport {
    #[serde(default)]
    agent_id: String,
    accepted: i64,
    duplicates: i64,
    /// The number of the newest exchange.
    exchange: i64,
    window: Value,
    evicted: Vec<MovedExchanges>,
    summary: Value,
}

#[derive(Debug, Serialize, Deserialize)]
struct MovedExchanges {
    from_exchange: i64,
    through_exchange: i64,
    tokens: i64,
}

impl Push {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let messages = self.read(!options.no_input)?;
        let mut unshown = Unshown::default();
        for message in &messages {
            unshown.observe(message);
        }
        let pushed = open::block_on(async {
            match &options.server {
                Some(server) => self.send(&Api::new(server)?, &messages).await,
                None => self.store(config, messages).await,
            }
        })?;
        if options.json {
            output::json(&pushed)?;
        } else {
            output::text(&pushed.line())?;
            // A few such messages may be intended: a program may push notes of its own, one at a time.
            if let Some(report) = unshown.report().filter(|_| unshown.is_much() && unshown.are_nearly_all()) {
                output::text(&report)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn read(&self, may_ask: bool) -> Result<Vec<Message>, CommandFailure> {
        let default = [PathBuf::from(STDIN)];
        let files = if self.files.is_empty() { &default[..] } else { &self.files };
        let mut reading = PushInput::default();
        for file in files {
            self.read_file(file, may_ask, &mut reading)?;
        }
        let PushInput { messages, unread, .. } = reading;
        if unread > 0 {
            let total = messages.len() + unread;
            return Err(anyhow::anyhow!(
                "{unread} of {total} messages can't be read, so none was stored: correct those named above, or use --format"
            )
            .into());
        }
        Ok(messages)
    }

    /// Reads one file. Leaves out messages of sub-agents, unless the file has nothing else.
    fn read_file(&self, file: &Path, may_ask: bool, reading: &mut PushInput) -> Result<(), CommandFailure> {
        let name = name_of(file);
        let (mut messages, mut side_records) = (Vec::new(), Vec::new());
        for record in self.open(file, may_ask)?.refusing_unknown_roles() {
            match record {
                Ok(record) => {
                    reading.bytes += record.message.payload.len();
                    if record.is_sidechain {
                        side_records.push(record);
                    } else {
                        messages.push(record.message);
                    }
                }
                Err(skipped) => {
                    reading.unread += 1;
                    if reading.unread <= SKIPPED_SHOWN_MAX {
                        output::error(&format!(
                            "{name}:{}: {}; {}",
                            skipped.line, skipped.reason, skipped.cure
                        ));
                    }
                }
            }
            let message_count = reading.messages.len() + messages.len() + side_records.len();
            if message_count > MESSAGES_MAX || reading.bytes > BYTES_MAX {
                let limits = format!("{MESSAGES_MAX} messages and {} MiB", BYTES_MAX >> 20);
                return Err(CommandFailure::usage(format!(
                    "one push can have at most {limits}: push the rest afterwards, in order"
                )));
            }
        }
        if messages.is_empty() && conversations::is_one(&side_records) {
            messages = side_records.into_iter().map(|record| record.message).collect();
        } else if !side_records.is_empty() {
            output::note(&conversations::left_out(side_records.len() as u64, &name));
        }
        reading.messages.append(&mut messages);
        Ok(())
    }

    fn open(&self, file: &Path, may_ask: bool) -> Result<FileReader, CommandFailure> {
        let opened = if file.as_os_str() == STDIN {
            if stdin().is_terminal() && !may_ask {
                let cure = "name files, or write messages to standard input";
                return Err(CommandFailure::usage(format!(
                    "nothing is read from a terminal with --no-input: {cure}"
                )));
            }
            if stdin().is_terminal() {
                output::note("recapd: reading messages from the terminal; end with Ctrl-D");
            }
            FileReader::from_reader(stdin(), &name_of(file), self.format)
        } else {
            FileReader::open(file, self.format)
        };
        opened.map_err(|error| match error {
            ReadError::Io { .. } => CommandFailure::usage(error.to_string()),
            error => anyhow::Error::new(error).into(),
        })
    }

    async fn send(&self, daemon: &Api, messages: &[Message]) -> Result<PushReport, CommandFailure> {
        let mut pushed = PushReport::default();
        for chunk in chunks(messages) {
            let format = chunk.first().map_or("native", |message| message.format.name());
            let path = format!("/v1/agents/{}/messages?format={format}", self.agent);
            let payloads: Vec<&str> = chunk.iter().map(|message| message.payload.as_str()).collect();
            let body = format!("[{}]", payloads.join(","));
            let sent = daemon.post_json(&path, body).await;
            let text = sent.map_err(|failure| pushed.broken_off(failure))?;
            pushed.add(serde_json::from_str(&text).map_err(anyhow::Error::new)?);
        }
        Ok(pushed.with_agent(&self.agent))
    }

    async fn store(&self, config: &Config, messages: Vec<Message>) -> Result<PushReport, CommandFailure> {
        let store = open::make(config).await?;
        let dyn_store: Arc<dyn Store> = Arc::clone(&store) as _;
        let journal = assembly::live_journal(&config.journal, Arc::clone(&store) as _)
            .with_context(|| format!("making {}; see journal.dir", config.journal.dir))?;
        let ingestor =
            assembly::ingestor_alone(config, dyn_store, Arc::new(SystemClock)).await?.with_journal(journal);
        let mut pushed = PushReport::default();
        for chunk in chunks(&messages) {
            let outcome = append(&ingestor, &self.agent, chunk).await;
            pushed.add(outcome.map_err(|failure| pushed.broken_off(failure))?);
        }
        ingestor.index_all().await?;
        // If writing the agent's journal file has failed, only the agent's next message would complete the file.
        ingestor.mend_journal().await;
        Ok(pushed.with_agent(&self.agent))
    }
}

fn name_of(file: &Path) -> String {
    if file.as_os_str() == STDIN { "standard input".to_owned() } else { file.display().to_string() }
}

async fn append(
    ingestor: &Ingestor,
    agent: &AgentId,
    messages: &[Message],
) -> Result<PushReport, CommandFailure> {
    let outcome = ingestor.append(agent, messages.to_vec()).await?;
    let appended = serde_json::to_value(AppendReply::from(&outcome)).map_err(anyhow::Error::new)?;
    Ok(serde_json::from_value(appended).map_err(anyhow::Error::new)?)
}

/// Splits the messages into requests. Each has one format and keeps to the limits.
fn chunks(messages: &[Message]) -> Vec<&[Message]> {
    let (mut chunks, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (index, message) in messages.iter().enumerate() {
        let size = message.payload.len();
        let is_other = messages.get(begin).is_some_and(|first| first.format != message.format);
        if index > begin
            && (is_other || index - begin >= CHUNK_MESSAGES_MAX || bytes + size > CHUNK_BYTES_MAX)
        {
            chunks.extend(messages.get(begin..index));
            (begin, bytes) = (index, 0);
        }
        bytes += size;
    }
    chunks.extend(messages.get(begin..).filter(|rest| !rest.is_empty()));
    chunks
}

impl PushReport {
    fn with_agent(self, agent: &AgentId) -> Self {
        Self { agent_id: agent.to_string(), ..self }
    }

    /// Adds the counts of the next chunk. The state after it replaces the earlier state.
    fn add(&mut self, next: Self) {
        self.accepted += next.accepted;
        self.duplicates += next.duplicates;
        self.evicted.extend(next.evicted);
        (self.exchange, self.window, self.summary) = (next.exchange, next.window, next.summary);
    }

    /// Adds to a failure how many messages were stored before it.
    fn broken_off(&self, failure: CommandFailure) -> CommandFailure {
        match self.accepted + self.duplicates {
            0 => failure,
            stored => failure.after(&format!("{} stored, the rest isn't", count(stored, "message"))),
        }
    }

    fn line(&self) -> String {
        let duplicates = match self.duplicates {
            0 => String::new(),
            duplicates => format!(", {} were already stored", grouped(duplicates)),
        };
        let figure = |object: &Value, name: &str| object[name].as_i64().unwrap_or_default();
        let tokens = thousands(figure(&self.window, "tokens"));
        let window = match figure(&self.window, "budget_tokens") {
            0 => format!("window {tokens} tokens"),
            budget => format!("window {tokens} of {} tokens", thousands(budget)),
        };
        let evicted = match (self.evicted.first(), self.evicted.last()) {
            (Some(first), Some(last)) => {
                format!(", #{} to #{} left the window", first.from_exchange, last.through_exchange)
            }
            _ => String::new(),
        };
        let pending = match figure(&self.summary, "pending_exchanges") {
            0 => String::new(),
            pending => format!(", up to {} wait for the summary", grouped(pending)),
        };
        format!(
            "stored {} of {}{duplicates}; {window}{evicted}{pending}",
            count(self.accepted, "message"),
            self.agent_id
        )
    }
}
