//! A Doorbuster and a Vendure shop with the plugin, on ports that they keep when they are killed and started again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use rusqlite::OpenFlags;
use serde_json::Value;

use crate::between::Underway;
use crate::engines::free_ports;
use crate::exchange::{Connection, Response};
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome, succeeds};

pub(super) const PAYMENT_SECRET: &str = "payment-secret-of-the-program-tests-0123456789";
pub(super) const PASSWORD: &str = "password-of-the-customers";
const WEBHOOK_SECRET: [u8; 32] = *b"secret of the endpoint, 32 bytes";

/// One order on either side: what it came to, how it stands, what the shop has of the buyer's money, and where it goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BothSides {
    amount: i64,
    status: String,
    kept: i64,
    city: Option<String>,
}

/// What becomes of the shop's reports on their way to Doorbuster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reports {
    Pass,
    /// They arrive, and their answers do not.
    Unanswered,
    /// They do not arrive.
    Lost,
}

/// The files and the ports of both.
pub(super) struct Place {
    folder: tempfile::TempDir,
    build: PathBuf,
    shop_port: u16,
    server: SocketAddr,
    between: Between,
    /// While it is held, nobody else is given the ports of a side that was killed.
    _ports: File,
}

impl Place {
    pub(super) fn prepare() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        file("token-secret", "a token secret of the tests, 32 bytes or more\n");
        file("payment-secret", &format!("{PAYMENT_SECRET}\n"));
        file("webhook-secret", &format!("whsec_{}\n", STANDARD.encode(WEBHOOK_SECRET)));
        file("cookie-secret", "of the shop's cookies\n");
        file("admin-password", "of the shop's administrator\n");
        file("customer-password", &format!("{PASSWORD}\n"));
        let mut key = Command::new("openssl");
        key.args("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out shop-key.pem".split(' '));
        succeeds(key.current_dir(folder.path()));
        let mut public = Command::new("openssl");
        public.args("pkey -in shop-key.pem -pubout -out shop-public.pem".split(' '));
        succeeds(public.current_dir(folder.path()));
        let (ports, lock) = free_ports();
        let (shop_port, server) = (ports.start, SocketAddr::from(([127, 0, 0, 1], ports.start + 1)));
        file("doorbuster.toml", &configuration(shop_port, server));
        let between = Between::start(server);
        Place { folder, build: build(), shop_port, server, between, _ports: lock }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn serve(&self) -> Serving {
        let mut command = doorbuster(self.path());
        command.args(["serve", "--config", "doorbuster.toml", "--data-dir", "data"]);
        Serving::start(command)
    }

    /// The shop, once it can be used. It speaks to Doorbuster through [`Between`].
    pub(super) fn open_shop(&self) -> Shop {
        let mut command = Command::new(self.build.join("node"));
        command.arg(self.build.join("dist/shop/main.js")).arg(self.path()).arg(self.shop_port.to_string());
        command.arg(format!("http://{}", self.server)).arg(&self.between.url);
        command.current_dir(self.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let shop = Shop { child, address: SocketAddr::from(([127, 0, 0, 1], self.shop_port)) };
        let mut printed = Vec::new();
        loop {
            let Some(line) = lines.next() else { panic!("the shop has ended:\n{}", printed.join("\n")) };
            let line = line.unwrap();
            if line.contains("shop ready") {
                break;
            }
            printed.push(line);
        }
        // Whatever else it prints is shown, and read, so that it never waits for us.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("shop: {line}")));
        shop
    }

    /// The unit tests of the plugin.
    pub(super) fn test_parts(&self) {
        succeeds(
            Command::new(self.build.join("node")).args(["--test", "dist/test"]).current_dir(&self.build),
        );
    }

    pub(super) fn let_reports(&self, become_of_them: Reports) {
        *self.between.reports.lock().unwrap() = become_of_them;
    }

    /// Of the shop.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.shop_port)
    }

    /// The program, at the running server.
    pub(super) fn doorbuster(&self, arguments: &[&str]) -> String {
        std::fs::write(self.path().join("operator-token"), OPERATOR).unwrap();
        let mut command = doorbuster(self.path());
        command.args(arguments).args(["--server", &format!("http://{}", self.server)]);
        let (code, printed, errors) =
            outcome(command.args(["--token-file", "operator-token"]).output().unwrap());
        assert_eq!(code, 0, "{arguments:?}: {printed}{errors}");
        printed
    }

    pub(super) fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Value {
        let mut connection = Connection::open(self.server).unwrap();
        let response = connection.exchange(method, path, headers, body).unwrap();
        assert!([200, 201].contains(&response.status), "{method} {path}: {response:?}");
        response.json()
    }

    pub(super) fn operate(&self, method: &str, path: &str, body: &str) -> Value {
        self.call(method, path, &[("Authorization", &format!("Bearer {OPERATOR}"))], body)
    }

    /// Places an order of a customer as the sale's page would; its id.
    pub(super) fn place(&self, token: &str, key: &str, sale: u64, product: u64) -> String {
        let headers = [("Authorization", token), ("Idempotency-Key", key)];
        let body = format!(r#"{{"sale":{sale},"product":{product}}}"#);
        self.call("POST", "/api/v1/orders", &headers, &body)["id"].as_str().unwrap().to_owned()
    }

    /// What a customer of this id shows to Doorbuster.
    pub(super) fn token(&self, customer: u64) -> String {
        let mut command = doorbuster(self.path());
        command.args(["token", "mint", "--config", "doorbuster.toml", "--member", &customer.to_string()]);
        let (code, printed, errors) = outcome(command.output().unwrap());
        assert_eq!(code, 0, "{errors}");
        format!("Bearer {}", printed.trim())
    }

    /// Waits until both sides have the same orders, one by one, each made, paid and paid back once; those orders.
    pub(super) fn settled(&self) -> BTreeMap<String, BothSides> {
        let same = || self.sold() == self.made();
        let mut waited = 0;
        wait_until("both sides have the same orders", || {
            waited += 1;
            if waited % 1000 == 0 {
                eprintln!("Doorbuster: {:#?}\nthe shop: {:#?}", self.sold(), self.made());
            }
            same()
        });
        self.sold()
    }

    /// Events that the shop has answered well since Doorbuster started.
    pub(super) fn answered(&self) -> u64 {
        let mut connection = Connection::open(self.server).unwrap();
        let metrics = connection.exchange("GET", "/metrics", &[], "").unwrap().body;
        let counted = |line: &str| {
            let (_, count) = line.strip_prefix("doorbuster_webhook_events_answered")?.rsplit_once(' ')?;
            count.parse().ok()
        };
        metrics.lines().find_map(counted).unwrap_or_else(|| panic!("{metrics}"))
    }

    fn sold(&self) -> BTreeMap<String, BothSides> {
        let feed = self.operate("GET", "/api/v1/orders?since=0", "");
        assert_eq!(feed["more"], false);
        let standing = |order: &Value| {
            let text = |name: &str| order[name].as_str().unwrap().to_owned();
            let (amount, status) = (order["amount"].as_i64().unwrap(), text("status"));
            let paid = if ["paid", "refunded"].contains(&status.as_str()) { amount } else { 0 };
            let kept = paid - order["refunded"].as_i64().unwrap();
            let city = order["address"]["city"].as_str().map(str::to_owned);
            (text("id"), BothSides { amount, status, kept, city })
        };
        // A change that comes later is the newer one.
        feed["orders"].as_array().unwrap().iter().map(standing).collect()
    }

    /// The same from Vendure's own tables: its order's state, its payments, its refunds, its address.
    fn made(&self) -> BTreeMap<String, BothSides> {
        let database = self.database();
        let mut query = database
            .prepare(
                "SELECT d.doorbusterId, d.amount, d.status, o.state,
                     (SELECT coalesce(sum(amount), 0) FROM payment WHERE orderId = o.id AND state = 'Settled'),
                     (SELECT coalesce(sum(r.total), 0) FROM refund r JOIN payment p ON p.id = r.paymentId
                         WHERE p.orderId = o.id AND r.state = 'Settled'),
                     o.shippingAddress ->> 'city'
                 FROM doorbuster_order d JOIN \"order\" o ON o.code = d.orderCode",
            )
            .unwrap();
        let rows = query.query_map([], |row| {
            let (noted, state): (String, String) = (row.get(2)?, row.get(3)?);
            let status = match (state.as_str(), noted.as_str()) {
                ("Draft", "held") | ("PaymentSettled", "paid") => noted,
                ("Cancelled", "cancelled" | "expired" | "refunded") => noted,
                _ => format!("{noted}, but {state}"),
            };
            let (paid, refunded): (i64, i64) = (row.get(4)?, row.get(5)?);
            let standing =
                BothSides { amount: row.get(1)?, status, kept: paid - refunded, city: row.get(6)? };
            Ok((row.get(0)?, standing))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// Orders that Vendure has of Doorbuster's, payments and refunds, whether or not anything names them.
    pub(super) fn counts(&self) -> [i64; 3] {
        let count = |query: &str| self.database().query_row(query, [], |row| row.get(0)).unwrap();
        [
            count(
                "SELECT count(DISTINCT orderId) FROM order_line WHERE customFieldsDoorbusterunitprice IS NOT NULL",
            ),
            count("SELECT count(*) FROM payment"),
            count("SELECT count(*) FROM refund"),
        ]
    }

    /// Reports that Doorbuster has not answered yet.
    pub(super) fn unanswered(&self) -> i64 {
        let query = "SELECT count(*) FROM doorbuster_report WHERE answer = ''";
        self.database().query_row(query, [], |row| row.get(0)).unwrap()
    }

    /// The number of the last event that the shop has heard of the order.
    pub(super) fn heard(&self, order: &str) -> i64 {
        let query = "SELECT sequence FROM doorbuster_order WHERE doorbusterId = ?1";
        self.database().query_row(query, [order], |row| row.get(0)).unwrap()
    }

    /// Where the shop's order goes.
    pub(super) fn city(&self, order: &str) -> Option<String> {
        self.made().remove(order).expect("the shop has the order").city
    }

    /// Gives the variant its numbers, as an administrator does.
    pub(super) fn give_numbers(&self, sku: &str, (sale, product): (u64, u64)) {
        self.write(
            "UPDATE product_variant SET customFieldsDoorbustersale = ?1, customFieldsDoorbusterproduct = ?2
             WHERE sku = ?3",
            [&sale.to_string(), &product.to_string(), sku],
        );
    }

    /// Gives the shop's order an address, as an administrator does.
    pub(super) fn write_city(&self, order: &str, city: &str) {
        self.write(
            "UPDATE \"order\" SET shippingAddress = json_object('city', ?1)
             WHERE code = (SELECT orderCode FROM doorbuster_order WHERE doorbusterId = ?2)",
            [city, order],
        );
    }

    fn write<const N: usize>(&self, change: &str, values: [&str; N]) {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let database = rusqlite::Connection::open_with_flags(self.path().join("shop.sqlite"), flags).unwrap();
        assert_eq!(database.execute(change, rusqlite::params_from_iter(values)).unwrap(), 1);
    }

    fn database(&self) -> rusqlite::Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        rusqlite::Connection::open_with_flags(self.path().join("shop.sqlite"), flags).unwrap()
    }
}

/// A running shop.
pub(super) struct Shop {
    child: Child,
    address: SocketAddr,
}

impl Shop {
    /// SIGKILL.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; it ends by itself.
    pub(super) fn stop(mut self) {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
        self.child.wait().unwrap();
    }

    /// An event as Doorbuster would send it, if it is `signed`.
    pub(super) fn send_event(&self, signed: bool, body: &str) -> Response {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs().to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &WEBHOOK_SECRET);
        let tag = hmac::sign(&key, format!("evt_0.{now}.{}", if signed { body } else { "" }).as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(tag));
        let headers = [
            ("webhook-id", "evt_0"),
            ("webhook-timestamp", now.as_str()),
            ("webhook-signature", signature.as_str()),
        ];
        let mut connection = Connection::open(self.address).unwrap();
        connection.exchange("POST", "/doorbuster/hooks", &headers, body).unwrap()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        // After a failed test; a shop that was ended is gone already, and that is no error.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Stands between the shop and Doorbuster, and loses answers.
struct Between {
    url: String,
    reports: Arc<Mutex<Reports>>,
}

impl Between {
    fn start(server: SocketAddr) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let reports = Arc::new(Mutex::new(Reports::Pass));
        let shared = Arc::clone(&reports);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let reports = Arc::clone(&shared);
                // A side that has left is no failure of this one's.
                std::thread::spawn(move || drop(forward(client.unwrap(), server, &reports)));
            }
        });
        Between { url, reports }
    }
}

/// One request on a connection of its own.
fn forward(mut client: TcpStream, server: SocketAddr, reports: &Mutex<Reports>) -> std::io::Result<()> {
    let request = Underway::take(&client)?;
    let head = &request.head;
    let way =
        if head.starts_with("POST /api/v1/payments") { *reports.lock().unwrap() } else { Reports::Pass };
    if way == Reports::Lost {
        return Ok(());
    }
    let answer = request.pass_on(server)?;
    if way == Reports::Pass { client.write_all(&answer) } else { Ok(()) }
}

/// Where the plugin and its shop are built.
fn build() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/install-vendure");
    PathBuf::from(succeeds(&mut Command::new(script)).trim())
}

fn configuration(shop_port: u16, server: SocketAddr) -> String {
    format!(
        r#"[http]
listen = "{server}"
[auth]
token_secret_file = "token-secret"
payment_secret_file = "payment-secret"
shop_key_file = "shop-public.pem"
shop_origins = ["http://127.0.0.1:{shop_port}"]
[shop]
address = "after"
sign_in_url = "http://127.0.0.1:{shop_port}/?back={{return}}"
pay_url = "http://127.0.0.1:{shop_port}/doorbuster/pay?order={{order}}&amount={{amount}}&currency={{currency}}&back={{return}}&sig={{signature}}"
return_url = "http://{server}/orders/{{order}}"
[[webhooks.endpoints]]
name = "shop"
url = "http://127.0.0.1:{shop_port}/doorbuster/hooks"
secret_file = "webhook-secret"
events = ["order.*", "refund.due"]
allow_private = true
"#
    )
}
