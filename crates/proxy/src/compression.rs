//! Decompresses copies. The forwarded bodies stay compressed.

use std::io::{self, Read};

use bytes::Bytes;
use flate2::read::GzDecoder;
use hyper::header::HeaderValue;
use ruzstd::decoding::StreamingDecoder;

/// Limits the decompressed size of a copy.
const UNPACKED_BYTES_MAX: u64 = 256 << 20;

/// Returns `body` decompressed, as its `content-encoding` says; `None` if the compression is unknown or
/// broken, or if the body is too long.
pub(crate) fn unpack(encoding: Option<&HeaderValue>, body: &Bytes) -> Option<Bytes> {
    let Some(encoding) = encoding else {
        return Some(body.clone());
    };
    match encoding.as_bytes() {
        b"identity" => Some(body.clone()),
        b"gzip" => read_limited(GzDecoder::new(body.as_ref())).ok(),
        b"zstd" => read_limited(StreamingDecoder::new(body.as_ref()).ok()?).ok(),
        _ => None,
    }
}

fn read_limited(reader: impl Read) -> io::Result<Bytes> {
    let mut plain = Vec::new();
    let length = reader.take(UNPACKED_BYTES_MAX + 1).read_to_end(&mut plain)?;
    if u64::try_from(length).unwrap_or(u64::MAX) > UNPACKED_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(plain.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    #[test]
    fn each_compression_is_undone() {
        let text = "All work and no play. ".repeat(10_000);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        for (encoding, body) in [
            ("gzip", gzip.finish().unwrap()),
            ("zstd", compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)),
            ("identity", text.clone().into_bytes()),
        ] {
            let encoding = HeaderValue::from_static(encoding);
            let (body, half) = (Bytes::from(body.clone()), Bytes::from(body).slice(..20));
            assert_eq!(unpack(Some(&encoding), &body).unwrap(), text, "{encoding:?}");
            if encoding != "identity" {
                assert_eq!(unpack(Some(&encoding), &half), None, "{encoding:?}");
            }
        }
        let text = Bytes::from(text);
        assert_eq!(unpack(None, &text), Some(text.clone()));
        assert_eq!(unpack(Some(&HeaderValue::from_static("br")), &text), None);
    }
}
