//! Subscriptions of the later era: requests that stay open.
//!
//! The SDK acknowledges such a request before it hands it over. So how the resources stand is looked at one step earlier, where
//! requests come in: what changed between the acknowledgement and a look behind it would be told with the next change only.

use std::{borrow::Cow, collections::BTreeSet, future::pending, sync::Arc};

use axum::http::request::Parts;
use futures::future::join_all;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, Service,
    model::{
        ClientNotification, ClientRequest, ProtocolVersion, ServerConfig, ServerResult, SubscriptionFilter,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    WATCHES_MAX,
    server::{Methods, Shared},
    uri::Name,
    watch,
};
use crate::domain::agent::AgentId;

/// The server of one client that has a connection to itself.
pub struct Server(Methods);

impl Server {
    /// A server that answers from `shared`.
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self(Methods::new(shared))
    }

    async fn look(&self, wanted: &SubscriptionFilter, context: &RequestContext<RoleServer>) -> Option<Seen> {
        tokio::select! {
            seen = look_before(&self.0.shared, wanted) => seen,
            () = context.ct.cancelled() => None,
        }
    }
}

impl Service<RoleServer> for Server {
    async fn handle_request(
        &self,
        request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        if let ClientRequest::SubscriptionsListenRequest(listen) = &request
            && let Some(seen) = self.look(&listen.params.notifications, &context).await
        {
            context.extensions.insert(seen);
        }
        Box::pin(self.0.handle_request(request, context)).await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&self.0)
    }
}

/// How the resources of a subscription stood, and their places.
#[derive(Clone)]
pub(super) struct Seen {
    sights: Arc<Vec<Sight>>,
    _places: Arc<OwnedSemaphorePermit>,
}

/// How a resource stood.
struct Sight {
    uri: String,
    agent: AgentId,
    tag: Option<String>,
}

impl Seen {
    /// What was seen before the acknowledgement: it comes with the message, or with the HTTP request that brought it.
    fn before(context: &SubscriptionContext) -> Option<&Self> {
        let extensions = &context.request_context().extensions;
        let by_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        extensions.get::<Self>().or_else(by_http)
    }
}

/// Of what a client wants to hear, the resources that can be here.
pub(super) fn known(wanted: &SubscriptionFilter) -> impl Iterator<Item = &String> {
    let uris = wanted.resource_subscriptions.iter().flatten();
    uris.filter(|uri| Name::read(uri).is_some()).take(WATCHES_MAX)
}

/// How the resources stand that a client wants to hear of. None if there is no place for it, which [`listen`] finds as well and
/// says, or if the daemon ends.
pub(super) async fn look_before(shared: &Shared, wanted: &SubscriptionFilter) -> Option<Seen> {
    tokio::select! {
        seen = first_look(shared, wanted) => seen.ok(),
        () = shared.stop.cancelled() => None,
    }
}

async fn first_look(shared: &Shared, wanted: &SubscriptionFilter) -> Result<Seen, ErrorData> {
    let uris: BTreeSet<&String> = known(wanted).collect();
    // Who subscribes to nothing waits, too.
    let places = shared.places(uris.len().max(1))?;
    let looks: Vec<_> = uris.into_iter().map(|uri| look(shared, uri)).collect();
    let sights = join_all(looks).await.into_iter().flatten().collect();
    Ok(Seen {
        sights: Arc::new(sights),
        _places: Arc::new(places),
    })
}

async fn look(shared: &Shared, uri: &str) -> Option<Sight> {
    let agent = Name::read(uri)?.agent;
    // Of what can't be looked at now, the first look that succeeds is told as a change.
    let tag = watch::look(&shared.way, &agent, None).await.unwrap_or_default();
    Some(Sight {
        uri: uri.to_owned(),
        agent,
        tag,
    })
}

/// Tells of all that changes since it was seen, until nobody listens any more.
pub(super) async fn listen(shared: &Shared, context: &SubscriptionContext) -> Result<(), ErrorData> {
    let telling = async {
        let seen = match Seen::before(context) {
            Some(seen) => seen.clone(),
            None => first_look(shared, context.accepted()).await?,
        };
        let watches: Vec<_> = seen
            .sights
            .iter()
            .map(|sight| tell(shared, context, sight))
            .collect();
        join_all(watches).await;
        // Who subscribed to nothing waits for the end.
        if seen.sights.is_empty() {
            pending::<()>().await;
        }
        Ok::<(), ErrorData>(())
    };
    tokio::select! {
        told = telling => told,
        () = context.cancelled() => Ok(()),
        () = shared.stop.cancelled() => Ok(()),
    }
}

async fn tell(shared: &Shared, context: &SubscriptionContext, sight: &Sight) {
    let uri = sight.uri.as_str();
    let told = || async { context.sink().notify_resource_updated(uri).await.is_ok() };
    watch::follow(&shared.way, &sight.agent, sight.tag.clone(), told).await;
}
