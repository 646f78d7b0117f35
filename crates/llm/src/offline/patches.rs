//! Recognises patches in git's format, which users paste among their words.

/// Openings of the lines above a file's first hunk.
const HEADERS: [&str; 15] = [
    "diff --git ",
    "index ",
    "--- ",
    "+++ ",
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "similarity index ",
    "dissimilarity index ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "Binary files ",
];
/// Begins the first header, which names the file.
pub(super) const FIRST_HEADER: &str = HEADERS[0];

/// Follows a text line by line. A hunk's header says how many lines the hunk has, so a list below a patch doesn't count as removed
/// lines.
#[derive(Debug, Default)]
pub(super) struct PatchReader {
    is_inside: bool,
    hunk: Hunk,
}

/// The lines that are left of a hunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hunk {
    old: usize,
    new: usize,
}

impl PatchReader {
    /// Returns true if the next line belongs to a patch and isn't the header that names the file.
    pub(super) fn accepts(&mut self, line: &str) -> bool {
        if self.hunk != Hunk::default() && self.hunk.accepts(line) {
            return true;
        }
        // The marker of a missing line feed follows the last line of a hunk.
        if self.is_inside && line.starts_with("\\ ") {
            return true;
        }
        self.hunk = Hunk::default();
        if let Some(hunk) = Hunk::of_header(line).filter(|_| self.is_inside) {
            self.hunk = hunk;
            return true;
        }
        let is_header = HEADERS.iter().any(|header| line.starts_with(header));
        let names_file = line.starts_with(FIRST_HEADER);
        self.is_inside = names_file || (self.is_inside && is_header);
        self.is_inside && !names_file
    }
}

impl Hunk {
    /// Reads `@@ -12,7 +12,9 @@`. A missing count is 1.
    fn of_header(line: &str) -> Option<Self> {
        let (old, new) = line.strip_prefix("@@ -")?.split_once(" +")?;
        let (new, _) = new.split_once(" @@")?;
        let count = |range: &str| range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok());
        Some(Self { old: count(old)?, new: count(new)? })
    }

    fn accepts(&mut self, line: &str) -> bool {
        let (old, new) = match line.chars().next() {
            // An editor may have removed the blank of an empty line.
            Some(' ') | None => (1, 1),
            Some('-') => (1, 0),
            Some('+') => (0, 1),
            Some(_) => return false,
        };
        self.old = self.old.saturating_sub(old);
        self.new = self.new.saturating_sub(new);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_ends_where_its_last_hunk_ends() {
        let text = "\
Please look at this:
diff --git a/gate.py b/gate.py
index ecd1cfd..d6e3205 100644
--- a/gate.py
+++ b/gate.py
@@ -1,3 +1,3 @@ def open():
 \"\"\"Opens the gate.\"\"\"
-    squeak()

+    oil()
\\ No newline at end of file
@@ -9 +9 @@
-a
+b
- oil it as well
--- thanks ---
index cards are fine
@@ -1 +1 @@";
        let mut reader = PatchReader::default();
        let prose: Vec<&str> = text.lines().filter(|line| !reader.accepts(line)).collect();
        assert_eq!(
            prose,
            [
                "Please look at this:",
                "diff --git a/gate.py b/gate.py",
                "- oil it as well",
                "--- thanks ---",
                "index cards are fine",
                "@@ -1 +1 @@"
            ]
        );
    }
}
