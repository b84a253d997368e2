//! The HTTP client of the operator's commands: one request, one answer or a [`Failure`] that says what to do.
//!
//! Must not: know what a sale is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use engine::is_plain;
use engine::limits::REASON_CHARS_MAX;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use server::config::{Environment, Secrets};
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::WithBody;
use ureq::{Agent, Body, RequestBuilder};

use crate::failure::Failure;
use crate::time::format_duration;

const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";
const SERVER_VARIABLE: &str = "DOORBUSTER_SERVER";
const TOKEN_VARIABLE: &str = "DOORBUSTER_OPERATOR_TOKEN";
/// Where a demo keeps its operator token, below its data directory.
const TOKEN_FILE: &str = "operator-token";
/// Longer than any bound of the server on answering one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Codes of problems whose title and detail say the same.
const SAID_TWICE: [&str; 2] = ["unknown_sale", "unknown_sku"];
/// Enough for a list of ten thousand sales.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Which server, and with which token.
#[derive(Args, Debug)]
pub(crate) struct ServerArguments {
    /// The server's URL [default: http://127.0.0.1:8080, or DOORBUSTER_SERVER]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    server: Option<String>,

    /// File that holds the operator token [default: DOORBUSTER_OPERATOR_TOKEN, or the data directory's]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,

    /// Data directory of a demo on this machine, whose operator-token is used
    #[arg(long, value_name = "DIR", default_value = "./var/doorbuster", help_heading = "Server")]
    data_dir: PathBuf,

    /// Certificates (PEM) that vouch for an https server
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/ssl/certs/ca-certificates.crt",
        help_heading = "Server"
    )]
    ca_file: PathBuf,

    /// Why: kept beside your name in `doorbuster operators log`, at most 200 characters
    #[arg(long, value_name = "TEXT", help_heading = "Server", value_parser = parse_why)]
    why: Option<String>,

    /// Print the server's answer as it came, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A server, with the token that it wants.
pub(crate) struct Client {
    agent: Agent,
    base: String,
    /// How long an answer is waited for.
    patience: Duration,
    token: String,
    /// As its header has it.
    why: Option<String>,
}

/// What makes a command one that happens once, however often it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Once<'a> {
    /// Sent as the `Idempotency-Key`.
    Key(&'a str),
    /// The number of what is made, in the body.
    Id(u64),
    /// It sets what is named, of this sale.
    Set(u64),
}

/// An answer that is no refusal.
pub(crate) struct Answer(String);

impl Answer {
    /// The answer as it came, with a line end.
    pub(crate) fn text(&self) -> String {
        format!("{}\n", self.0.trim_end())
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.0).map_err(|error| {
            Failure::unavailable(format!(
                "the server's answer is not understood ({error}): is it a doorbuster of this version?"
            ))
        })
    }
}

/// RFC 9457; other servers may leave each field out.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Problem {
    title: String,
    detail: String,
    code: String,
}

impl Problem {
    fn words(&self, status: StatusCode) -> String {
        let Problem { title, detail, code } = self;
        match (title.as_str(), detail.as_str()) {
            ("", "") => format!("HTTP {status}"),
            (title, "") => title.to_owned(),
            ("", detail) => format!("HTTP {status}: {detail}"),
            // Their titles say the same.
            (_, detail) if SAID_TWICE.contains(&code.as_str()) => detail.to_owned(),
            (title, detail) => format!("{title}: {detail}"),
        }
    }
}

/// As one segment of a path, or as a header, which has English letters alone.
pub(crate) fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

impl Client {
    /// Finds the server and its token. Sends nothing yet.
    pub(crate) fn connect(arguments: &ServerArguments, environment: &Environment) -> Result<Self, Failure> {
        Self::connect_within(ANSWER_TIMEOUT, arguments, environment)
    }

    /// As above, and every answer is waited for so long at most.
    pub(crate) fn connect_within(
        patience: Duration,
        arguments: &ServerArguments,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let base = arguments.server.as_deref().or(environment.get(SERVER_VARIABLE)).unwrap_or(DEFAULT_SERVER);
        let tls = match base.split_once("://") {
            Some(("http", host)) if !host.is_empty() => None,
            Some(("https", host)) if !host.is_empty() => Some(tls(&arguments.ca_file)?),
            _ => {
                let message = format!("{base:?} is no server: write it like {DEFAULT_SERVER}");
                return Err(Failure::usage(message));
            }
        };
        let mut settings = Agent::config_builder()
            .timeout_global(Some(patience))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None);
        if let Some(tls) = tls {
            settings = settings.tls_config(tls);
        }
        Ok(Self {
            agent: settings.build().into(),
            base: base.trim_end_matches('/').to_owned(),
            patience,
            token: token(arguments, environment)?,
            why: arguments.why.as_deref().map(percent_encoded),
        })
    }

    pub(crate) fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.answer(self.ask(path), None)
    }

    /// The problem's code if there is no such thing (404); empty: it has none.
    pub(crate) fn get_if_there(&self, path: &str) -> Result<Result<Answer, String>, Failure> {
        match self.ask(path) {
            Ok(mut response) if response.status() == StatusCode::NOT_FOUND => {
                let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
                let text = text.map_err(|error| self.no_answer(&error, None))?;
                Ok(Err(serde_json::from_str::<Problem>(&text).unwrap_or_default().code))
            }
            result => self.answer(result, None).map(Ok),
        }
    }

    fn ask(&self, path: &str) -> Result<Response<Body>, ureq::Error> {
        self.agent.get(self.url(path)).header("Authorization", format!("Bearer {}", self.token)).call()
    }

    /// Whether it serves, and what it says of that.
    pub(crate) fn readiness(&self) -> Result<(bool, String), Failure> {
        let result = self.agent.get(format!("{}/readyz", self.base)).call();
        let mut response = result.map_err(|error| self.no_answer(&error, None))?;
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.no_answer(&error, None))?;
        match response.status() {
            StatusCode::OK => return Ok((true, text)),
            StatusCode::SERVICE_UNAVAILABLE => {}
            // Of what stands before the servers, which may be well.
            other => {
                return Err(Failure::unavailable(format!(
                    "{}/readyz answered {}: this address has no /readyz; name a server's own address",
                    self.base,
                    other.as_u16()
                )));
            }
        }
        // What stands before the server may answer in words of its own.
        let problem: Problem = serde_json::from_str(&text).unwrap_or_default();
        Ok((false, if problem.detail.is_empty() { text } else { problem.detail }))
    }

    /// The server's URL, as it was given.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Sends a command. What makes it happen once is named when the answer is lost.
    pub(crate) fn post(&self, path: &str, body: &Value, once: Option<Once<'_>>) -> Result<Answer, Failure> {
        let mut request = self.signed(self.agent.post(self.url(path)));
        if let Some(Once::Key(key)) = once {
            request = request.header("Idempotency-Key", key);
        }
        self.answer(request.content_type("application/json").send(body.to_string()), once)
    }

    /// Sends what is to become of something.
    pub(crate) fn patch(&self, path: &str, body: &Value, once: Once<'_>) -> Result<Answer, Failure> {
        let request = self.signed(self.agent.patch(self.url(path)));
        self.answer(request.content_type("application/json").send(body.to_string()), Some(once))
    }

    /// Sends what is no JSON. To send it again changes nothing.
    pub(crate) fn post_bytes(&self, path: &str, body: &[u8]) -> Result<Answer, Failure> {
        let request = self.signed(self.agent.post(self.url(path)));
        self.answer(request.content_type("application/octet-stream").send(body), None)
    }

    /// By whom, and why.
    fn signed(&self, request: RequestBuilder<WithBody>) -> RequestBuilder<WithBody> {
        let request = request.header("Authorization", format!("Bearer {}", self.token));
        match &self.why {
            Some(why) => request.header("Operator-Reason", why),
            None => request,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.base)
    }

    fn answer(
        &self,
        result: Result<Response<Body>, ureq::Error>,
        once: Option<Once<'_>>,
    ) -> Result<Answer, Failure> {
        let mut response = result.map_err(|error| self.no_answer(&error, once))?;
        let status = response.status();
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.no_answer(&error, once))?;
        if status.is_success() {
            return Ok(Answer(text));
        }
        let problem: Problem = serde_json::from_str(&text).unwrap_or_default();
        let message = crate::output::plain(&problem.words(status));
        Err(match status.as_u16() {
            401 | 403 => Failure::usage(format!("{message} (--token-file FILE or {TOKEN_VARIABLE})")),
            // Whether it happened or not, repeating it as it was is right.
            // Of this token alone: another is taken at once.
            429 if problem.code == "operator_guesses" => {
                Failure::usage(format!("{message} (--token-file FILE or {TOKEN_VARIABLE})"))
            }
            429 | 500..=599 => Failure::unavailable(message + &again(once)),
            _ => Failure::check(message),
        })
    }

    fn no_answer(&self, error: &ureq::Error, once: Option<Once<'_>>) -> Failure {
        let base = &self.base;
        let refused =
            matches!(error, ureq::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused);
        if refused || matches!(error, ureq::Error::HostNotFound) {
            return Failure::unavailable(format!(
                "no server at {base}: {error}; start one with `doorbuster serve`, or name it with --server URL"
            ));
        }
        if let ureq::Error::BadUri(_) | ureq::Error::Http(_) = error {
            return Failure::usage(format!("{base:?} is no server: write it like {DEFAULT_SERVER}"));
        }
        if is_no_tls(error) {
            let plain = base.replacen("https", "http", 1);
            return Failure::usage(format!("the server at {base} speaks no TLS: write {plain}"));
        }
        let why = match error {
            ureq::Error::Timeout(_) => format!(" within {}", format_duration(self.patience)),
            error => format!(": {error}"),
        };
        Failure::unavailable(format!("no answer from {base}{why}{}", again(once)))
    }
}

fn parse_why(text: &str) -> Result<String, String> {
    let chars = text.chars().count();
    if chars > REASON_CHARS_MAX {
        return Err(format!("{chars} characters, and {REASON_CHARS_MAX} are kept"));
    }
    if !is_plain(text) {
        return Err("no line ends, and nothing that turns the direction of text".to_owned());
    }
    Ok(text.to_owned())
}

/// Whether what answered a TLS handshake was something else, such as HTTP.
fn is_no_tls(error: &ureq::Error) -> bool {
    let no_tls = |error: &rustls::Error| {
        matches!(error, rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType))
    };
    match error {
        ureq::Error::Rustls(error) => no_tls(error),
        ureq::Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref()).is_some_and(no_tls),
        _ => false,
    }
}

/// How to find out what became of a command whose answer was lost.
fn again(once: Option<Once<'_>>) -> String {
    match once {
        Some(Once::Key(key)) => format!("; repeat it with --key {key} to learn its outcome"),
        Some(Once::Id(id)) => format!("; repeat it with the id {id} to learn its outcome"),
        Some(Once::Set(sale)) => format!("; `doorbuster sale show {sale}` tells whether it was changed"),
        None => String::new(),
    }
}

/// Lists are shown to everybody, without what only operators see: whoever gave a token is answered that it is not theirs.
pub(crate) fn not_the_operators() -> Failure {
    Failure::usage(format!(
        "the server takes this token for no operator's (--token-file FILE or {TOKEN_VARIABLE}); if operators have a \
         listener of their own, --server must name that one"
    ))
}

fn token(arguments: &ServerArguments, environment: &Environment) -> Result<String, Failure> {
    let (path, named) = match &arguments.token_file {
        Some(path) => (path.clone(), true),
        None => match environment.get(TOKEN_VARIABLE) {
            Some(token) => return checked_token(token.to_owned(), TOKEN_VARIABLE),
            None => (arguments.data_dir.join(TOKEN_FILE), false),
        },
    };
    if Secrets::is_exposed(&path) {
        let shown = path.display();
        eprintln!("warning: {shown} is a secret that everybody on this machine can read: chmod 600 {shown}");
    }
    match std::fs::read_to_string(&path) {
        Ok(text) => checked_token(text.trim_end().to_owned(), &path.display().to_string()),
        Err(error) if named => Err(Failure::usage(format!("{}: can't be read: {error}", path.display()))),
        Err(error) => Err(Failure::usage(format!(
            "no operator token: set {TOKEN_VARIABLE}, give --token-file FILE, or --data-dir of a demo \
             ({}: {error})",
            path.display()
        ))),
    }
}

/// A token goes into a header, where a line end or a space would make another request of it.
fn checked_token(token: String, origin: &str) -> Result<String, Failure> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::usage(format!("{origin} holds no token: one line of visible ASCII characters")));
    }
    Ok(token)
}

fn tls(ca_file: &Path) -> Result<TlsConfig, Failure> {
    let unusable = |why: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "{}: {why}; name the certificates that vouch for the server with --ca-file FILE",
            ca_file.display()
        ))
    };
    let pem = std::fs::read(ca_file).map_err(|error| unusable(&error))?;
    let items: Result<Vec<_>, _> = parse_pem(&pem).collect();
    let certificates: Vec<Certificate<'static>> = items
        .map_err(|error| unusable(&error))?
        .into_iter()
        .filter_map(
            |item| if let PemItem::Certificate(certificate) = item { Some(certificate) } else { None },
        )
        .collect();
    if certificates.is_empty() {
        return Err(unusable(&"holds no PEM certificate"));
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_segment_of_a_path_and_a_header() {
        assert_eq!(percent_encoded("pay_1-A.b~"), "pay_1-A.b~");
        assert_eq!(percent_encoded("a/b?c#d e%ä"), "a%2Fb%3Fc%23d%20e%25%C3%A4");
    }
}
