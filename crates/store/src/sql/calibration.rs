//! Stores calibrations of token counters.

use serde::{Deserialize, Serialize};

use crate::sql::{Connection, Row, query, sql};

use super::{
    super::{KeptCalibration, StoreResult},
    row,
};
use recapd_core::domain::{
    calibration::{Calibration, CalibrationSample, MODELS_MAX, ReportedSample, Reporter},
    number::i64_or_max,
    time::Timestamp,
};

/// A stored sample: estimated tokens, reported tokens, and the agent that reported them. The first versions didn't store the
/// agent.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum KeptSample {
    OfAgent(i64, i64, u64),
    OfAnyone(i64, i64),
}

impl From<KeptSample> for ReportedSample {
    fn from(sample: KeptSample) -> Self {
        let (estimated_tokens, reported_tokens, agent) = match sample {
            KeptSample::OfAgent(estimated, reported, agent) => (estimated, reported, agent),
            KeptSample::OfAnyone(estimated, reported) => (estimated, reported, 0),
        };
        Self { reporter: Reporter(agent), sample: CalibrationSample { estimated_tokens, reported_tokens } }
    }
}

impl From<ReportedSample> for KeptSample {
    fn from(ReportedSample { reporter, sample }: ReportedSample) -> Self {
        Self::OfAgent(sample.estimated_tokens, sample.reported_tokens, reporter.0)
    }
}

/// Returns all saved calibrations, in the order in which they were learned.
pub(super) async fn load(connection: &mut Connection) -> StoreResult<Vec<KeptCalibration>> {
    let sql = sql!(
        "-- sql/calibration.load\nSELECT provider, model, learned, samples FROM calibrations \
               ORDER BY learned, provider, model"
    );
    let found = query(sql).fetch_all(connection).await?;
    let read = |row: &Row| -> StoreResult<KeptCalibration> {
        let (provider, model): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let text: String = row.try_get(3)?;
        let samples: Vec<KeptSample> = serde_json::from_str(&text)
            .map_err(|_| row::inconsistent("calibrations", format!("{provider} {model}"), "samples", text))?;
        let mut calibration = Calibration::default();
        for sample in samples {
            calibration.learn(sample.into());
        }
        Ok(KeptCalibration {
            provider,
            model,
            learned: u64::try_from(row.try_get::<i64>(2)?).unwrap_or_default(),
            calibration,
        })
    };
    found.iter().map(read).collect()
}

/// Saves `calibrations`. Then deletes all calibrations but the [`MODELS_MAX`] most recently learned ones.
pub(super) async fn keep(
    tx: &mut Connection,
    calibrations: Vec<KeptCalibration>,
    now: Timestamp,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/calibration.keep\nINSERT INTO calibrations (provider, model, learned, samples, updated_at) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT (provider, model) DO UPDATE SET learned = excluded.learned, \
               samples = excluded.samples, updated_at = excluded.updated_at"
    );
    for entry in calibrations {
        let samples: Vec<KeptSample> = entry.calibration.iter().copied().map(Into::into).collect();
        query(sql)
            .bind(entry.provider)
            .bind(entry.model)
            .bind(i64_or_max(entry.learned))
            .bind(serde_json::json!(samples).to_string())
            .bind(now)
            .execute(&mut *tx)
            .await?;
    }
    let sql = sql!(
        "-- sql/calibration.forget\nDELETE FROM calibrations WHERE (provider, model) NOT IN \
               (SELECT provider, model FROM calibrations ORDER BY learned DESC, provider, model LIMIT $1)"
    );
    query(sql).bind(i64_or_max(MODELS_MAX)).execute(tx).await?;
    Ok(())
}
