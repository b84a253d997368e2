//! The clients for shops, against the real server and through proxies that lose its answers.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::between::Underway;
use crate::serving::{OPERATOR, Serving};
use crate::succeeds;

const PAYMENT_SECRET: &str = "payment-secret-of-the-program-tests-0123456789";
const TURNED_AWAY: &str =
    "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// What a proxy does with a request.
#[derive(Clone, Copy)]
enum Way {
    /// Has it answered, and keeps the answer.
    Lose,
    TurnAway,
    Pass,
}

/// A proxy in front of the server; `way` is asked for each request by its number.
fn proxy(server: SocketAddr, way: impl Fn(usize) -> Way + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let count = AtomicUsize::new(0);
        for client in listener.incoming() {
            // A client that has left is no failure of the proxy's.
            let _left = forward(client.unwrap(), server, way(count.fetch_add(1, Ordering::Relaxed)));
        }
    });
    url
}

/// One request on a connection of its own.
fn forward(mut client: TcpStream, server: SocketAddr, way: Way) -> std::io::Result<()> {
    let request = Underway::take(&client)?;
    if let Way::TurnAway = way {
        return client.write_all(TURNED_AWAY.as_bytes());
    }
    let answer = request.pass_on(server)?;
    match way {
        Way::Pass => client.write_all(&answer),
        _ => Ok(()),
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of the tools that check the API, with a Python that has what the clients need.
fn tools() -> PathBuf {
    let printed = Command::new(repository().join("dev/install-api-tools")).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    PathBuf::from(String::from_utf8(printed.stdout).unwrap().trim())
}

/// Runs the client's test at a server of its own, and audits that.
fn against_a_server(client: impl FnOnce(&str) -> String, says: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = crate::doorbuster(dir.path());
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.env("DOORBUSTER_PAYMENT_SECRET", PAYMENT_SECRET);
    let server = Serving::start(command);
    let at = server.address;
    let places = json!({
        "url": format!("http://{}", server.address),
        "loses_two": proxy(at, |number| if number < 2 { Way::Lose } else { Way::Pass }),
        "loses_all": proxy(at, |_| Way::Lose),
        "turns_away": proxy(at, |number| if number.is_multiple_of(2) { Way::TurnAway } else { Way::Pass }),
        "operator": OPERATOR,
        "payment_secret": PAYMENT_SECRET,
    });
    let printed = client(&places.to_string());
    assert!(printed.contains(says), "{printed}");
    assert_eq!(server.stop(), 0);
    let (code, audited, errors) = crate::run(dir.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{audited}{errors}");
}

#[test]
fn the_typescript_client_asks_again_with_one_key_and_says_what_is_not_known() {
    // Built in a copy: what npm fetches and writes stays out of the sources.
    let dir = tempfile::tempdir().unwrap();
    let client = dir.path().join("clients/typescript");
    let document = dir.path().join("crates/server/src/http");
    std::fs::create_dir_all(&document).unwrap();
    std::fs::create_dir_all(client.parent().unwrap()).unwrap();
    let source = repository().join("clients/typescript");
    std::fs::copy(repository().join("crates/server/src/http/openapi.json"), document.join("openapi.json"))
        .unwrap();
    std::fs::create_dir(&client).unwrap();
    for name in ["package.json", "package-lock.json", "tsconfig.json", "src", "test"] {
        succeeds(Command::new("cp").arg("-r").arg(source.join(name)).arg(&client));
    }
    // Generates the types, and compiles.
    succeeds(
        Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--prefer-offline"]).current_dir(&client),
    );
    let run = |at: &str| {
        // Debian's Node 18 has what 20 has, behind a name.
        let arguments = ["--experimental-global-webcrypto", "test/client.mjs", at];
        succeeds(Command::new("node").args(arguments).current_dir(&client))
    };
    against_a_server(run, "typescript: as it should");
}

#[test]
fn the_python_client_asks_again_with_one_key_and_says_what_is_not_known() {
    let client = repository().join("clients/python");
    let python = tools().join("python/bin/python");
    let dir = tempfile::tempdir().unwrap();
    let generated = dir.path().join("document.py");
    succeeds(Command::new(client.join("generate")).arg(&generated).env("PYTHON", &python));
    let [now, kept] = [&generated, &client.join("doorbuster/document.py")]
        .map(|file| std::fs::read_to_string(file).unwrap());
    assert!(now == kept, "the document has changed: run clients/python/generate");
    let run = |at: &str| {
        let mut command = Command::new(&python);
        command.args(["-B", "test/client.py", at]).env("PYTHONPATH", ".").current_dir(&client);
        succeeds(&mut command)
    };
    against_a_server(run, "python: as it should");
}
