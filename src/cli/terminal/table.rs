//! Tables: aligned columns without lines between them, as `gh` and `kubectl` print them.

use unicode_width::UnicodeWidthStr as _;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of cells below a header.
pub(crate) struct Table<const N: usize> {
    columns: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(columns: [(&'static str, Align); N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// Formats the table, without blanks at the ends of lines.
    pub(crate) fn text(&self) -> String {
        let names = self.columns.map(|(name, _)| name.to_owned());
        let lines = || std::iter::once(&names).chain(&self.rows);
        let widths: Vec<usize> = (0..N)
            .map(|column| {
                lines().filter_map(|cells| cells.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect();
        let text: Vec<String> = lines().map(|cells| self.line(cells, &widths)).collect();
        text.join("\n")
    }

    fn line(&self, cells: &[String; N], widths: &[usize]) -> String {
        let padded = cells.iter().zip(&self.columns).zip(widths).map(|((cell, (_, align)), width)| {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            match align {
                Align::Left => format!("{cell}{blanks}"),
                Align::Right => format!("{blanks}{cell}"),
            }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_display_width() {
        let mut table =
            Table::new([("AGENT", Align::Left), ("TOKENS", Align::Right), ("STATE", Align::Left)]);
        table.row(["日本".to_owned(), "7".to_owned(), "ready".to_owned()]);
        table.row(["a-longer-one".to_owned(), "15.8k".to_owned(), String::new()]);
        assert_eq!(
            table.text(),
            "AGENT         TOKENS  STATE\n日本               7  ready\na-longer-one   15.8k"
        );
    }
}
