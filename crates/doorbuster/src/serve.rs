//! `doorbuster serve`: checked configuration, secrets, a bound port, and then the server.
//!
//! The order matters: nothing is opened before the whole configuration is known to be right, so a server never
//! half starts. Must not: serve anything itself.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use server::config::{Config, Demo, Environment, Sources, parse_listen};
use server::net::{self, Stop};
use server::rehearsals::RehearseCommand;
use server::{Listeners, Running, Secrets, check_demo};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::Failure;
use crate::live::{LiveLine, Snapshot};
use crate::reload::Reloading;
use crate::time::parse_duration;
use crate::{logging, output};

/// Serve the sales of a data directory.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  doorbuster serve --demo                           a sale to look at, which starts at once
  doorbuster serve --demo --starts-in 60s           with a countdown
  doorbuster serve --config doorbuster.toml         `doorbuster config` writes that file
  DOORBUSTER_HTTP_LISTEN=0.0.0.0:80 doorbuster serve --config doorbuster.toml

Arguments stand above DOORBUSTER_<SECTION>_<KEY> variables, and these above the file. SIGTERM or Ctrl-C stops
gracefully: requests in flight are answered. A second Ctrl-C ends the process at once; accepted orders are on
disk by then. SIGHUP reads secrets, certificates and some keys again (`doorbuster config` lists them); it stops a demo. Exit code 69: the port is taken, or another server uses the data directory.")]
pub(crate) struct ServeArguments {
    /// Configuration file; without one, the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to serve on [http.listen]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
    /// Directory of the ledger, made if it is missing [ledger.data_dir]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Serve sale 3 and a small shop, where every browser is a buyer and a button pays
    #[arg(long)]
    demo: bool,
    /// Start the demo's sale after a countdown; the sales of an existing data directory are not changed
    #[arg(long, value_name = "DURATION", requires = "demo", value_parser = parse_duration)]
    starts_in: Option<Duration>,
    /// Let the demo listen on an address that other machines reach
    #[arg(long, requires = "demo")]
    demo_public: bool,
}

pub(crate) fn run(arguments: &ServeArguments, environment: &Environment) -> Result<(), Failure> {
    let sources = sources(arguments, environment);
    let mut config = sources.clone().load()?;
    // Before a demo makes its secrets in a shop's data directory.
    let known = Secrets::load_for_ledger(&config, environment)?;
    check_demo(&config, &known).map_err(Failure::unavailable)?;
    let secrets = Secrets::load(&config, environment)?;
    let set_level = logging::start(&config.log);
    for exposed in Secrets::exposed(&config) {
        tracing::warn!("{exposed}");
    }
    fit_connections(&mut config);
    config.rehearse = Some(rehearse(arguments)?);
    let public = bind(config.http.listen, "--listen")?;
    let address = public.local_addr().map_err(Failure::unavailable)?;
    let operators = config.http.operator_listen.map(|at| bind(at, "http.operator_listen")).transpose()?;
    let operators_at = match &operators {
        Some(listener) => Some(listener.local_addr().map_err(Failure::unavailable)?),
        None => None,
    };
    let stop = Stop::new();
    stop_on_signals(stop.clone(), config.demo.is_some())?;
    let hangups = if config.demo.is_none() {
        Some(Signals::new([SIGHUP]).map_err(Failure::unavailable)?)
    } else {
        None
    };
    let again = {
        let (arguments, environment) = (arguments.clone(), environment.clone());
        move || self::sources(&arguments, &environment)
    };
    let addresses = addresses(&config, address, operators_at);
    let mut live = None;
    let on_ready = |running: &Running| {
        // A reader that left must not keep the orders out; what it would have read is in the log.
        output::print(&addresses).ok();
        tracing::info!(%address, operators = operators_at.map(tracing::field::display), "serving");
        if let Some(hangups) = hangups {
            let reloading = Reloading::new(environment.clone(), sources, running.reloader.clone(), set_level);
            // Without the thread a SIGHUP does nothing, as the log says; orders are served.
            if let Err(error) = reloading.start(hangups, again) {
                tracing::error!(%error, "SIGHUP will not reload anything: the thread can't be started");
            }
        }
        if io::stdout().is_terminal() {
            let (metrics, shelf) = (running.metrics.clone(), running.shelf.clone());
            live = LiveLine::start(move || Snapshot::of(&metrics, &shelf.current())).ok();
        }
    };
    let served = server::run(config, secrets, Listeners { public, operators }, stop, on_ready);
    drop(live);
    served.map_err(Failure::unavailable)
}

fn sources(arguments: &ServeArguments, environment: &Environment) -> Sources {
    let mut sources = Sources::default();
    if let Some(path) = &arguments.config {
        sources = sources.file(path);
    }
    sources = sources.environment(environment);
    if let Some(listen) = arguments.listen {
        sources = sources.argument("http.listen", &listen.to_string(), "--listen");
    }
    if let Some(data_dir) = &arguments.data_dir {
        sources = sources.argument("ledger.data_dir", data_dir, "--data-dir");
    }
    if arguments.demo {
        let starts_in = arguments.starts_in.unwrap_or(Duration::ZERO);
        sources = sources.demo(Demo { starts_in, public: arguments.demo_public });
    }
    sources
}

/// How an operator's rehearsal is played: with the same sources, the environment's among them, but the demo's.
fn rehearse(arguments: &ServeArguments) -> Result<RehearseCommand, Failure> {
    let program = std::env::current_exe().map_err(Failure::unavailable)?;
    let mut of_server: Vec<OsString> = Vec::new();
    if let Some(path) = &arguments.config {
        of_server.extend(["--config".into(), path.into()]);
    }
    if let Some(data_dir) = &arguments.data_dir {
        of_server.extend(["--data-dir".into(), data_dir.into()]);
    }
    let called = |with: &[&str]| with.iter().map(OsString::from).chain(of_server.clone()).collect();
    Ok(RehearseCommand {
        program,
        arguments: called(&["rehearse", "-", "--yes", "--json", "--attended"]),
        clean_up: called(&["rehearse", "--clean-up"]),
    })
}

/// Takes no more connections than there are descriptors for, so that one more is answered 503 and not left waiting.
fn fit_connections(config: &mut Config) {
    let limit = net::raise_limit();
    let wanted = config.http.connections_max;
    let event_loops = config.http.threads + usize::from(config.http.operator_listen.is_some());
    let fitting = net::connections_within(limit, wanted, event_loops);
    if fitting < wanted {
        tracing::warn!(
            descriptors = limit,
            wanted,
            served = fitting,
            "fewer connections than http.connections_max are served: raise the limit of open files (ulimit -Hn, \
             LimitNOFILE=)"
        );
        config.http.connections_max = fitting;
    }
}

/// `setting`: what to change if it can't be.
fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, Failure> {
    net::listen(address).map_err(|error| Failure::unavailable(cannot_serve(address, setting, &error)))
}

pub(crate) fn cannot_serve(address: SocketAddr, setting: &str, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "another program serves there; stop it, or give another ",
        io::ErrorKind::PermissionDenied => "a port below 1024 needs the right to it; give another ",
        _ => "give another ",
    };
    format!("{address} can't be served ({error}): {advice}{setting}")
}

/// The first signal stops gracefully, the next stops at once; a third one ends the process as if nobody
/// listened for it. A demo also ends with its terminal; it has nothing to reload.
fn stop_on_signals(stop: Stop, demo: bool) -> Result<(), Failure> {
    let wanted: &[_] = if demo { &[SIGINT, SIGTERM, SIGHUP] } else { &[SIGINT, SIGTERM] };
    let mut signals = Signals::new(wanted).map_err(Failure::unavailable)?;
    let wait = move || {
        for (earlier, signal) in signals.forever().enumerate() {
            match earlier {
                0 => {
                    tracing::info!("stopping: answering what is in flight; Ctrl-C again ends at once");
                    stop.request();
                }
                1 => stop.abort(),
                // If even that fails nobody can learn of it; the stop goes on.
                _ => drop(emulate_default_handler(signal)),
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(Failure::unavailable)?;
    Ok(())
}

/// What to open in a browser, and in a demo what to point a load tool at.
fn addresses(config: &Config, address: SocketAddr, operators: Option<SocketAddr>) -> String {
    let scheme = if config.http.tls_files().is_some() { "https" } else { "http" };
    let base = format!("{scheme}://{address}");
    let mut text = format!("serving       {base}/\nAPI           {base}/api\n");
    let for_operators = operators.map_or(base.clone(), |address| {
        let scheme = if address.ip().is_loopback() { "http" } else { scheme };
        format!("{scheme}://{address}")
    });
    text += &format!("console       {for_operators}/console\n");
    if operators.is_some() {
        text += &format!("operators     {for_operators}/metrics\n");
    }
    if config.demo.is_some() {
        text += &format!("for people    {base}/seckill_3_30.html   (100 units, one each)\n");
        if !config.cluster.enabled {
            text += &format!("for a line    {base}/seckill_4_31.html   (50 units, places drawn)\n");
        }
        text += &format!(
            "for ab        {base}/seckill_3_29.html   (10,000,000 units)\n\
             operator      doorbuster sale list --server {for_operators} --data-dir {}\n",
            config.ledger.data_dir.display()
        );
    }
    text
}
