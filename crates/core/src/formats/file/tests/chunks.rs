//! Random bytes in chunks of any size yield the same messages.

use proptest::{collection::vec, prelude::*};

use super::*;

/// Gives at most `chunk` bytes at a time.
struct ChunkedReader {
    bytes: io::Cursor<Vec<u8>>,
    chunk: usize,
}

impl Read for ChunkedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = buffer.len().min(self.chunk);
        self.bytes.read(&mut buffer[..end])
    }
}

fn outcome(
    bytes: &[u8],
    chunk: usize,
    format: Option<Format>,
) -> Result<Vec<Result<Record, SkippedEntry>>, String> {
    let source = ChunkedReader { bytes: io::Cursor::new(bytes.to_vec()), chunk };
    let reader = FileReader::from_reader(source, "log.jsonl", format).map_err(|error| error.to_string())?;
    Ok(reader.collect())
}

/// Pieces of files of all formats, good and bad, in any order.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        &b"{\"role\":\"user\",\"content\":\"Hi\"}"[..],
        b"{\"kind\":\"user\",\"content\":\"Hi\"}",
        b"{\"kind\":\"tool_call\"}",
        b"{\"type\":\"user\",\"isSidechain\":true,\"message\":{\"content\":\"\xc3\xa4\"}}",
        b"{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"content\":\"x\"}]}",
        b"{\"role\":\"model\",\"parts\":[{\"text\":\"Hi\"}]}",
        b"{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\"}",
        b"{\"type\":\"event_msg\",\"payload\":{\"type\":\"turn_aborted\"}}\n",
        b"{\"event_type\":\"ConversationStartEvent\",\"conversation_id\":\"c\",\"initial_prompt\":\"p\"}\n",
        b"{\"event_type\":\"SystemPromptEvent\",\"conversation_id\":\"c\",\"prompt\":\"s\"}\n",
        b"# aider chat started at 2026-03-02 10:00:00\n",
        b"#### Hi  \n",
        b"> out",
        b"{\"messages\":[",
        b"{\"contents\":[",
        b"{\"input\":[",
        b"{\"simulations\":[",
        b"{\"id\":1,\"traj\":[",
        b"]}",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b"\n",
        b"\n",
        b"\r\n",
        b" ",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\0",
        b"\"",
        b"\"role\":",
        b"\"user\"",
        b"42",
        b"null",
    ]);
    prop_oneof![
        vec(piece.prop_map(<[u8]>::to_vec), 0..24).prop_map(|pieces| pieces.concat()),
        vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    #[test]
    fn chunks_make_no_difference(bytes in bytes(), chunk in 1_usize..40, format in prop::option::of(prop::sample::select(Format::ALL.to_vec()))) {
        prop_assert_eq!(outcome(&bytes, chunk, format), outcome(&bytes, usize::MAX, format));
    }

    #[test]
    fn good_lines_come_out_in_order_between_bad_ones(junk in vec(bytes(), 0..6)) {
        let mut text = Vec::new();
        for (number, junk) in junk.iter().enumerate() {
            text.extend(format!("{{\"kind\":\"user\",\"id\":\"good-{number}\"}}\n").into_bytes());
            text.extend(junk.iter().filter(|byte| **byte != b'{'));
            text.push(b'\n');
        }
        let items = outcome(&text, 7, Some(Format::Native)).unwrap_or_default();
        let ids: Vec<String> = items.into_iter().flatten().filter_map(|record| record.message.client_id).collect();
        let expected: Vec<String> = (0..junk.len()).map(|number| format!("good-{number}")).collect();
        prop_assert_eq!(ids, expected);
    }
}
