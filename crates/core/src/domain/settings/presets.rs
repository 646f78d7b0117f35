//! The settings that presets stand for.

use super::AgentSettings;
use crate::domain::{
    budget::OnOverflow,
    context::{Alternation, ContextOptions, SHARE_MAX},
    preset::{Basis, Preset, provider_limit_tokens},
};

/// The tokens of a whole request in seed 001.
const IKIGAI_TOKENS: i64 = 100_000;
/// The tokens of the structured memory's window (origins 2.1).
const STRUCTURED_MEMORY_TOKENS: i64 = 90_000;
/// `chat` keeps this many messages by default (lecture 4.2: "system + last 20").
const LAST_N_MESSAGES: i64 = 20;
/// `dialogue` uses this part of a provider's limit, in percent, since its estimates may be wrong.
const PIDGIN_SAFETY_PERCENT: i64 = 90;

impl Preset {
    /// Returns the settings of this preset, derived from the `explicit` ones and from `basis`.
    pub fn values(self, explicit: &AgentSettings, basis: &Basis) -> AgentSettings {
        match self {
            Self::None => AgentSettings::default(),
            Self::RequestLimit => AgentSettings {
                output_reserve_tokens: Some(0),
                leg_tokens: Some(0),
                ..request_of(IKIGAI_TOKENS, explicit, &Basis { output_reserve_tokens: 0, ..*basis })
            },
            Self::LongMemory => structured_memory(explicit, basis),
            Self::Dialogue => {
                let provider = explicit.provider.as_deref();
                let limit = provider.map_or(basis.provider_limit_tokens, provider_limit_tokens);
                AgentSettings {
                    on_overflow: Some(OnOverflow::End),
                    leg_tokens: Some(0),
                    ..request_of(limit * PIDGIN_SAFETY_PERCENT / 100, explicit, basis)
                }
            }
            Self::Chat => AgentSettings {
                low_water: Some(1.0),
                leg_tokens: Some(0),
                max_messages: Some(LAST_N_MESSAGES),
                anchor: Some(true),
                alternation: Some(Alternation::Ack),
                ..AgentSettings::default()
            },
        }
    }
}

/// Returns the settings of a first-in-first-out window without an anchor, which evicts just enough.
fn without_anchor() -> AgentSettings {
    AgentSettings { low_water: Some(1.0), anchor: Some(false), ..AgentSettings::default() }
}

/// Returns the settings for a request of at most `total_tokens`. The window gets what the other parts leave.
fn request_of(total_tokens: i64, explicit: &AgentSettings, basis: &Basis) -> AgentSettings {
    let options = context_options(total_tokens, explicit, basis);
    let window = |limit: i64| {
        let share = |tokens: i64| tokens.min(limit / SHARE_MAX);
        // 0 would never evict.
        (limit - share(basis.summary_max_tokens) - share(basis.pins_max_tokens)).max(1)
    };
    AgentSettings {
        context_max_tokens: Some(total_tokens),
        budget_tokens: options.limit_tokens().map(window),
        ..without_anchor()
    }
}

/// Returns the options for contexts of at most `total_tokens`, unless the explicit settings say otherwise.
fn context_options(total_tokens: i64, explicit: &AgentSettings, basis: &Basis) -> ContextOptions {
    explicit.context_options(ContextOptions {
        max_tokens: total_tokens,
        output_reserve_tokens: basis.output_reserve_tokens,
        system_reserve_tokens: basis.system_reserve_tokens,
        ..ContextOptions::default()
    })
}

fn structured_memory(explicit: &AgentSettings, basis: &Basis) -> AgentSettings {
    let window = explicit.budget_tokens.unwrap_or(STRUCTURED_MEMORY_TOKENS);
    let options = context_options(window, explicit, basis);
    let reserves = options.output_reserve_tokens + options.system_reserve_tokens;
    let copies = basis.summary_max_tokens + basis.pins_max_tokens;
    AgentSettings {
        budget_tokens: Some(window),
        context_max_tokens: (window > 0).then_some(window + copies + reserves),
        ..without_anchor()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The basis in which only the summary takes a share.
    const PLAIN: Basis = Basis {
        output_reserve_tokens: 0,
        system_reserve_tokens: 0,
        summary_max_tokens: 10_000,
        pins_max_tokens: 0,
        provider_limit_tokens: 100_000,
    };

    fn expanded(settings: Value, basis: &Basis) -> Value {
        let settings: AgentSettings = serde_json::from_value(settings).unwrap();
        json!(settings.expanded(basis))
    }

    #[test]
    fn each_preset_expands_to_plain_values() {
        let cases = [
            (json!({}), json!({})),
            (json!({"preset": "none"}), json!({"preset": "none"})),
            (
                json!({"preset": "request-limit"}),
                json!({"preset": "request-limit", "budget_tokens": 90_000, "context_max_tokens": 100_000,
                       "output_reserve_tokens": 0, "low_water": 1.0, "leg_tokens": 0, "anchor": false}),
            ),
            (
                json!({"preset": "long-memory"}),
                json!({"preset": "long-memory", "budget_tokens": 90_000, "context_max_tokens": 100_000,
                       "low_water": 1.0, "anchor": false}),
            ),
            (
                json!({"preset": "dialogue", "provider": "anthropic"}),
                json!({"preset": "dialogue", "provider": "anthropic", "budget_tokens": 134_000,
                       "context_max_tokens": 144_000, "low_water": 1.0, "leg_tokens": 0,
                       "anchor": false, "on_overflow": "end"}),
            ),
            (
                json!({"preset": "chat"}),
                json!({"preset": "chat", "max_messages": 20, "low_water": 1.0, "leg_tokens": 0, "anchor": true,
                       "alternation": "ack"}),
            ),
        ];
        for (settings, plain) in cases {
            assert_eq!(expanded(settings.clone(), &PLAIN), plain, "{settings}");
        }
    }

    #[test]
    fn explicit_settings_override_a_preset_which_derives_the_rest() {
        let cases = [
            (
                json!({"preset": "request-limit", "context_max_tokens": 50_000}),
                "budget_tokens",
                json!(40_000),
            ),
            (json!({"preset": "request-limit", "budget_tokens": 70_000}), "budget_tokens", json!(70_000)),
            (
                json!({"preset": "request-limit", "system_reserve_tokens": 8_000}),
                "budget_tokens",
                json!(82_000),
            ),
            (json!({"preset": "request-limit", "context_max_tokens": 0}), "budget_tokens", Value::Null),
            (json!({"preset": "request-limit", "low_water": 0.5}), "low_water", json!(0.5)),
            (json!({"preset": "long-memory", "budget_tokens": 20_000}), "context_max_tokens", json!(30_000)),
            (json!({"preset": "long-memory", "budget_tokens": 0}), "context_max_tokens", Value::Null),
            (json!({"preset": "dialogue", "on_overflow": "evict"}), "on_overflow", json!("evict")),
            (json!({"preset": "dialogue"}), "context_max_tokens", json!(90_000)),
            (json!({"preset": "dialogue", "provider": "gemini"}), "context_max_tokens", json!(720_000)),
            (json!({"preset": "chat", "max_messages": 6}), "max_messages", json!(6)),
            (json!({"preset": "chat", "anchor": false}), "anchor", json!(false)),
        ];
        for (settings, name, value) in cases {
            assert_eq!(expanded(settings.clone(), &PLAIN)[name], value, "{settings}");
        }
    }

    /// A small limit still leaves a window: 0 would never evict.
    #[test]
    fn a_derived_window_is_never_unlimited() {
        let basis = Basis::default();
        for provider in ["openai", "anthropic", "gemini", "xai", "local", "unheard-of"] {
            for system_reserve_tokens in [0, 1_000, 10_000_000] {
                let settings = AgentSettings {
                    preset: Some(Preset::Dialogue),
                    provider: Some(provider.to_owned()),
                    system_reserve_tokens: Some(system_reserve_tokens),
                    ..AgentSettings::default()
                }
                .expanded(&basis);
                let (window, all) = (settings.budget_tokens.unwrap(), settings.context_max_tokens.unwrap());
                assert!(0 < window && window < all, "{provider}: {window} of {all}");
            }
        }
    }

    #[test]
    fn names_match_the_serialized_form() {
        for preset in Preset::ALL {
            assert_eq!(json!(preset), json!(preset.name()));
        }
    }
}
