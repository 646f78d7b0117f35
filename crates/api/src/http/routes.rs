//! Registers all routes and their descriptions.

mod age;
pub(super) mod agents;
mod audit;
pub(super) mod compact;
pub(super) mod context;
mod conversation;
pub(super) mod events;
mod facts;
mod forget;
mod health;
mod history;
mod items;
mod lineage;
pub(super) mod messages;
mod notes;
mod pins;
pub(super) mod projects;
mod proxy;
pub(super) mod queue;
pub(super) mod recall;
mod replacement;
pub(super) mod runs;
mod sessions;
mod settings;
mod status;
pub(super) mod summary;
pub(super) mod versions;
mod window;

use serde_json::Value;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{SharedApp, openapi};

/// Returns all routes. Each path has one line, because its methods form one router.
pub(super) fn routes() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(agents::list))
        .routes(routes!(settings::show, settings::change, forget::delete))
        .routes(routes!(messages::append))
        .routes(routes!(summary::read))
        .routes(routes!(versions::list))
        .routes(routes!(versions::read))
        .routes(routes!(versions::roll_back))
        .routes(routes!(versions::rebuild))
        .routes(routes!(items::list))
        .routes(routes!(items::change))
        .routes(routes!(facts::list, facts::add))
        .routes(routes!(facts::change))
        .routes(routes!(context::read))
        .routes(routes!(compact::compact))
        .routes(routes!(compact::hand_off))
        .routes(routes!(conversation::store))
        .routes(routes!(replacement::replace))
        .routes(routes!(proxy::read, proxy::report))
        .routes(routes!(history::read))
        .routes(routes!(recall::search))
        .routes(routes!(recall::expand))
        .routes(routes!(forget::forget))
        .routes(routes!(lineage::clear))
        .routes(routes!(lineage::mark))
        .routes(routes!(lineage::rewind))
        .routes(routes!(lineage::fork))
        .routes(routes!(pins::pin))
        .routes(routes!(pins::unpin))
        .routes(routes!(pins::list))
        .routes(routes!(notes::list, notes::change))
        .routes(routes!(notes::read, notes::put, notes::delete))
        .routes(routes!(sessions::end))
        .routes(routes!(events::of_agent))
        .routes(routes!(events::of_all))
        .routes(routes!(projects::list))
        .routes(routes!(projects::summary))
        .routes(routes!(projects::join, projects::leave))
        .routes(routes!(window::read))
        .routes(routes!(queue::refresh))
        .routes(routes!(queue::pause_agent))
        .routes(routes!(queue::resume_agent))
        .routes(routes!(queue::list))
        .routes(routes!(queue::pause, queue::read_pause))
        .routes(routes!(queue::resume, queue::read_resume))
        .routes(routes!(queue::read))
        .routes(routes!(queue::retry))
        .routes(routes!(queue::cancel))
        .routes(routes!(age::age))
        .routes(routes!(audit::list))
        .routes(routes!(runs::list))
        .routes(routes!(runs::read))
        .routes(routes!(runs::stats))
        .routes(routes!(status::version))
        .routes(routes!(status::read))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .routes(routes!(openapi::serve))
}

/// Returns the description of the interface.
pub fn document() -> Value {
    openapi::complete_document(routes().get_openapi())
}
