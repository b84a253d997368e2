//! Each wrong password, certificate, database or mode of MariaDB is one line that names the server, what it answered, and the
//! key to change: at the start, and while the program runs.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use server::ledger::mysql::cluster::SharedLedger;
use server::ledger::mysql::{Limits, Options, Tls};
use server::secret::SecretBytes;

use crate::engines::Engines;
use crate::places::Database;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn line(options: &Options) -> String {
    SharedLedger::open(options).unwrap_err().to_string()
}

#[track_caller]
fn check(what: &str, options: &Options, held: &[&str]) {
    let line = line(options);
    let address = format!("{}:{}", options.host, options.port);
    assert!(line.contains(&address) && !line.contains('\n'), "{what}: {line}");
    assert!(held.iter().all(|text| line.contains(text)), "{what}: {line}");
    assert!(!line.contains("hush"), "{what}: {line}");
}

/// What greets so, or not at all; and then waits.
fn something_else(greeting: &'static str, options: &Options) -> Options {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the first who asks.
    thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(greeting.as_bytes()).unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let limits = Limits { read: Duration::from_millis(300), ..options.limits };
    Options { host: "127.0.0.1".to_owned(), port: address.port(), limits, ..options.clone() }
}

#[test]
fn each_is_a_line_that_names_server_answer_and_key() {
    let certificate = file("localhost.cert.pem");
    let tls =
        format!("--ssl-cert={} --ssl-key={}", certificate.display(), file("localhost.key.pem").display());
    let engines = Engines::private(&["mariadb"], &[("DOORBUSTER_MARIADB_OPTIONS", &tls)]);
    let database = Database::on(&engines);
    let name = database.options.database.clone();
    let mut admin = database.connection();
    admin.query_drop("CREATE USER shop IDENTIFIED BY 'hush'").unwrap();
    let shop = Options {
        user: "shop".to_owned(),
        password: Some(SecretBytes::from(&b"hush"[..])),
        ..database.options.clone()
    };
    check("no right", &shop, &["Access denied", "that user may not use ledger.mysql_database"]);
    admin.query_drop(format!("GRANT ALL ON {name}.* TO shop")).unwrap();
    let verified = |authorities: &str| Tls::Verified { authorities: Some(file(authorities)) };
    let elsewhere = Database::shared().options.clone();
    let cases: [(&str, Options, &[&str]); 5] = [
        (
            "another password",
            Options { password: Some(SecretBytes::from(&b"hushed"[..])), ..shop.clone() },
            &["Access denied", "check ledger.mysql_user, ledger.mysql_password_file"],
        ),
        (
            "no such database",
            Options { database: "nowhere".to_owned(), ..database.options.clone() },
            &["Unknown database", "check ledger.mysql_database"],
        ),
        (
            "another authority",
            Options { tls: verified("localhost-renewed.cert.pem"), ..shop.clone() },
            &["invalid peer certificate", "check ledger.mysql_ca_file"],
        ),
        (
            "no TLS there",
            Options { tls: verified("localhost.cert.pem"), ..elsewhere },
            &["ledger.mysql_tls = \"off\""],
        ),
        ("nobody is there", Options { port: 1, ..shop.clone() }, &["check ledger.mysql_address"]),
    ];
    for (what, options, held) in cases {
        check(what, &options, held);
    }
    for (what, greeting) in [("HTTP or Redis", ""), ("SSH", "SSH-2.0-OpenSSH_9.6\r\n"), ("Redis", "-ERR\r\n")]
    {
        let address = ["check ledger.mysql_address: MySQL or MariaDB must be there"];
        check(what, &something_else(greeting, &shop), &address);
    }
    let right = Options { tls: verified("localhost.cert.pem"), ..shop.clone() };
    let mut ledger = SharedLedger::open(&right).unwrap();
    admin.query_drop("SET GLOBAL require_secure_transport = ON").unwrap();
    check("TLS alone", &shop, &["ledger.mysql_tls"]);

    // Of a server that serves: its next connection is refused.
    let mut next = ledger.another();
    admin.query_drop("ALTER USER shop IDENTIFIED BY 'changed'").unwrap();
    assert!(ledger.settings().is_ok(), "the connection that there is goes on");
    let error = next.settings().unwrap_err().to_string();
    assert!(error.contains("Access denied") && error.contains("ledger.mysql_password_file"), "{error}");
}
