//! Resources: an agent's summary, history and window, by URI.

use rmcp::{
    ErrorData,
    model::{
        Annotations, CacheScope, CompletionInfo, ListResourceTemplatesResult, ListResourcesResult,
        ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role,
    },
};

use super::{
    AGENTS_SHOWN, TTL_MS,
    source::{AgentLine, Source, SourceError},
    uri::{self, ResourceKind, ResourceName},
};
use recapd_core::domain::{agent::AgentId, number::i64_or_max, time::Timestamp};

/// How important a summary is to a model, from 0 to 1.
const SUMMARY_PRIORITY: f32 = 0.9;
/// How important histories and windows are: a model sees their content anyway, or can look it up.
const OTHER_PRIORITY: f32 = 0.3;

/// Returns a page of resources: the summaries of agents, ordered by id. Clients reach histories and windows by
/// templates.
pub(super) async fn list(
    source: &dyn Source,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let after: Option<AgentId> = match cursor {
        Some(cursor) => Some(cursor.parse().map_err(|_| {
            ErrorData::invalid_params("`cursor` can't be used: give a `nextCursor` as it came", None)
        })?),
        None => None,
    };
    let page = source.agents(after.as_ref(), AGENTS_SHOWN).await.map_err(error_data)?;
    let resources: Vec<Resource> = page.agents.iter().map(resource).collect();
    let mut result = ListResourcesResult::with_all_items(resources)
        .with_ttl_ms(TTL_MS)
        .with_cache_scope(CacheScope::Private);
    result.next_cursor = page.next_cursor.map(|next| next.as_str().to_owned());
    Ok(result)
}

/// Describes a summary by its agent's figures. Leaves its size in bytes out, because that would need the text.
fn resource(line: &AgentLine) -> Resource {
    let agent = &line.agent_id;
    let described = match line.version {
        0 => "no summary yet: nothing has left the window, or it waits to be summarised".to_owned(),
        version if line.summary_tokens == 0 => {
            format!("version {version}, all archived, covers through #{}", line.covers_through)
        }
        version => format!(
            "version {version}, {} tokens, covers through #{}",
            line.summary_tokens, line.covers_through
        ),
    };
    Resource::new(uri::of(agent.as_str(), ResourceKind::Summary), format!("{agent}/summary.md"))
        .with_title(format!("Summary of {agent}"))
        .with_description(described)
        .with_mime_type(ResourceKind::Summary.mime_type())
        .with_annotations(annotations(SUMMARY_PRIORITY, Some(line.updated_at)))
}

fn annotations(priority: f32, updated_at: Option<Timestamp>) -> Annotations {
    let mut annotations = Annotations::default().with_audience(vec![Role::Assistant]).with_priority(priority);
    annotations.last_modified = updated_at.map(|at| at.to_string());
    annotations
}

/// Returns the templates of all resources. The alias comes last.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = |uri: String, kind: ResourceKind, title: &str, description: &str| {
        let priority = if kind == ResourceKind::Summary { SUMMARY_PRIORITY } else { OTHER_PRIORITY };
        ResourceTemplate::new(uri, kind.file())
            .with_title(title)
            .with_description(description)
            .with_mime_type(kind.mime_type())
            .with_annotations(annotations(priority, None))
    };
    let summary = "What left an agent's context window, at most 10,000 tokens";
    ListResourceTemplatesResult::with_all_items(vec![
        template(uri::template(ResourceKind::Summary), ResourceKind::Summary, "Summary", summary),
        template(
            uri::template(ResourceKind::History),
            ResourceKind::History,
            "History",
            "An agent's newest exchanges, with the rule between what the model sees and what it doesn't",
        ),
        template(
            uri::template(ResourceKind::Window),
            ResourceKind::Window,
            "Window",
            "What an agent's model sees: budget, boundary and the exchanges in the window",
        ),
        template(uri::ALIAS.to_owned(), ResourceKind::Summary, "Summary (alias)", summary),
    ])
    .with_ttl_ms(TTL_MS)
    .with_cache_scope(CacheScope::Private)
}

pub(super) async fn read(source: &dyn Source, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let name = parse_uri(uri)?;
    let agent = &name.agent;
    let text = match name.kind {
        ResourceKind::Summary => source.summary(agent).await.map(|document| match document.stale_since {
            Some(at) => format!("> The database is away: this is the copy of {at}.\n\n{}", document.content),
            None => document.content,
        }),
        // The drawing needs a fixed-width font. None of its lines begins with tildes.
        ResourceKind::History => source
            .history(agent)
            .await
            .map(|drawn| format!("# History of {agent}\n\n~~~~text\n{}\n~~~~\n", drawn.trim_end())),
        ResourceKind::Window => source.window(agent, false).await.map(|view| format!("{view:#}")),
    };
    let text = text.map_err(error_data)?;
    let contents = ResourceContents::text(text, uri).with_mime_type(name.kind.mime_type());
    Ok(ReadResourceResult::new(vec![contents]).with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private))
}

pub(super) fn parse_uri(uri: &str) -> Result<ResourceName, ErrorData> {
    ResourceName::read(uri).ok_or_else(|| {
        ErrorData::resource_not_found(
            format!(
                "`uri`: there is nothing at `{uri}`; resources are {}, {}, {} and {}",
                uri::template(ResourceKind::Summary),
                uri::template(ResourceKind::History),
                uri::template(ResourceKind::Window),
                uri::ALIAS
            ),
            None,
        )
    })
}

/// Completes ids of agents that begin with `prefix`.
pub(super) async fn complete(source: &dyn Source, prefix: &str) -> Result<CompletionInfo, ErrorData> {
    let limit = i64_or_max(CompletionInfo::MAX_VALUES);
    let agent: Option<AgentId> = prefix.parse().ok();
    if agent.is_none() && !prefix.is_empty() {
        return Ok(CompletionInfo::default());
    }
    let mut ids = Vec::new();
    if let Some(agent) = &agent {
        match source.summary(agent).await {
            Ok(_) => ids.push(agent.as_str().to_owned()),
            Err(SourceError::UnknownAgent(_)) => {}
            Err(error) => return Err(error_data(error)),
        }
    }
    let page = source.agents(agent.as_ref(), limit).await.map_err(error_data)?;
    let further = page.agents.iter().map(|line| line.agent_id.as_str().to_owned());
    ids.extend(further.take_while(|id| id.starts_with(prefix)));
    let has_more = page.next_cursor.is_some() && ids.len() >= CompletionInfo::MAX_VALUES;
    ids.truncate(CompletionInfo::MAX_VALUES);
    Ok(CompletionInfo::with_pagination(ids, None, has_more).unwrap_or_default())
}

pub(super) fn error_data(error: SourceError) -> ErrorData {
    match error {
        SourceError::UnknownAgent(_) | SourceError::UnknownExchange { .. } => {
            ErrorData::resource_not_found(format!("{error}; resources/list names those that are known"), None)
        }
        SourceError::Refused(text) | SourceError::NoteChanged(text) => ErrorData::invalid_params(text, None),
        SourceError::Unavailable(text) => ErrorData::internal_error(text, None),
    }
}
