//! Draws small charts of the last hours on the server. A table below each chart shows its numbers.

use maud::{Markup, html};

const POINTS_MAX: usize = 300;
const WIDTH: i64 = 380;
const HEIGHT: i64 = 110;
/// The height below the base line. It holds the names of the hours.
const FOOT: i64 = 18;
/// How far above its line a limit's name stands, in tenths.
const NAME_ABOVE: i64 = -35;
/// How far below its line a limit's name stands, in tenths. Used if another line is above.
const NAME_BELOW: i64 = 110;

/// A series of numbers, one for each point.
pub(super) struct Series {
    pub(super) name: &'static str,
    /// A CSS class.
    pub(super) class: &'static str,
    pub(super) values: Vec<i64>,
}

/// How the series are drawn at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bars {
    /// Bars stand on each other: they are parts of a sum.
    Stacked,
    /// Each bar begins at the base line, in front of earlier ones: they measure the same thing.
    InFront,
}

/// A chart of numbers over time.
pub(super) struct Chart<'c> {
    pub(super) title: &'c str,
    /// A word for the chart. Its ids contain this word.
    pub(super) id: &'c str,
    pub(super) points: &'c [String],
    /// The bars.
    pub(super) series: Vec<Series>,
    pub(super) bars: Bars,
    /// Lines that bars shouldn't reach, with their names, highest first.
    pub(super) limits: &'c [(i64, &'c str)],
    /// Formats a number.
    pub(super) format: fn(i64) -> String,
}

impl Chart<'_> {
    fn heights(&self) -> Vec<i64> {
        let count = self.points.len().min(POINTS_MAX);
        let values_at =
            |point: usize| self.series.iter().filter_map(move |series| series.values.get(point).copied());
        match self.bars {
            Bars::Stacked => (0..count).map(|point| values_at(point).sum()).collect(),
            Bars::InFront => (0..count).map(|point| values_at(point).max().unwrap_or(0)).collect(),
        }
    }

    /// Returns the top of the scale, which leaves room above the highest bar and the highest line.
    fn top(&self, highest: i64) -> i64 {
        let limit = self.limits.iter().map(|(limit, _)| *limit).max().unwrap_or(0);
        (highest.max(limit).saturating_mul(6).saturating_add(4) / 5).max(1)
    }

    /// Draws the chart and a table of its numbers.
    pub(super) fn draw(&self) -> Markup {
        let highest = self.heights().into_iter().max().unwrap_or(0);
        let top = self.top(highest);
        let description = format!("{} by hour; at most {}", self.title, (self.format)(highest));
        let (title_id, desc_id) = (format!("{}-title", self.id), format!("{}-desc", self.id));
        html! {
            figure.chart {
                figcaption { (self.title) span.note { "at most " ((self.format)(highest)) } }
                svg viewBox=(format!("0 0 {WIDTH} {}", HEIGHT + FOOT)) role="img" aria-labelledby=(format!("{title_id} {desc_id}")) {
                    title #(title_id) { (self.title) }
                    desc #(desc_id) { (description) }
                    line.axis x1="0" y1=(HEIGHT) x2=(WIDTH) y2=(HEIGHT) {}
                    (self.draw_bars(top))
                    (self.limit_lines(top))
                    (self.hours())
                }
                (self.legend())
                (self.table())
            }
        }
    }

    fn draw_bars(&self, top: i64) -> Markup {
        let count = i64::try_from(self.points.len().clamp(1, POINTS_MAX)).unwrap_or(1);
        let step = WIDTH * 10 / count;
        html! {
            @for point in 0..self.points.len().min(POINTS_MAX) {
                @let x = step * i64::try_from(point).unwrap_or(0);
                @for (series_index, series) in self.series.iter().enumerate() {
                    @let value = series.values.get(point).copied().unwrap_or(0);
                    @let base = self.base(series_index, point);
                    @if value > 0 {
                        @let (low, high) = (tenths(base, top), tenths(base.saturating_add(value), top));
                        rect.(series.class) x=(unit(x + step / 10)) y=(unit(HEIGHT * 10 - high)) width=(unit(step * 8 / 10))
                            height=(unit((high - low).max(8))) {}
                    }
                }
            }
        }
    }

    /// Returns the value at which the bar of the series begins at this point.
    fn base(&self, series_index: usize, point: usize) -> i64 {
        let series_below = match self.bars {
            Bars::Stacked => series_index,
            Bars::InFront => 0,
        };
        let series_below = self.series.iter().take(series_below);
        series_below.filter_map(|series| series.values.get(point)).sum()
    }

    fn limit_lines(&self, top: i64) -> Markup {
        html! {
            @for (index, (limit, name)) in self.limits.iter().enumerate() {
                @let y = HEIGHT * 10 - tenths(*limit, top);
                line.limit x1="0" y1=(unit(y)) x2=(WIDTH) y2=(unit(y)) {}
                @let offset = if index == 0 { NAME_ABOVE } else { NAME_BELOW };
                text.limit-name x=(WIDTH) y=(unit(y + offset)) text-anchor="end" { (name) }
            }
        }
    }

    fn hours(&self) -> Markup {
        let last = self.points.len().saturating_sub(1);
        let marks = [(0, "start", 0), (last / 2, "middle", WIDTH / 2), (last, "end", WIDTH)];
        html! {
            @for (point, anchor, x) in marks {
                @if let Some(name) = self.points.get(point) { text.hour x=(x) y=(HEIGHT + FOOT - 3) text-anchor=(anchor) { (name) } }
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            @if self.series.len() > 1 {
                ul.key { @for series in &self.series { li { span.swatch.(series.class) aria-hidden="true" {} (series.name) } } }
            }
        }
    }

    fn table(&self) -> Markup {
        html! {
            details.numbers {
                summary { "Numbers" span.quiet-hear { " of " (self.title) } }
                table {
                    thead { tr { th scope="col" { "Hour" } @for series in &self.series { th.num scope="col" { (series.name) } } } }
                    tbody {
                        @for (index, point) in self.points.iter().enumerate().take(POINTS_MAX) {
                            tr {
                                th scope="row" { (point) }
                                @for series in &self.series { td.num { ((self.format)(series.values.get(index).copied().unwrap_or(0))) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the height of a value in tenths of a unit.
fn tenths(value: i64, top: i64) -> i64 {
    value.saturating_mul(HEIGHT * 10) / top
}

fn unit(tenths: i64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}
