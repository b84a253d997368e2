//! Structured logs on standard error: for people on a terminal, JSON lines otherwise.
//!
//! Must not: write to standard output, which belongs to the addresses and the live line.

use std::io::{self, IsTerminal};

use server::config::{Log, LogFormat, LogLevel};
use tracing_subscriber::filter::LevelFilter;

/// Starts logging for the life of the process.
pub(crate) fn start(log: &Log) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let terminal = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    let for_people = match log.format {
        LogFormat::Auto => terminal,
        LogFormat::Pretty => true,
        LogFormat::Json => false,
    };
    if for_people {
        lines.compact().with_target(false).with_ansi(terminal).init();
    } else {
        lines.json().flatten_event(true).init();
    }
}
