//! `[trace]`: the collector of traces, and the headers that authenticate recapd there.

use std::path::Path;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::{check::Violation, environment::Environment, file::read_bounded, private::read_private};

/// The name of a systemd credential with the collector's headers (`LoadCredential=otlp-headers:…`).
const CREDENTIAL: &str = "otlp-headers";
/// Variables with the headers. The first one that is set counts.
const VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
/// Variables with the collector's URL. The first one that is set counts.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// Variables with the collector's protocol. The first one that is set counts.
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const SERVICE: &str = "recapd";
const HEADERS_BYTES_MAX: u64 = 16_384;
const ATTRIBUTES_BYTES_MAX: usize = 4_096;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    /// The collector's URL; empty if there is none.
    pub otlp_url: String,
    /// A file with headers for the collector; empty if there is none.
    pub otlp_headers_file: String,
    pub gather_ms: u64,
    /// Which share of the traces that begin in this process is sent.
    pub sample: f64,
    pub service_name: String,
    /// Other attributes of this process: `name=value,name=value`.
    pub attributes: String,
}

/// The collector's headers can't be used. No text quotes any part of a value.
#[derive(Debug, thiserror::Error)]
pub enum HeadersError {
    #[error("the file of headers {path} can't be read: {reason}; see trace.otlp_headers_file")]
    Unreadable { path: String, reason: String },
    #[error("{from} holds no headers: expected `name=value` pairs with commas or line ends between them")]
    Malformed {
        /// The name of the file or the variable.
        from: String,
    },
}

impl TraceConfig {
    /// Returns the settings in force; `None` if traces are off. OpenTelemetry's variables are used where the configuration sets
    /// nothing.
    ///
    /// # Errors
    /// Names the unusable variable, and what to do. The variables may be meant for other programs, so the daemon starts
    /// nevertheless.
    pub fn in_force(&self, environment: &Environment) -> Result<Option<Self>, String> {
        let says = |name: &str, word: &str| {
            let value = environment.get(name);
            value.is_some_and(|value| value.trim().eq_ignore_ascii_case(word))
        };
        let first = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| Some((name, environment.get(name)?)))
        };
        if says("OTEL_SDK_DISABLED", "true") || says("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let mut settings = self.clone();
        if settings.otlp_url.is_empty() {
            let Some((name, url)) = first(ENDPOINTS) else {
                return Ok(None);
            };
            if let Some((name, _)) = first(PROTOCOLS).filter(|(_, protocol)| *protocol == "grpc") {
                return Err(format!("{name} is grpc, and traces are sent over HTTP: set trace.otlp_url"));
            }
            if let Some(cure) = url_cure(url) {
                return Err(format!("{name} {cure}"));
            }
            url.clone_into(&mut settings.otlp_url);
        }
        if let Some(name) = environment.get("OTEL_SERVICE_NAME").filter(|_| settings.service_name == SERVICE)
        {
            name.clone_into(&mut settings.service_name);
        }
        if settings.attributes.is_empty() {
            let set = environment.get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
            set.clone_into(&mut settings.attributes);
        }
        Ok(Some(settings))
    }

    pub fn resource(&self) -> Vec<(String, String)> {
        pairs(&self.attributes).unwrap_or_default()
    }

    /// Reads the collector's headers: from `$CREDENTIALS_DIRECTORY/otlp-headers`, otherwise from `otlp_headers_file`, otherwise
    /// from OpenTelemetry's variables.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn headers(&self, environment: &Environment) -> Result<Vec<(String, SecretString)>, HeadersError> {
        let credential = environment
            .get("CREDENTIALS_DIRECTORY")
            .map(|folder| Path::new(folder).join(CREDENTIAL))
            .filter(|file| file.exists());
        let read: fn(&Path, u64) -> std::io::Result<String> = match credential {
            Some(_) => read_bounded,
            None => read_private,
        };
        let file = credential.or_else(|| {
            let path = self.otlp_headers_file.as_str();
            (!path.is_empty()).then(|| path.into())
        });
        if let Some(file) = file {
            let path = file.display().to_string();
            return match read(&file, HEADERS_BYTES_MAX) {
                Ok(text) => parse_headers(&text, path),
                Err(error) => Err(HeadersError::Unreadable { path, reason: error.to_string() }),
            };
        }
        let set = VARIABLES.iter().find_map(|name| Some((name, environment.get(name)?)));
        set.map_or(Ok(Vec::new()), |(name, text)| parse_headers(text, (*name).to_owned()))
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        if let Some(cure) = url_cure(&self.otlp_url) {
            found.push(Violation::new(&["trace.otlp_url"], format!("trace.otlp_url {cure}")));
        }
        if !(0.0..=1.0).contains(&self.sample) {
            let text = format!("trace.sample must be from 0 to 1, not {}", self.sample);
            found.push(Violation::new(&["trace.sample"], text));
        }
        if self.service_name.trim().is_empty() {
            let text = "trace.service_name must not be blank: `recapd` is the default".to_owned();
            found.push(Violation::new(&["trace.service_name"], text));
        }
        if self.attributes.len() > ATTRIBUTES_BYTES_MAX || pairs(&self.attributes).is_none() {
            let text = format!(
                "trace.attributes must be `name=value` pairs with commas between them, in at most {ATTRIBUTES_BYTES_MAX} bytes"
            );
            found.push(Violation::new(&["trace.attributes"], text));
        }
        found
    }
}

/// Parses headers: pairs with commas or line ends between them.
fn parse_headers(text: &str, from: String) -> Result<Vec<(String, SecretString)>, HeadersError> {
    let read = pairs(&text.trim().replace(['\n', '\r'], ","));
    let read = read.ok_or(HeadersError::Malformed { from })?;
    Ok(read.into_iter().map(|(name, value)| (name, SecretString::from(value))).collect())
}

/// Parses pairs in the form of OpenTelemetry's variables. Values may have escapes such as `%20`.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let name = name.trim();
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        is_name.then_some((name.to_owned(), decoded(value.trim())?))
    };
    parts.map(pair).collect()
}

/// Decodes percent escapes (RFC 3986, 2.1).
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                after
            }
            (b'%', _) => return None,
            (byte, after) => {
                bytes.push(*byte);
                after
            }
        };
    }
    String::from_utf8(bytes).ok()
}

fn url_cure(url: &str) -> Option<&'static str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    match host {
        _ if url.is_empty() => None,
        None | Some("") => Some("must be the collector's address, such as `http://127.0.0.1:4318`"),
        Some(host) if host.contains('@') => {
            Some("must not carry a user or a password: put a header into trace.otlp_headers_file")
        }
        Some(_) if url.contains(char::is_whitespace) => Some("must not contain white space"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use secrecy::ExposeSecret as _;

    use super::{super::Config, *};

    fn read(text: &str) -> Option<Vec<(String, String)>> {
        let read = parse_headers(text, "here".to_owned()).ok()?;
        let shown = read.into_iter();
        Some(shown.map(|(name, value)| (name, value.expose_secret().to_owned())).collect())
    }

    #[test]
    fn headers_are_read_as_opentelemetry_writes_them() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let basic = vec![pair("authorization", "Basic YWJj=="), pair("x-tenant", "a")];
        assert_eq!(read("authorization=Basic%20YWJj==,x-tenant=a"), Some(basic.clone()));
        assert_eq!(read("authorization = Basic YWJj==\nx-tenant=a\n"), Some(basic));
        assert_eq!(read(""), Some(Vec::new()));
        for wrong in ["authorization", "=a", "a=%2", "a=%zz", "a b=c"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let error = parse_headers("very secret", "here".to_owned()).unwrap_err().to_string();
        assert!(error.starts_with("here holds no headers") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn a_credential_wins_over_a_file_and_a_file_over_a_variable() {
        let folder = tempfile::tempdir().unwrap();
        let mut trace = Config::default().trace;
        let directory = folder.path().display().to_string();
        let variables =
            [("OTEL_EXPORTER_OTLP_HEADERS", "from=variable"), ("CREDENTIALS_DIRECTORY", &directory)];
        let environment: Environment = variables.into_iter().collect();
        let from = |trace: &TraceConfig| trace.headers(&environment).unwrap()[0].1.expose_secret().to_owned();
        assert_eq!(from(&trace), "variable");
        let file = folder.path().join("headers");
        std::fs::write(&file, "from=file").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = {
            trace.otlp_headers_file = file.display().to_string();
            trace.headers(&Environment::default()).unwrap_err().to_string()
        };
        assert!(error.contains("chmod 600"), "{error}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        trace.otlp_headers_file = file.display().to_string();
        assert_eq!(from(&trace), "file");
        std::fs::write(folder.path().join(CREDENTIAL), "from=credential").unwrap();
        assert_eq!(from(&trace), "credential");
        trace.otlp_headers_file = folder.path().join("none").display().to_string();
        let error = trace.headers(&Environment::default()).unwrap_err().to_string();
        assert!(error.contains("trace.otlp_headers_file"), "{error}");
    }

    #[test]
    fn violations_name_their_keys() {
        let mut trace = Config::default().trace;
        assert!(trace.violations().is_empty());
        trace.otlp_url = "127.0.0.1:4318".to_owned();
        trace.sample = f64::NAN;
        trace.service_name = " ".to_owned();
        trace.attributes = "a".to_owned();
        let keys: Vec<_> = trace.violations().iter().flat_map(|found| found.keys.clone()).collect();
        let expected = ["trace.otlp_url", "trace.sample", "trace.service_name", "trace.attributes"];
        assert_eq!(keys, expected);
        trace.otlp_url = "https://me:secret@host".to_owned();
        assert!(!trace.violations()[0].text.contains("secret"));
    }

    #[test]
    fn opentelemetrys_variables_are_used_where_the_configuration_sets_nothing() {
        let trace = Config::default().trace;
        let with = |variables: &[(&str, &str)]| variables.iter().copied().collect::<Environment>();
        assert_eq!(trace.in_force(&with(&[])), Ok(None));
        let set = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"),
            ("OTEL_SERVICE_NAME", "web"),
            ("OTEL_RESOURCE_ATTRIBUTES", "host.name=a%20b"),
        ];
        let found = trace.in_force(&with(&set)).unwrap().unwrap();
        assert_eq!((found.otlp_url.as_str(), found.service_name.as_str()), ("http://c:4318", "web"));
        assert_eq!(found.resource(), [("host.name".to_owned(), "a b".to_owned())]);
        let mut own = trace.clone();
        own.otlp_url = "http://mine:4318".to_owned();
        own.service_name = "own".to_owned();
        let found = own.in_force(&with(&set)).unwrap().unwrap();
        assert_eq!((found.otlp_url.as_str(), found.service_name.as_str()), ("http://mine:4318", "own"));
        for off in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert_eq!(own.in_force(&with(&[off])), Ok(None));
        }
        for (name, value) in
            [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "c:4317")]
        {
            let error = trace.in_force(&with(&[set[0], (name, value)])).unwrap_err();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
