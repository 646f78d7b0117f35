//! Each message reaches the daemon exactly once, whatever happens to hooks.

mod fork;
mod half;
mod rest;
mod unreadable;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fs,
    time::Duration,
};

use proptest::prelude::*;

use super::*;
use crate::hook::{
    daemon::{Daemon, SendFailure},
    folder::StateFolder,
};
use recapd_config::Environment;
use recapd_core::{domain::time::Timestamp, formats};

/// A daemon in memory: it stores a request atomically, and a message with a known id once.
#[derive(Default)]
struct Memory {
    stored: RefCell<Vec<(String, String)>>,
    is_away: Cell<bool>,
    /// Accepts nothing for this agent.
    declines: RefCell<Option<AgentId>>,
    /// Accepts requests without answering.
    is_mute: Cell<bool>,
    /// Answers a request with more messages than this too late.
    most: Cell<Option<usize>>,
    /// After this many requests, time is up.
    has_time_for: Cell<Option<usize>>,
    requests: Cell<usize>,
    joined: RefCell<Vec<String>>,
}

impl Daemon for Memory {
    fn append(&self, agent: &AgentId, format: &str, lines: String) -> Result<(), SendFailure> {
        self.requests.set(self.requests.get() + 1);
        if let Some(left) = self.has_time_for.get() {
            let left = left.checked_sub(1).ok_or(SendFailure::OutOfTime)?;
            self.has_time_for.set(Some(left));
        }
        if self.is_away.get() {
            return Err(SendFailure::Away("away".to_owned()));
        }
        if self.declines.borrow().as_ref() == Some(agent) {
            return Err(SendFailure::Declined("not for this token".to_owned()));
        }
        if self.most.get().is_some_and(|most| most < lines.lines().count()) {
            return Err(SendFailure::Late("late".to_owned()));
        }
        let mut stored = self.stored.borrow().clone();
        let mut known: HashMap<String, String> = stored.iter().cloned().collect();
        for line in lines.lines() {
            let message = formats::parse(Format::from_name(format).unwrap(), line).unwrap();
            let id = message.client_id.unwrap();
            match known.insert(id.clone(), line.to_owned()) {
                None => stored.push((id, line.to_owned())),
                Some(other) if other == line => {}
                Some(_) => return Err(SendFailure::Refused("client id used before".to_owned())),
            }
        }
        *self.stored.borrow_mut() = stored;
        if self.is_mute.get() {
            return Err(SendFailure::Away("too late".to_owned()));
        }
        Ok(())
    }

    fn join(&self, project: &SessionProject, agent: &AgentId) -> bool {
        self.joined.borrow_mut().push(format!("{} {agent}", project.id));
        true
    }
}

/// Hooks of one agent in a folder of their own.
struct Hooks {
    folder: tempfile::TempDir,
    host: Host,
    agent: AgentId,
    project: Option<SessionProject>,
    daemon: Memory,
}

impl Hooks {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            host: Host::ClaudeCode,
            agent: "a".parse().unwrap(),
            project: None,
            daemon: Memory::default(),
        }
    }

    fn state(&self) -> StateFolder {
        let home = [("XDG_STATE_HOME", self.folder.path().to_str().unwrap())];
        StateFolder::of(&home.into_iter().collect::<Environment>()).unwrap()
    }

    fn owner(&self) -> SessionOwner {
        SessionOwner { agent: self.agent.clone(), project: self.project.clone() }
    }

    fn files(&self) -> AgentFolder {
        self.state().agent(&self.agent)
    }

    fn transcript(&self, session: &str) -> PathBuf {
        self.folder.path().join(format!("{session}.jsonl"))
    }

    fn input(&self, session: &str) -> Input {
        Input { session: session.to_owned(), transcript: Some(self.transcript(session)), ..Input::default() }
    }

    fn gather(&self, session: &str, mark: Option<SessionMark>) {
        self.gather_within(Duration::from_mins(1), session, mark);
    }

    fn gather_within(&self, time: Duration, session: &str, mark: Option<SessionMark>) {
        self.try_gather(time, session, mark).unwrap();
    }

    fn try_gather(&self, time: Duration, session: &str, mark: Option<SessionMark>) -> io::Result<()> {
        let folder = self.files();
        let owner = self.owner();
        let gathering = Gatherer {
            folder: &folder,
            owner: &owner,
            former: Some(self.state().agent(&"former".parse().unwrap())),
            host: self.host,
            deadline: Instant::now() + time,
        };
        gathering.gather(&self.input(session), mark)
    }

    fn drain(&self) {
        drain(&self.files(), &self.owner(), &self.daemon, Timestamp(0)).unwrap();
    }

    fn stored(&self) -> Vec<String> {
        self.daemon.stored.borrow().iter().map(|(_, line)| line.clone()).collect()
    }
}

/// A line of a transcript. By its number, the line has an id, has none, or is no message.
fn line(number: usize, text: &str) -> String {
    match number % 5 {
        0 => {
            format!(r#"{{"message":{{"content":"{text}","role":"user"}},"type":"user","uuid":"u{number}"}}"#)
        }
        1 => format!(
            r#"{{"message":{{"content":[{{"type":"text","text":"{text}"}}],"role":"assistant"}},"type":"assistant","uuid":"u{number}"}}"#
        ),
        2 => format!(r#"{{"message":{{"content":"{text}","role":"user"}},"type":"user"}}"#),
        3 => format!("no message {text}"),
        _ => format!(
            r#"{{"type":"user","isSidechain":true,"uuid":"u{number}","message":{{"role":"user","content":"{text}"}}}}"#
        ),
    }
}

fn transcript(texts: &[String]) -> Vec<u8> {
    let lines = texts.iter().enumerate().map(|(number, text)| format!("{}\n", line(number, text)));
    lines.collect::<String>().into_bytes()
}

/// The messages, and the mark after them, that are stored if the whole transcript is read at once.
fn at_once(bytes: &[u8]) -> Vec<String> {
    let hooks = Hooks::new();
    fs::write(hooks.transcript("s"), bytes).unwrap();
    hooks.gather("s", Some(SessionMark::Clear));
    hooks.drain();
    hooks.stored()
}

/// An action of the host, a hook or the daemon.
#[derive(Clone, Debug)]
enum HookStep {
    /// The transcript grows to this share, in thousandths.
    Grow(usize),
    Gather,
    Drain,
    Away(bool),
    Mute(bool),
    /// A hook is killed after a segment was written and before the cursor moved.
    LoseCursor,
}

fn any_step() -> impl Strategy<Value = HookStep> {
    prop_oneof![
        4 => (0_usize..=1_000).prop_map(HookStep::Grow),
        4 => Just(HookStep::Gather),
        3 => Just(HookStep::Drain),
        1 => any::<bool>().prop_map(HookStep::Away),
        1 => any::<bool>().prop_map(HookStep::Mute),
        1 => Just(HookStep::LoseCursor),
    ]
}

fn take(hooks: &Hooks, step: &HookStep, bytes: &[u8], seen: &mut usize, cursors: &mut Option<Vec<u8>>) {
    let path = hooks.transcript("s");
    let cursor_of = |folder: AgentFolder| files(&folder.cursors()).into_iter().next();
    match step {
        HookStep::Grow(share) => {
            *seen = (*seen).max(bytes.len() * share / 1_000);
            fs::write(&path, &bytes[..*seen]).unwrap();
        }
        HookStep::Gather => {
            *cursors = cursor_of(hooks.files()).map(|file| fs::read(file).unwrap());
            hooks.gather("s", None);
        }
        HookStep::Drain => hooks.drain(),
        HookStep::Away(is_away) => hooks.daemon.is_away.set(*is_away),
        HookStep::Mute(is_mute) => hooks.daemon.is_mute.set(*is_mute),
        HookStep::LoseCursor => {
            if let (Some(file), Some(before)) = (cursor_of(hooks.files()), cursors.as_ref()) {
                fs::write(file, before).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_same_messages_are_stored_whatever_happens_while_they_are_read(
        texts in proptest::collection::vec("[a-zé😀 ]{0,20}", 0..30),
        steps in proptest::collection::vec(any_step(), 0..30),
    ) {
        let bytes = transcript(&texts);
        let hooks = Hooks::new();
        fs::write(hooks.transcript("s"), b"").unwrap();
        let (mut seen, mut cursors) = (0, None);
        for step in &steps {
            take(&hooks, step, &bytes, &mut seen, &mut cursors);
        }
        hooks.daemon.is_away.set(false);
        hooks.daemon.is_mute.set(false);
        fs::write(hooks.transcript("s"), &bytes).unwrap();
        hooks.gather("s", Some(SessionMark::Clear));
        hooks.drain();
        prop_assert_eq!(hooks.stored(), at_once(&bytes));
        prop_assert_eq!(Spool::new(hooks.files().spool()).counts(), (0, 0));
    }
}

#[test]
fn a_rewritten_or_shortened_transcript_is_read_again_and_stored_once() {
    let texts: Vec<String> = (0..10).map(|number| format!("text {number}")).collect();
    let bytes = transcript(&texts);
    let hooks = Hooks::new();
    let path = hooks.transcript("s");
    let see = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        hooks.gather("s", None);
        hooks.drain();
    };
    see(&bytes);
    let all = hooks.stored();
    see(&transcript(&texts[..4]));
    assert_eq!(hooks.stored(), all);
    // A line was inserted at the beginning. Messages with ids of their own are still recognised.
    let longer =
        [br#"{"type":"user","uuid":"first","message":{"role":"user","content":"x"}}"#, &b"\n"[..], &bytes]
            .concat();
    see(&longer);
    let ids = |stored: &[String]| stored.iter().filter(|line| line.contains("\"uuid\":\"u")).count();
    assert_eq!(ids(&hooks.stored()), ids(&all));
    assert!(hooks.stored().iter().any(|line| line.contains("\"first\"")));
}

#[test]
fn one_refused_message_does_not_block_others() {
    let hooks = Hooks::new();
    let other = r#"{"type":"user","uuid":"u5","message":{"role":"user","content":"other words"}}"#;
    hooks.daemon.append(&hooks.agent, "claude-code", other.to_owned()).unwrap();
    let texts: Vec<String> = (0..50).map(|number| format!("text {number}")).collect();
    fs::write(hooks.transcript("s"), transcript(&texts)).unwrap();
    hooks.gather("s", None);
    hooks.drain();
    assert_eq!(hooks.stored().len(), 30);
    assert!(hooks.daemon.requests.get() < 20, "{}", hooks.daemon.requests.get());
    let sent: SendState = read_json(&hooks.files().sent()).unwrap();
    assert_eq!((sent.refused, sent.last_push_at), (1, Some(Timestamp(0))));
}

#[test]
fn another_sessions_hook_gathers_messages_after_a_sessions_last_hook() {
    let hooks = Hooks::new();
    let texts: Vec<String> = (0..6).map(|number| format!("text {number}")).collect();
    let bytes = transcript(&texts);
    fs::write(hooks.transcript("one"), &bytes[..bytes.len() / 2]).unwrap();
    hooks.gather("one", Some(SessionMark::Clear));
    fs::write(hooks.transcript("one"), &bytes).unwrap();
    fs::write(hooks.transcript("two"), b"").unwrap();
    hooks.gather("two", None);
    hooks.drain();
    let ids = hooks.stored().iter().filter(|line| line.contains("uuid")).count();
    assert_eq!(ids, at_once(&bytes).iter().filter(|line| line.contains("uuid")).count());
    assert!(hooks.stored().iter().any(|line| line.contains("\"clear\"")));
}

#[test]
fn files_are_private_and_named_by_hashes() {
    use std::os::unix::fs::PermissionsExt as _;

    let hooks = Hooks::new();
    fs::write(hooks.transcript("secret-session"), transcript(&["x".to_owned()])).unwrap();
    hooks.gather("secret-session", None);
    let mut folders = vec![hooks.folder.path().join("recapd")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let mode = path.metadata().unwrap().permissions().mode() & 0o077;
            assert_eq!(mode, 0, "{}", path.display());
            assert!(!path.to_str().unwrap().replace(".jsonl", "").contains("secret"), "{}", path.display());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(Path::new(&hooks.transcript("secret-session")).exists());
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("text {number}")).collect()
}

#[test]
fn a_mark_for_which_a_hook_has_no_time_is_placed_later() {
    let hooks = Hooks::new();
    let path = hooks.transcript("s");
    let long: Vec<String> = (0..200).map(|number| format!("{number} {}", "x".repeat(4_000))).collect();
    let bytes = transcript(&long);
    fs::write(&path, &bytes).unwrap();
    hooks.gather_within(Duration::ZERO, "s", Some(SessionMark::Clear));
    hooks.drain();
    let early = hooks.stored();
    assert!(!early.is_empty() && !early.iter().any(|line| line.contains("clear")));

    let further = format!("{}\n", line(1_000, "after the compaction"));
    fs::write(&path, [&bytes[..], further.as_bytes()].concat()).unwrap();
    fs::write(hooks.transcript("another"), "").unwrap();
    hooks.gather("another", None);
    hooks.drain();
    let all = hooks.stored();
    let clear = all.iter().position(|line| line.contains("\"clear\"")).unwrap();
    assert_eq!((clear, all.len()), (at_once(&bytes).len() - 1, clear + 2));
    assert!(files(&hooks.files().marks()).is_empty());
}

#[test]
fn a_mark_survives_a_hook_that_gets_no_lock() {
    let hooks = Hooks::new();
    fs::write(hooks.transcript("s"), transcript(&texts(6))).unwrap();
    let lock = hooks.files().lock("gather.lock", Instant::now()).unwrap();
    hooks.gather_within(Duration::ZERO, "s", Some(SessionMark::Clear));
    drop(lock);
    hooks.gather("s", None);
    hooks.drain();
    assert_eq!(hooks.stored(), at_once(&transcript(&texts(6))));
}

#[test]
fn another_sessions_hook_gathers_a_session_whose_only_hook_got_no_lock() {
    let hooks = Hooks::new();
    // Sessions that were opened and closed have no transcript, and must not block others.
    for number in 0..4 * STRAGGLERS_MAX {
        let nothing = format!("nothing {number}");
        hooks.try_gather(Duration::from_mins(1), &nothing, Some(SessionMark::Clear)).unwrap_err();
    }
    fs::write(hooks.transcript("s"), transcript(&texts(6))).unwrap();
    let lock = hooks.files().lock("gather.lock", Instant::now()).unwrap();
    hooks.gather_within(Duration::ZERO, "s", Some(SessionMark::Clear));
    drop(lock);
    fs::write(hooks.transcript("another"), "").unwrap();
    hooks.gather("another", None);
    hooks.drain();
    assert_eq!(hooks.stored(), at_once(&transcript(&texts(6))));
}

#[test]
fn a_slow_daemon_gets_smaller_requests() {
    let hooks = Hooks::new();
    fs::write(hooks.transcript("s"), transcript(&texts(100))).unwrap();
    hooks.gather("s", None);
    hooks.daemon.most.set(Some(3));
    for _ in 0..20 {
        hooks.drain();
    }
    hooks.daemon.most.set(None);
    assert_eq!(Spool::new(hooks.files().spool()).counts(), (0, 0));
    assert_eq!(hooks.stored().len(), 60);
}

#[test]
fn any_hook_sends_what_other_agents_left() {
    let mut hooks = Hooks::new();
    fs::write(hooks.transcript("s"), transcript(&texts(6))).unwrap();
    hooks.daemon.is_away.set(true);
    hooks.gather("s", Some(SessionMark::Clear));
    hooks.drain();
    // Lines that the host wrote after the agent's last hook are sent, too.
    fs::write(hooks.transcript("s"), transcript(&texts(11))).unwrap();
    hooks.agent = "b".parse().unwrap();
    hooks.daemon.is_away.set(false);
    let others = hooks.state().other_folders(&hooks.files());
    let deadline = Instant::now() + Duration::from_mins(1);
    gather_and_drain(&others, &hooks.daemon, Host::ClaudeCode, deadline, Timestamp(0));
    let ids = |stored: &[String]| stored.iter().filter(|line| line.contains("uuid")).count();
    assert_eq!(ids(&hooks.stored()), ids(&at_once(&transcript(&texts(11)))));
}

#[test]
fn a_declined_agent_does_not_block_others() {
    let mut hooks = Hooks::new();
    let agents: [AgentId; 3] = ["a", "b", "c"].map(|name| name.parse().unwrap());
    for agent in &agents {
        hooks.agent = agent.clone();
        fs::write(hooks.transcript(agent.as_str()), transcript(&texts(6))).unwrap();
        hooks.gather(agent.as_str(), None);
    }
    let all = hooks.state().agents();
    let GatherState { agent: first, .. } = read_json(&all[0].gathered_file()).unwrap();
    hooks.daemon.declines.replace(Some(first.clone()));
    let deadline = Instant::now() + Duration::from_mins(1);
    gather_and_drain(&all, &hooks.daemon, Host::ClaudeCode, deadline, Timestamp(0));
    let waits = |agent: &&AgentId| Spool::new(hooks.state().agent(agent).spool()).counts() != (0, 0);
    assert_eq!(agents.iter().filter(waits).collect::<Vec<_>>(), [&first]);
    // An unreachable daemon isn't asked again for each agent.
    hooks.daemon.is_away.set(true);
    for agent in &agents {
        hooks.agent = agent.clone();
        hooks.gather(agent.as_str(), Some(SessionMark::Clear));
    }
    hooks.daemon.requests.set(0);
    gather_and_drain(&all, &hooks.daemon, Host::ClaudeCode, deadline, Timestamp(0));
    assert_eq!(hooks.daemon.requests.get(), 1);
}

#[test]
fn lines_copied_from_another_session_are_left_out_unless_each_session_has_its_own_agent() {
    let copied = r#"{"type":"user","uuid":"u0","forkedFrom":{"sessionId":"s"},"message":{"role":"user","content":"x"}}"#;
    let own = r#"{"type":"user","uuid":"u1","message":{"role":"user","content":"y"}}"#;
    for (project, count) in [(None, 1), (Some(project()), 2)] {
        let mut hooks = Hooks::new();
        hooks.project = project;
        fs::write(hooks.transcript("branch"), format!("{copied}\n{own}\n")).unwrap();
        hooks.gather("branch", None);
        hooks.drain();
        assert_eq!(hooks.stored().len(), count);
    }
}

fn project() -> SessionProject {
    SessionProject { id: "shop".parse().unwrap(), former: "former".parse().unwrap() }
}

#[test]
fn a_session_joins_its_project_once() {
    let mut hooks = Hooks::new();
    hooks.project = Some(project());
    for count in [6, 11, 16] {
        fs::write(hooks.transcript("s"), transcript(&texts(count))).unwrap();
        hooks.gather("s", None);
        hooks.drain();
    }
    assert_eq!(*hooks.daemon.joined.borrow(), ["shop a"]);
}

#[test]
fn a_session_is_read_on_from_where_the_former_agent_stopped() {
    let mut hooks = Hooks::new();
    hooks.agent = "former".parse().unwrap();
    fs::write(hooks.transcript("s"), transcript(&texts(6))).unwrap();
    hooks.gather("s", None);
    hooks.drain();
    hooks.agent = "a".parse().unwrap();
    hooks.project = Some(project());
    fs::write(hooks.transcript("s"), transcript(&texts(11))).unwrap();
    hooks.gather("s", None);
    assert!(files(&hooks.state().agent(&"former".parse().unwrap()).cursors()).is_empty());
    hooks.drain();
    let all = at_once(&transcript(&texts(11)));
    assert_eq!(hooks.stored(), all[..all.len() - 1]);
}

#[test]
fn a_prompt_without_content_is_left_out() {
    let wordless = r#"{"type":"user","uuid":"w","message":{"role":"user","content":[]}}"#;
    let with_content = transcript(&texts(6));
    let hooks = Hooks::new();
    let bytes = [format!("{wordless}\n").as_bytes(), &with_content[..]].concat();
    fs::write(hooks.transcript("s"), bytes).unwrap();
    hooks.gather("s", None);
    hooks.drain();
    let ids = |stored: &[String]| stored.iter().filter(|line| line.contains("uuid")).count();
    assert_eq!(ids(&hooks.stored()), ids(&at_once(&with_content)));
    assert!(!hooks.stored().iter().any(|line| line == wordless));
}

#[test]
fn files_untouched_for_months_are_removed() {
    let hooks = Hooks::new();
    fs::write(hooks.transcript("s"), transcript(&texts(6))).unwrap();
    hooks.gather("s", None);
    hooks.drain();
    let state = hooks.state();
    fs::write(hooks.files().spool().join(".tmp"), "half").unwrap();
    let (now, soon) = (
        recapd_platform::clock::Clock::now(&recapd_platform::clock::SystemClock),
        Instant::now() + Duration::from_mins(1),
    );
    state.prune(now, soon);
    assert!(hooks.files().gathered_file().exists() && hooks.files().spool().join(".tmp").exists());
    state.prune(now.plus_ms(61 * recapd_core::domain::time::DAY_MS), soon);
    assert!(!hooks.files().gathered_file().exists());
}
