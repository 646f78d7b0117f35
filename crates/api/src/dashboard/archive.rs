//! Renders all exchanges of an agent, page by page, newest first.

use maud::html;

use super::{
    frame::{DashboardArea, Frame, agent_head, agent_tabs, live, next_page, page},
    text::{agent_path, exchange_path, line, moment, tokens},
};
use recapd_core::domain::{
    exchange::ExchangeState,
    legs::{continues, title},
};
use recapd_store::{AgentRow, ExchangePlace, StoredExchange};

pub struct Archive {
    pub row: AgentRow,
    /// Oldest first.
    pub exchanges: Vec<StoredExchange>,
    /// The page shows the exchanges before this one; `None` for the newest ones.
    pub before: Option<i64>,
    pub has_more: bool,
}

pub fn archive_page(frame: &Frame, archive: &Archive) -> String {
    let (agent, ledger) = (&archive.row.agent, &archive.row.ledger);
    let oldest = archive.exchanges.first().filter(|_| archive.has_more);
    let heading =
        archive.before.map_or_else(|| "Exchanges".to_owned(), |before| format!("Exchanges before #{before}"));
    let content = html! {
        (agent_head(agent, &heading, &html! {}))
        (agent_tabs(frame, agent, "Exchanges"))
        (live(frame, "list", "wide", &html! {
            @if archive.exchanges.is_empty() { p.empty { "None" } } @else {
                table {
                    thead { tr {
                        th scope="col" { "#" } th scope="col" { "What was asked" } th scope="col" { "Where it stands" }
                        th.num scope="col" { "Tokens" } th scope="col" { "When" }
                    } }
                    tbody {
                        @for stored in archive.exchanges.iter().rev() {
                            @let exchange = &stored.exchange;
                            @let place = ExchangePlace::of(exchange.exchange, ledger);
                            tr #(format!("x{}", exchange.exchange)) {
                                th scope="row" { a href=(exchange_path(agent, exchange.exchange)) { "#" (exchange.exchange) } }
                                td.title data-name="Asked" {
                                    @if let Some(first) = exchange.headline.continues {
                                        a href=(exchange_path(agent, first)) { (continues(first)) } ": "
                                    }
                                    bdi { (line(&title(exchange))) }
                                }
                                td data-name="Where" { span { span.dot.(dot(place)) aria-hidden="true" {} (place.words()) (standing(exchange.state)) } }
                                td.num data-name="Tokens" { (tokens(exchange.tokens)) }
                                td data-name="When" { (moment(exchange.last_at, frame.now)) }
                            }
                        }
                    }
                }
            }
        }))
        (next_page(oldest.map(|oldest| format!("{}/exchanges?before={}", agent_path(agent), oldest.exchange.exchange)), "Older exchanges"))
    };
    page(frame, DashboardArea::Agents, &format!("Exchanges of {agent}"), &content)
}

/// Returns the CSS class of a place's dot.
pub(super) fn dot(place: ExchangePlace) -> &'static str {
    match place {
        ExchangePlace::Preamble | ExchangePlace::Window => "d-window",
        ExchangePlace::Pending => "d-pending",
        ExchangePlace::Covered => "d-covered",
        ExchangePlace::SetAside => "d-aside",
    }
}

fn standing(state: ExchangeState) -> &'static str {
    match state {
        ExchangeState::Open => ", open",
        ExchangeState::Closed => "",
        ExchangeState::Interrupted => ", interrupted",
    }
}
