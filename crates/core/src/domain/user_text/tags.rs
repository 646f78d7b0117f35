//! Finds tags at the beginning of lines.

use std::borrow::Cow;

use super::table::{Host, MarkerShape};
use crate::domain::text::floor_cut;

/// Limits an opening tag with its attributes to this many bytes.
const TAG_BYTES_MAX: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClosedTag<'a> {
    pub(super) shape: MarkerShape,
    /// The text between the previous tag and this one.
    pub(super) before: &'a str,
    pub(super) inner: &'a str,
    /// The attributes of the opening tag.
    attributes: &'a str,
}

/// Begins the attribute with the name of a command.
const NAME: &str = "name=\"";

impl ClosedTag<'_> {
    /// Returns what the user typed to call the command of the tag.
    fn command(&self) -> Option<String> {
        let MarkerShape::CommandTag(tag) = self.shape else {
            return None;
        };
        Some(format!("/{tag}:{}", command_name(self.attributes)?))
    }
}

fn command_name(attributes: &str) -> Option<&str> {
    let (_, name) = attributes.split_once(NAME)?;
    name.split_once('"').map(|(name, _)| name).filter(|name| !name.is_empty())
}

/// Iterates over a host's tags at the beginning of lines.
pub(super) struct Tags<'a> {
    host: &'static Host,
    /// Selects the shapes to find.
    is_wanted: fn(MarkerShape) -> bool,
    /// The text after the last found tag.
    rest: &'a str,
    /// How many bytes of `rest` were searched.
    searched_bytes: usize,
    /// True if the last searched line is blank so far.
    is_blank: bool,
    /// The names of tags without an end. Each is searched for only once, so that the time is linear.
    unclosed: Vec<&'static str>,
}

impl<'a> Tags<'a> {
    /// Finds the tags of `host` in `text` with the wanted shapes.
    pub(super) fn of(host: &'static Host, text: &'a str, is_wanted: fn(MarkerShape) -> bool) -> Self {
        Self { host, is_wanted, rest: text, searched_bytes: 0, is_blank: true, unclosed: Vec::new() }
    }

    /// Returns where the next `<` is that may open a tag, and true if only blanks precede it in its line.
    fn next_mark(&mut self) -> Option<(usize, bool)> {
        let rest = self.rest.get(self.searched_bytes..)?;
        // `rest` may still begin with the `<` that was found last.
        let skipped = usize::from(rest.starts_with('<') && !self.is_blank);
        let index = self.searched_bytes + skipped + rest.get(skipped..)?.find('<')?;
        let skipped_text = self.rest.get(self.searched_bytes..index)?;
        let is_blank = match skipped_text.rsplit_once('\n') {
            Some((_, line)) => line.trim().is_empty(),
            None => self.is_blank && skipped_text.trim().is_empty(),
        };
        self.searched_bytes = index;
        self.is_blank = false;
        Some((index, is_blank))
    }

    /// Returns the wanted tag that begins at `mark`.
    fn opening(&self, mark: &'a str) -> Option<OpenTag<'a>> {
        let inner = mark.strip_prefix('<')?;
        let wanted = self.host.shapes.iter().filter(|&&shape| (self.is_wanted)(shape));
        let (name, shape) =
            wanted.filter_map(|&shape| Some((tag_name(shape)?, shape))).find(|(name, _)| {
                let rest = inner.strip_prefix(*name);
                rest.is_some_and(|rest| rest.starts_with(['>', ' ', '\n']))
            })?;
        let end = floor_cut(inner, TAG_BYTES_MAX).find('>')?;
        let (attributes, content) = (inner.get(name.len()..end)?, inner.get(end + 1..)?);
        let is_command = matches!(shape, MarkerShape::CommandTag(_));
        if is_command && command_name(attributes).is_none() {
            return None;
        }
        Some(OpenTag { name, shape, attributes, content })
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = ClosedTag<'a>;

    fn next(&mut self) -> Option<ClosedTag<'a>> {
        loop {
            let (index, begins_line) = self.next_mark()?;
            let (before, mark) = self.rest.split_at_checked(index)?;
            let opening = self.opening(mark).filter(|_| begins_line);
            let Some(tag) = opening.filter(|tag| !self.unclosed.contains(&tag.name)) else {
                continue;
            };
            let Some((inner, rest)) = tag.content.split_once(format!("</{}>", tag.name).as_str()) else {
                self.unclosed.push(tag.name);
                continue;
            };
            (self.rest, self.searched_bytes, self.is_blank) = (rest, 0, true);
            return Some(ClosedTag { shape: tag.shape, before, inner, attributes: tag.attributes });
        }
    }
}

/// Removes the tags of `host` with their content from `text`. If a tag is around the user's input, its content stays. The text of a
/// command becomes the command as the user typed it.
pub(super) fn strip<'a>(host: &'static Host, text: &'a str) -> Cow<'a, str> {
    let mut tags = Tags::of(host, text, |shape| {
        matches!(shape, MarkerShape::Tag(_) | MarkerShape::TypedTag(_) | MarkerShape::CommandTag(_))
    });
    let mut stripped = String::new();
    let mut is_unchanged = true;
    for tag in tags.by_ref() {
        let is_between_tags = !is_unchanged && tag.before.trim().is_empty();
        stripped.push_str(if is_between_tags { " " } else { tag.before });
        if matches!(tag.shape, MarkerShape::TypedTag(_)) {
            stripped.push_str(tag.inner.trim());
        }
        stripped.push_str(&tag.command().unwrap_or_default());
        is_unchanged = false;
    }
    if is_unchanged {
        return Cow::Borrowed(text);
    }
    stripped.push_str(tags.rest);
    Cow::Owned(stripped.trim().to_owned())
}

struct OpenTag<'a> {
    name: &'static str,
    shape: MarkerShape,
    attributes: &'a str,
    content: &'a str,
}

/// Returns the name of the shape's tag, if the shape is a tag.
fn tag_name(shape: MarkerShape) -> Option<&'static str> {
    match shape {
        MarkerShape::Tag(name)
        | MarkerShape::TypedTag(name)
        | MarkerShape::CommandTag(name)
        | MarkerShape::AnswerTag { name, .. } => Some(name),
        MarkerShape::Text(_)
        | MarkerShape::TextBeside(_)
        | MarkerShape::Request(_)
        | MarkerShape::Lines { .. }
        | MarkerShape::Result { .. } => None,
    }
}
