//! The whole server in this process, as `doorbuster serve` runs it, with an operator's way in and its ledger
//! open to questions. When a test is done with it, it is stopped and its ledger audited.

use std::net::TcpListener;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ring::hmac;
use serde_json::{Value, json};
use server::config::{Config, Demo, Sources};
use server::ledger::sqlite::{audit, export};
use server::ledger::{AuditedSku, OrderLine};
use server::net::Stop;
use server::rehearsals::RehearseCommand;
use server::secret::SecretBytes;
use server::verifier::{Expected, Service};
use server::{Secrets, ServeError};

pub(crate) const TOKEN_SECRET: &[u8] = b"a secret of the tests, 32 bytes or more";
const PAYMENT_SECRET: &[u8] = b"what the payment provider signs with";
pub(crate) const OPERATOR: &str = "operator token of the tests";
/// A sale that the tests make; the demo has 1 and 3.
pub(crate) const SALE: u64 = 40;
pub(crate) const PRODUCT: u64 = 7;
pub(crate) const TITLE: &str = "Meridian watch";
/// In the place of the program: one buyer comes until he is stopped, others find what this says.
const REHEARSAL: &str = r#"
cat > /dev/null
echo "$2 buyers come" >&2
[ "$2" != 1 ] || { trap 'exit 1' TERM; while :; do sleep 0.05; done; }
echo '{"verdict": "Carries 9,000 orders/s at a p99 of 1.2 s, sold out after 1.40 s, audit clean; set admission to 7,200 orders/s.",
"answered": {"won": 100, "sold_out": 19900}, "units": 100, "left": 0, "sold_out_s": 1.4, "p50_us": 8000, "p99_us": 1200000,
"retries": 12, "gave_up": 0, "admitted_per_s": 0, "paying": {"due": 50, "paid": 50, "p99_us": 9, "came_back": 50, "sold_again": 50}}'
"#;
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A running server. Dropping it stops it and checks every invariant of its ledger.
pub(crate) struct Shop {
    pub(crate) base: String,
    data_dir: tempfile::TempDir,
    agent: ureq::Agent,
    config: Config,
    secrets: Secrets,
    stop: Stop,
    serving: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Shop {
    /// Every browser is a buyer, and a button pays.
    pub(crate) fn demo() -> Shop {
        Shop::start(Some(Demo { starts_in: Duration::ZERO, public: false }), None)
    }

    /// Buyers have tokens that are signed with [`TOKEN_SECRET`].
    pub(crate) fn with_tokens() -> Shop {
        Shop::start(None, None)
    }

    /// The same, and pages of this origin may order.
    pub(crate) fn for_pages_of(origin: &str) -> Shop {
        Shop::start(None, Some(&format!("[http]\nallowed_origins = [{origin:?}]\n")))
    }

    /// As the demo, and the page of an order asks where it goes.
    pub(crate) fn asking_after() -> Shop {
        let demo = Demo { starts_in: Duration::ZERO, public: false };
        Shop::start(Some(demo), Some("[shop]\naddress = \"after\"\n"))
    }

    /// As the demo, and whoever joins a line works something out first, which takes two to this power of hashes.
    pub(crate) fn asking_for_work(bits: u8) -> Shop {
        let demo = Demo { starts_in: Duration::ZERO, public: false };
        let asked = format!("[line]\nverifier = \"proof_of_work\"\nproof_of_work_bits = {bits}\n");
        Shop::start(Some(demo), Some(&asked))
    }

    /// As the demo, and whoever joins a line passes a check first, on a page there.
    pub(crate) fn checking(check: &str) -> Shop {
        let demo = Demo { starts_in: Duration::ZERO, public: false };
        let url = format!("{check}/siteverify");
        let asked = format!(
            "[line]\nverifier = \"http\"\nhttp_url = {url:?}\nhttp_allow_private = true\n\
             verification_url = \"{check}/check?back={{return}}\"\n"
        );
        let service =
            Service::new(&url, SecretBytes::from(TOKEN_SECRET), Expected::default(), (None, true)).unwrap();
        Shop::start_with(Some(demo), Some(&asked), Some(service))
    }

    fn start(demo: Option<Demo>, configured: Option<&str>) -> Shop {
        Shop::start_with(demo, configured, None)
    }

    fn start_with(demo: Option<Demo>, configured: Option<&str>, line_service: Option<Service>) -> Shop {
        let data_dir = tempfile::tempdir().unwrap();
        let data = data_dir.path().display().to_string();
        let mut sources = Sources::default().argument("ledger.data_dir", &data, "the test");
        if let Some(demo) = demo {
            sources = sources.demo(demo);
        }
        if let Some(configured) = configured {
            let file = data_dir.path().join("shop.toml");
            std::fs::write(&file, configured).unwrap();
            sources = sources.file(&file);
        }
        let mut config = sources.load().unwrap();
        let arguments = ["-c", REHEARSAL, "rehearse"].map(Into::into).into();
        config.rehearse =
            Some(RehearseCommand { program: "/bin/sh".into(), arguments, clean_up: Vec::new() });
        let secrets = Secrets {
            token: Some(SecretBytes::from(TOKEN_SECRET)),
            operator: Some(SecretBytes::from(OPERATOR.as_bytes())),
            payment: Some(SecretBytes::from(PAYMENT_SECRET)),
            line_service,
            ..Secrets::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build();
        let (stop, serving) = (Stop::new(), None);
        let mut shop = Shop { base, data_dir, agent: agent.into(), config, secrets, stop, serving };
        shop.serve(listener);
        shop
    }

    fn serve(&mut self, listener: TcpListener) {
        let (ready, is_ready) = sync_channel(1);
        self.stop = Stop::new();
        let (config, secrets, stop) = (self.config.clone(), self.secrets.clone(), self.stop.clone());
        self.serving = Some(std::thread::spawn(move || {
            server::run(config, secrets, listener, stop, |_| ready.send(()).expect("the test waits"))
        }));
        is_ready.recv_timeout(STARTS_WITHIN).expect("the server starts");
    }

    /// It is stopped, and is away for as long as this takes.
    pub(crate) fn stop_while(&mut self, away: impl FnOnce()) {
        self.stop.request();
        let served = self.serving.take().expect("it serves").join();
        served.expect("the server does not panic").expect("the server stops in good order");
        away();
        let address = self.base.strip_prefix("http://").expect("an address");
        self.serve(TcpListener::bind(address).expect("the port is free again"));
    }

    /// A sale of one product that is live for an hour, with such fields as the test changes.
    pub(crate) fn sell(&self, changes: &Value) {
        let now_ms = self.now_ms();
        let mut sale = json!({
            "id": SALE, "title": "Opening night", "currency": "EUR", "payment_s": 900,
            "starts_at_ms": now_ms - 1000, "ends_at_ms": now_ms + 3_600_000,
            "items": [{
                "product": PRODUCT, "title": TITLE, "description": "A dial as dark as midnight.",
                "price": 189_900, "list_price": 249_900, "total": 100, "limit": 1, "image": null, "line": null,
            }],
        });
        for (name, value) in changes.as_object().expect("changes are an object") {
            match sale["items"][0].get_mut(name) {
                Some(field) => *field = value.clone(),
                None => sale[name] = value.clone(),
            }
        }
        let authorization = format!("Bearer {OPERATOR}");
        self.post("sales", &[("Authorization", &authorization)], &sale);
    }

    pub(crate) fn change_sale(&self, changes: &Value) {
        let request = self.agent.patch(format!("{}/api/v1/sales/{SALE}", self.base));
        let answer =
            request.header("Authorization", format!("Bearer {OPERATOR}")).send_json(changes).unwrap();
        assert!(answer.status().is_success(), "{changes}: {}", answer.status());
    }

    /// An operator of this role, named after it; the token.
    pub(crate) fn add_operator(&self, role: &str) -> String {
        let authorization = format!("Bearer {OPERATOR}");
        let operator = json!({ "name": role, "role": role });
        let added = self.post("operators", &[("Authorization", &authorization)], &operator);
        added["token"].as_str().expect("it is shown once").to_owned()
    }

    /// Has the server keep an image; its name.
    pub(crate) fn keep_image(&self, content: &str) -> String {
        let request = self.agent.post(format!("{}/api/v1/images", self.base));
        let mut answer = request.header("Authorization", format!("Bearer {OPERATOR}")).send(content).unwrap();
        let kept: Value = answer.body_mut().read_json().unwrap();
        kept["name"].as_str().unwrap_or_else(|| panic!("{kept}")).to_owned()
    }

    /// Moves the start of a sale that has not started.
    pub(crate) fn start_at(&self, starts_at_ms: u64) {
        let request = self.agent.patch(format!("{}/api/v1/sales/{SALE}", self.base));
        let request = request.header("Authorization", format!("Bearer {OPERATOR}"));
        let answer = request.send_json(json!({ "starts_at_ms": starts_at_ms })).unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }

    /// `pause`, `resume` or `end`.
    pub(crate) fn steer(&self, verb: &str) {
        let authorization = format!("Bearer {OPERATOR}");
        self.post(&format!("sales/{SALE}/{verb}"), &[("Authorization", &authorization)], &json!({}));
    }

    pub(crate) fn restock(&self, units: u64) {
        let authorization = format!("Bearer {OPERATOR}");
        let headers = [("Authorization", authorization.as_str()), ("Idempotency-Key", "more")];
        self.post(&format!("sales/{SALE}/items/{PRODUCT}/restock"), &headers, &json!({ "units": units }));
    }

    /// Somebody without a browser orders one unit; the order's id.
    pub(crate) fn order_as(&self, member: &str) -> String {
        let order = json!({ "sale": SALE, "product": PRODUCT });
        let placed = self.post("orders", &[("memberId", member)], &order);
        placed["id"].as_str().expect("an order has an id").to_owned()
    }

    /// Somebody without a browser orders one unit, and is refused; the code.
    pub(crate) fn refused_as(&self, member: &str) -> String {
        let request = self.agent.post(format!("{}/api/v1/orders", self.base)).header("memberId", member);
        let mut answer = request.send_json(json!({ "sale": SALE, "product": PRODUCT })).unwrap();
        let refused: Value = answer.body_mut().read_json().unwrap();
        refused["code"].as_str().unwrap_or_else(|| panic!("{refused}")).to_owned()
    }

    /// Somebody without a browser joins the line (""), shows presence or leaves; their place.
    pub(crate) fn line_as(&self, member: &str, what: &str) -> Value {
        let path = format!("sales/{SALE}/items/{PRODUCT}/line{what}");
        self.post(&path, &[("memberId", member)], &Value::Null)
    }

    /// The places of those who have joined the line are drawn: whoever joins from now on stands behind them.
    pub(crate) fn wait_for_draw(&self) {
        let until = Instant::now() + STARTS_WITHIN;
        while self.get(&format!("sales/{SALE}/items/{PRODUCT}/line"))["drawn"].is_null() {
            assert!(Instant::now() < until, "nothing was drawn");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The order's buyer pays, as in a demo.
    pub(crate) fn pay_as(&self, member: &str, order: &str) {
        let paid = self.post(&format!("orders/{order}/pay"), &[("memberId", member)], &json!({}));
        assert_eq!(paid["status"], "paid");
    }

    /// The payment provider reports this payment.
    pub(crate) fn provider_says(&self, payment: &Value) {
        let (seconds, body) = (self.now_ms() / 1000, payment.to_string());
        let key = hmac::Key::new(hmac::HMAC_SHA256, PAYMENT_SECRET);
        let tag = hmac::sign(&key, format!("{seconds}.{body}").as_bytes());
        let tag: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let request = self.agent.post(format!("{}/api/v1/payments", self.base));
        let request = request.header("Doorbuster-Signature", format!("t={seconds},v1={tag}"));
        let answer = request.content_type("application/json").send(&body).unwrap();
        assert!(answer.status().is_success(), "{payment}: {}", answer.status());
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.get("time")["now_ms"].as_u64().expect("the time is a number")
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let mut answer = self.agent.get(format!("{}/api/v1/{path}", self.base)).call().unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.body_mut().read_json().unwrap()
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
        let mut request = self.agent.post(format!("{}/api/v1/{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = if body.is_null() { request.send_empty() } else { request.send_json(body) };
        let mut answer = answer.unwrap();
        let value: Value = answer.body_mut().read_json().unwrap();
        assert!(answer.status().is_success(), "{path}: {value}");
        value
    }

    /// What operators have done, the latest first: each entry as the API has it.
    pub(crate) fn operators_log(&self) -> Vec<Value> {
        let request = self.agent.get(format!("{}/api/v1/operators/log", self.base));
        let mut answer = request.header("Authorization", format!("Bearer {OPERATOR}")).call().unwrap();
        let log: Value = answer.body_mut().read_json().unwrap();
        log["log"].as_array().unwrap_or_else(|| panic!("{log}")).clone()
    }

    /// The same, by name.
    pub(crate) fn actions(&self) -> Vec<String> {
        let log = self.operators_log();
        log.iter().map(|action| action["what"].as_str().expect("it has a name").to_owned()).collect()
    }

    /// For its buyer, by the shop's support.
    pub(crate) fn cancel(&self, order: &str) {
        let authorization = format!("Bearer {OPERATOR}");
        self.post(&format!("orders/{order}/cancel"), &[("Authorization", &authorization)], &json!({}));
    }

    /// Every order in the ledger, in its status of now.
    pub(crate) fn orders(&self) -> Vec<OrderLine> {
        let mut orders = Vec::new();
        export(self.data_dir.path(), 0, &mut |order| orders.push(order)).unwrap();
        orders
    }

    /// The one order that there is.
    pub(crate) fn only_order(&self) -> OrderLine {
        let mut orders = self.orders();
        assert_eq!(orders.len(), 1, "{orders:?}");
        orders.remove(0)
    }

    /// Where the units of the tests' product are, by the whole ledger: available, held, sold.
    pub(crate) fn units(&self) -> (u64, u64, u64) {
        let AuditedSku { available, held, sold, .. } = self.audited();
        (available, held, sold)
    }

    fn audited(&self) -> AuditedSku {
        let audit = audit(self.data_dir.path()).unwrap();
        let mut skus = audit.skus.into_iter();
        skus.find(|sku| sku.sale.0 == SALE && sku.product.0 == PRODUCT).expect("the test made the sale")
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.stop.request();
        // It does not serve if a test fails while it is away.
        let served = self.serving.take().map(JoinHandle::join);
        if std::thread::panicking() {
            return;
        }
        let served = served.expect("it serves until this is dropped");
        served.expect("the server does not panic").expect("the server stops in good order");
        let broken = audit(self.data_dir.path()).expect("the ledger can be read").broken;
        assert!(broken.is_empty(), "{broken:?}");
    }
}
