//! How a command can fail, and the exit code of each. The codes are documented in `doorbuster --help`.
//!
//! Must not: show Rust's debug output. A message says what is wrong and what to do, on a line or two.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use server::config::ConfigErrors;

/// A check failed, or the server refused.
const EXIT_CHECK: u8 = 1;
/// A measurement is invalid: it says nothing, neither good nor bad.
const EXIT_INVALID: u8 = 2;
/// The arguments or the configuration are wrong (`EX_USAGE` of sysexits).
const EXIT_USAGE: u8 = 64;
/// The service can't be given or reached (`EX_UNAVAILABLE` of sysexits).
const EXIT_UNAVAILABLE: u8 = 69;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    Check(String),
    Invalid(String),
    Usage(String),
    /// Each line begins with the place of its error already.
    Config(ConfigErrors),
    Unavailable(String),
    /// Whoever read the output has enough (`| head`): an end, and no error.
    OutputClosed,
}

impl Failure {
    pub(crate) fn check(message: impl Display) -> Self {
        Self::Check(message.to_string())
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self::Usage(message.to_string())
    }

    pub(crate) fn unavailable(message: impl Display) -> Self {
        Self::Unavailable(message.to_string())
    }

    /// Names what it is about: one of several.
    pub(crate) fn of(self, what: &str) -> Self {
        match self {
            Self::Check(message) => Self::Check(format!("{what}: {message}")),
            Self::Invalid(message) => Self::Invalid(format!("{what}: {message}")),
            Self::Usage(message) => Self::Usage(format!("{what}: {message}")),
            Self::Unavailable(message) => Self::Unavailable(format!("{what}: {message}")),
            Self::Config(_) | Self::OutputClosed => self,
        }
    }

    /// What it says; nothing of what is no error.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Check(message)
            | Self::Invalid(message)
            | Self::Usage(message)
            | Self::Unavailable(message) => message.clone(),
            Self::Config(errors) => errors.to_string(),
            Self::OutputClosed => String::new(),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Check(_) => EXIT_CHECK,
            Self::Invalid(_) => EXIT_INVALID,
            Self::Usage(_) | Self::Config(_) => EXIT_USAGE,
            Self::Unavailable(_) => EXIT_UNAVAILABLE,
            Self::OutputClosed => 0,
        })
    }

    /// Writes the message to standard error. If that fails, nobody can learn of it, so the error is dropped.
    pub(crate) fn print(&self) {
        let text = match self {
            Self::Check(message)
            | Self::Invalid(message)
            | Self::Usage(message)
            | Self::Unavailable(message) => format!("error: {message}\n"),
            Self::Config(errors) => format!("{errors}\n"),
            Self::OutputClosed => return,
        };
        io::stderr().write_all(text.as_bytes()).ok();
    }
}

/// The exit code of wrong arguments, for the parser's own errors.
pub(crate) fn usage_exit_code() -> ExitCode {
    ExitCode::from(EXIT_USAGE)
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::Config(errors)
    }
}

/// Errors of writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::Check(format!("standard output can't be written: {error}"))
    }
}
