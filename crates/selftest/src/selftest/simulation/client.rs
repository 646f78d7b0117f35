//! Clients and their requests to an ingestor.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{SimulatedTask, World};
use recapd_core::{
    domain::{
        agent::AgentId,
        lineage::Step,
        message::{Format, Message},
        settings::SettingsPatch,
    },
    formats,
};
use recapd_engine::ingest::Ingestor;
use recapd_store::{StoreError, StoreResult};

const TRIES: usize = 3;
const TRY_AGAIN_MS: i64 = 500;
const ROUNDS_MAX: usize = 12;
const WORDS_MAX: usize = 24;

#[derive(Default)]
pub(super) struct Client {
    last: u64,
}

enum ClientRequest {
    Say(Vec<Message>),
    Step(Step),
    Budget(SettingsPatch),
    EndSession,
    Age,
}

impl Client {
    /// The next request for `agent`, of a client that retries.
    pub(super) fn request(
        &mut self,
        world: &Arc<World>,
        ingestor: Ingestor,
        agent: AgentId,
    ) -> SimulatedTask {
        let request = self.draw(world);
        let world = Arc::clone(world);
        Box::pin(async move {
            for _ in 0..TRIES {
                let asked = ask(&ingestor, &agent, &request).await;
                if !matches!(asked, Err(StoreError::Unavailable(_))) {
                    break;
                }
                world.pause(TRY_AGAIN_MS).await;
            }
        })
    }

    fn draw(&mut self, world: &World) -> ClientRequest {
        match world.draw(|random| random.u8(..40)) {
            0..3 => ClientRequest::Step(Step::Mark(None)),
            3..6 => ClientRequest::Step(Step::Rewind(None)),
            6 => ClientRequest::Step(Step::Clear),
            7..9 => {
                let budget_tokens = world.draw(|random| random.i64(40..400));
                let patch = SettingsPatch::parse(json!({"budget_tokens": budget_tokens}));
                patch.map_or(ClientRequest::EndSession, ClientRequest::Budget)
            }
            9 => ClientRequest::EndSession,
            10 => ClientRequest::Age,
            _ => ClientRequest::Say(self.turn(world)),
        }
    }

    /// A question and its answer, sometimes with tool rounds in between, rarely with many. Repeated messages have the same
    /// ids.
    fn turn(&mut self, world: &World) -> Vec<Message> {
        let rounds = match world.draw(|random| random.u8(..12)) {
            0 => world.draw(|random| random.usize(2..=ROUNDS_MAX)),
            1 | 2 => 1,
            _ => 0,
        };
        let work = ["tool_call", "tool_result"].repeat(rounds);
        let kinds = [vec!["user"], work, vec!["assistant"]].concat();
        let said = kinds.iter().filter_map(|kind| {
            self.last += 1;
            let words = world.draw(|random| random.usize(1..WORDS_MAX));
            let text = format!("{}{}", self.last, " and so on".repeat(words));
            let payload: Value = match *kind {
                "tool_call" => {
                    json!({"kind": kind, "id": self.last.to_string(), "name": "bash", "arguments": {}})
                }
                _ => json!({"kind": kind, "id": self.last.to_string(), "content": text}),
            };
            let message = formats::parse(Format::Native, &payload.to_string()).ok()?;
            let client_id = Some(format!("m{}", self.last));
            Some(Message { client_id, ..message })
        });
        said.collect()
    }
}

async fn ask(ingestor: &Ingestor, agent: &AgentId, request: &ClientRequest) -> StoreResult<()> {
    match request {
        ClientRequest::Say(messages) => ingestor.append(agent, messages.clone()).await.map(drop),
        ClientRequest::Step(step) => ingestor.step(agent, step).await.map(drop),
        ClientRequest::Budget(patch) => ingestor.change_settings(agent, patch).await.map(drop),
        ClientRequest::EndSession => ingestor.end_session(agent).await.map(drop),
        ClientRequest::Age => ingestor.append(agent, Vec::new()).await.map(drop),
    }
}
