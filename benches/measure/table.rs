use std::fmt::Write as _;

pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn new(title: &str, columns: &[&str]) -> Self {
        let headings = std::iter::once(title).chain(columns.iter().copied());
        Self(vec![headings.map(str::to_owned).collect()])
    }

    /// Adds a row with its name and its figures.
    pub(crate) fn row(&mut self, name: &str, cells: &[String]) {
        let row = std::iter::once(name.to_owned()).chain(cells.iter().cloned());
        self.0.push(row.collect());
    }

    /// Prints the table: names left-aligned, figures right-aligned.
    #[expect(clippy::print_stdout, reason = "a table is what a bench is for")]
    pub(crate) fn print(&self) {
        println!("\n{}", self.text());
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for row in &self.0 {
            for (column, cell) in row.iter().enumerate() {
                let width = self.width(column);
                let padding = " ".repeat(width - cell.chars().count());
                // Writing to a string can't fail.
                let written = if column == 0 {
                    write!(text, "{cell}{padding}")
                } else {
                    write!(text, "   {padding}{cell}")
                };
                debug_assert!(written.is_ok());
            }
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.0.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}
