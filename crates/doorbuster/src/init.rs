//! `doorbuster init`: five questions, and what a server of one's own needs: configuration, secrets, a systemd unit.
//!
//! Must not: change a file that is there.

use std::io::{self, BufRead, IsTerminal as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::bench::progress::say;
use clap::Args;
use server::Secrets;
use server::config::{Environment, Sources, parse_listen};
use toml::Value;

use crate::failure::Failure;
use crate::new_file::NewFile;
use crate::output;
use crate::time::{format_duration, parse_duration};

const CONFIG: &str = "doorbuster.toml";
const UNIT: &str = "doorbuster.service";
const SECRETS: [&str; 3] = ["token-secret", "operator-token", "payment-secret"];
/// Below it a port needs a right of its own.
const FIRST_FREE_PORT: u16 = 1024;

/// Make the files of a server of your own: configuration, secrets and a systemd unit.
#[derive(Args, Debug)]
#[command(after_help = "\
Asks what was not given as an option; Enter takes what stands in brackets. Into DIR it writes
  doorbuster.toml                                what you answered; `doorbuster config` prints every other key
  token-secret, operator-token, payment-secret   32 random bytes each, readable by their owner alone
  doorbuster.service                             a systemd unit that may do nothing but serve
Files that are there are not changed: then nothing is written. On a terminal it asks again after an answer that it can't take;
answers that are piped end with the first of these.

Examples:
  doorbuster init /etc/doorbuster
  doorbuster init --yes --data-dir ./data .      no questions")]
pub(crate) struct InitArguments {
    /// The folder of the files, made if it is missing
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Name under which buyers reach the server, drops.shop.example; empty: any [http.public_names]
    #[arg(long)]
    name: Option<String>,
    /// Address and port to serve on [http.listen]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
    /// Networks of the proxies or the CDN in front, separated by commas; empty: none [http.trusted_proxies]
    #[arg(long, value_name = "NETWORKS")]
    proxies: Option<String>,
    /// Directory of the ledger [ledger.data_dir]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Time to pay an order before its units go back on sale [sale.payment_s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    payment: Option<Duration>,
    /// Ask nothing: take what would stand in brackets
    #[arg(long)]
    yes: bool,
}

/// What was answered.
struct Answers {
    name: String,
    listen: SocketAddr,
    proxies: Vec<String>,
    data_dir: PathBuf,
    payment: Duration,
}

pub(crate) fn run(arguments: &InitArguments, environment: &Environment) -> Result<(), Failure> {
    std::fs::create_dir_all(&arguments.dir).map_err(|error| unwritable(&arguments.dir, &error))?;
    let dir = arguments.dir.canonicalize().map_err(|error| unwritable(&arguments.dir, &error))?;
    let there =
        [CONFIG, UNIT].into_iter().chain(SECRETS).map(|name| dir.join(name)).find(|path| path.exists());
    if let Some(there) = there {
        let shown = there.display();
        return Err(Failure::usage(format!("{shown} is there already: give another folder, or remove it")));
    }
    let answers = ask(arguments)?;
    let mut written = Vec::new();
    let done = write_all(&dir, &answers, &mut written).and_then(|()| check(&dir, environment));
    if done.is_err() {
        remove(&written);
    }
    done?;
    output::print(&next_steps(&dir, &answers))
}

/// What was just made. What can't be removed is named, for it is in the way of the next try.
fn remove(made: &[PathBuf]) {
    for path in made {
        if let Err(error) = std::fs::remove_file(path) {
            say(&format!("{} can't be removed, and is in the way of another try: {error}", path.display()));
        }
    }
}

fn ask(arguments: &InitArguments) -> Result<Answers, Failure> {
    let yes = arguments.yes;
    let given = |option: &str, why: String| Failure::usage(format!("{option}: {why}"));
    let name = match &arguments.name {
        Some(text) => read_name(text).map_err(|why| given("--name", why))?,
        None => {
            let question = "Under which name do buyers reach it, like drops.shop.example? (empty: any)";
            answer(question, "", yes, read_name)?
        }
    };
    let listen = match arguments.listen {
        Some(listen) => listen,
        None => answer("On which address and port does it serve?", "127.0.0.1:8080", yes, parse_listen)?,
    };
    let proxies = match &arguments.proxies {
        Some(text) => read_networks(text).map_err(|why| given("--proxies", why))?,
        None => {
            let question = "Networks of the proxies or the CDN in front, like 10.0.0.0/8? (empty: none)";
            answer(question, "", yes, read_networks)?
        }
    };
    let data_dir = match &arguments.data_dir {
        Some(data_dir) => data_dir.clone(),
        None => answer("Where are the orders kept?", "/var/lib/doorbuster", yes, |text| Ok(text.to_owned()))?,
    };
    let payment = match arguments.payment {
        Some(payment) => taken_payment(payment).map_err(|why| given("--payment", why))?,
        None => answer("How long may a buyer take to pay?", "15m", yes, |text| {
            parse_duration(text).and_then(taken_payment)
        })?,
    };
    let data_dir = std::path::absolute(data_dir).map_err(Failure::usage)?;
    Ok(Answers { name, listen, proxies, data_dir, payment })
}

fn read_name(text: &str) -> Result<String, String> {
    checked("HTTP_PUBLIC_NAMES", text).map(|()| text.to_owned())
}

fn read_networks(text: &str) -> Result<Vec<String>, String> {
    checked("HTTP_TRUSTED_PROXIES", text)?;
    let networks = text.split(',').map(str::trim).filter(|network| !network.is_empty());
    Ok(networks.map(str::to_owned).collect())
}

fn taken_payment(payment: Duration) -> Result<Duration, String> {
    checked("SALE_PAYMENT_S", &payment.as_secs().to_string()).map(|()| payment)
}

/// Asks until there is an answer that can be taken. Whoever pipes answers hears of the first that can't.
fn answer<T>(
    question: &str,
    default: &str,
    yes: bool,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    loop {
        if yes {
            return read(default).map_err(Failure::usage);
        }
        output::print(&format!("{question} [{default}] "))?;
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).map_err(Failure::unavailable)? == 0 {
            return Err(Failure::usage("no answer; --yes takes what stands in brackets"));
        }
        let line = line.trim();
        match read(if line.is_empty() { default } else { line }) {
            Ok(answer) => return Ok(answer),
            Err(why) if io::stdin().is_terminal() => output::print(&format!("{why}\n"))?,
            Err(why) => return Err(Failure::usage(why)),
        }
    }
}

/// Whether the configuration takes a value, by its variable; in the words that a start would use.
fn checked(variable: &str, value: &str) -> Result<(), String> {
    let environment = Environment::from_pairs([(&*format!("DOORBUSTER_{variable}"), value)]);
    let (_, wrong) =
        Sources::default().environment(&environment).load_all().map_err(|errors| errors.0.join("\n"))?;
    match wrong.first() {
        Some(why) => Err(why.split_once(": ").map_or(&**why, |(_, why)| why).to_owned()),
        None => Ok(()),
    }
}

fn write_all(dir: &Path, answers: &Answers, written: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for name in SECRETS {
        let path = dir.join(name);
        Secrets::make(&path).map_err(|error| unfinished(&path, &error))?;
        written.push(path);
    }
    for (name, text) in [(CONFIG, config(dir, answers)), (UNIT, unit(dir, answers)?)] {
        let path = dir.join(name);
        let made = NewFile::try_write(&path, text.as_bytes()).and_then(|file| file.try_keep());
        made.map_err(|error| unfinished(&path, &error))?;
        written.push(path);
    }
    Ok(())
}

/// As the server will read it: what was answered wrongly is said in its words.
fn check(dir: &Path, environment: &Environment) -> Result<(), Failure> {
    let config = Sources::default().file(&dir.join(CONFIG)).environment(environment).load()?;
    Secrets::load(&config, environment)?;
    Ok(())
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::unavailable(format!("{}: can't be written: {error}", path.display()))
}

/// Of one of several files, which are removed.
fn unfinished(path: &Path, error: &io::Error) -> Failure {
    Failure::unavailable(format!("{}: can't be written: {error}; nothing was made", path.display()))
}

fn config(dir: &Path, answers: &Answers) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let list = |texts: Vec<String>| Value::from(texts).to_string();
    let secret = |name: &str| text(&dir.join(name).display().to_string());
    let names = if answers.name.is_empty() { Vec::new() } else { vec![answers.name.clone()] };
    format!(
        "# Made by `doorbuster init`. `doorbuster config` prints every key with its meaning, default and bounds;\n\
         # `doorbuster config --check {CONFIG}` says whether this file is right.\n\n\
         [http]\nlisten = {listen}\npublic_names = {names}\ntrusted_proxies = {proxies}\n\n\
         [auth]\ntoken_secret_file = {token}        # the shop signs buyers' tokens with it\n\
         operator_token_file = {operator}    # for `doorbuster sale` and the other commands\n\
         payment_secret_file = {payment_secret}    # the payment provider's callbacks are signed with it\n\n\
         [ledger]\ndata_dir = {data_dir}\n\n\
         [sale]\npayment_s = {payment}\n",
        listen = text(&answers.listen.to_string()),
        names = list(names),
        proxies = list(answers.proxies.clone()),
        token = secret(SECRETS[0]),
        operator = secret(SECRETS[1]),
        payment_secret = secret(SECRETS[2]),
        data_dir = text(&answers.data_dir.display().to_string()),
        payment = answers.payment.as_secs(),
    )
}

/// Nothing but the data directory can be written, and nothing but the network is reached.
fn unit(dir: &Path, answers: &Answers) -> Result<String, Failure> {
    let program = std::env::current_exe().map_err(Failure::unavailable)?;
    let capability = if answers.listen.port() < FIRST_FREE_PORT { "CAP_NET_BIND_SERVICE" } else { "" };
    let config = dir.join(CONFIG);
    let (program, config, data_dir) = (quoted(&program), quoted(&config), quoted(&answers.data_dir));
    Ok(format!(
        "[Unit]
Description=Doorbuster, the orders of a flash sale
Documentation=man:systemd.exec(5)
Wants=network-online.target
After=network-online.target time-sync.target

[Service]
User=doorbuster
ExecStart={program} serve --config {config}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=1
TimeoutStopSec=60
LimitNOFILE=65536
UMask=0077
ReadWritePaths={data_dir}
AmbientCapabilities={capability}
CapabilityBoundingSet={capability}
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectProc=invisible
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
PrivateDevices=yes
PrivateTmp=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"
    ))
}

/// A path as a unit takes it: in quotes, with its own specifiers switched off.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('%', "%%"))
}

fn next_steps(dir: &Path, answers: &Answers) -> String {
    let file = |name: &str| for_a_shell(&dir.join(name));
    let (config, unit, data_dir) = (file(CONFIG), file(UNIT), for_a_shell(&answers.data_dir));
    format!(
        "
written to {}: {CONFIG}, {}, {UNIT}
payment: an order that is not paid within {} goes back on sale

Try it:     doorbuster serve --config {config}
As service: useradd --system doorbuster; install -d -o doorbuster -m 700 {data_dir}
            chown doorbuster: {}
            cp {unit} /etc/systemd/system/; systemctl daemon-reload; systemctl enable --now doorbuster
First sale: doorbuster sale create --help
",
        dir.display(),
        SECRETS.join(", "),
        format_duration(answers.payment),
        SECRETS.map(file).join(" "),
    )
}

/// In quotes, if it needs them.
fn for_a_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    if is_plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
