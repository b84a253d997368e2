//! Structured logs on standard error: for people on a terminal, JSON lines otherwise.
//!
//! Must not: write to standard output, which belongs to the addresses and the live line.

use std::io::{self, IsTerminal};

use server::config::{Log, LogFormat, LogLevel};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{fmt, reload};

/// Changes what is logged from now on.
pub(crate) type SetLevel = Box<dyn Fn(LogLevel) + Send>;

/// Starts logging for the life of the process.
pub(crate) fn start(log: &Log) -> SetLevel {
    let (level, current) = reload::Layer::new(filter(log.level));
    let terminal = io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(io::stderr);
    let for_people = match log.format {
        LogFormat::Auto => terminal,
        LogFormat::Pretty => true,
        LogFormat::Json => false,
    };
    if for_people {
        let lines = lines.compact().with_target(false).with_ansi(terminal);
        tracing_subscriber::registry().with(level).with(lines).init();
    } else {
        tracing_subscriber::registry().with(level).with(lines.json().flatten_event(true)).init();
    }
    // It fails only once nothing logs any more.
    Box::new(move |to| drop(current.reload(filter(to))))
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
