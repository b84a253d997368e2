//! Secrets, the private key of the certificate among them: from the environment or from a file that the configuration names, never from the configuration.
//!
//! A demo makes its own and keeps them in its data directory, so that it starts with no set-up and its buyers
//! survive a restart. Must not: print one.

use std::error::Error;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};

use super::{Auth, BuyerAuth, Config, ConfigErrors, Environment};
use crate::beacon::Beacon;
use crate::image_origins::ImageOrigins;
use crate::ledger::sqlite::make_data_dir;
use crate::net;
use crate::pages::{Image, Languages};
use crate::secret::{SecretBytes, read_or_make};
use crate::shop_keys::{KeySource, ShopKeys};
use crate::stripe::Account;
use crate::verifier::Service;
use crate::webhooks::Endpoint;

pub(super) const SECRET_VARIABLES: [&str; 11] = [
    TOKEN.variable,
    OPERATOR.variable,
    PAYMENT.variable,
    STRIPE.variable,
    STRIPE_WEBHOOK.variable,
    VERIFIER.variable,
    GATE.variable,
    SENTINEL.variable,
    MYSQL.variable,
    QUEUE.variable,
    QUEUE_TOKEN.variable,
];

/// Bytes of entropy in a generated secret.
const GENERATED_BYTES: usize = 32;

/// What the server signs and compares with.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// Signs buyers' tokens, and the demo's cookies. Always there with [`BuyerAuth::Token`] and in a demo.
    pub token: Option<SecretBytes>,
    /// The operator's bearer token; without one the operator's calls are off.
    pub operator: Option<SecretBytes>,
    /// Signs payment callbacks; without one they are refused.
    pub payment: Option<SecretBytes>,
    /// Those that the three above take the place of: both are taken, so that nobody is turned away while a secret changes.
    pub token_previous: Option<SecretBytes>,
    pub operator_previous: Option<SecretBytes>,
    pub payment_previous: Option<SecretBytes>,
    /// Redis' password; without one, none is sent.
    pub gate: Option<SecretBytes>,
    /// The Sentinels' password; without one, none is sent.
    pub sentinel: Option<SecretBytes>,
    /// The password at the ledger's server; without one, none is sent.
    pub mysql: Option<SecretBytes>,
    /// What requests to RocketMQ are signed with, and the token of credentials that lapse.
    pub queue: Option<SecretBytes>,
    pub queue_token: Option<SecretBytes>,
    /// The public keys of the shop, of a file and where others are fetched.
    pub shop_keys: Option<ShopKeys>,
    pub shop_key_source: Option<KeySource>,
    /// The shop's logo, which is no secret: a file like the others.
    pub logo: Option<Image>,
    pub image_origins: ImageOrigins,
    /// The texts of the pages; `None`: all that the program has.
    pub languages: Option<Languages>,
    /// Where the shop is notified of its orders, with what signs that.
    pub webhooks: Vec<Endpoint>,
    /// The account at Stripe, with its key.
    pub stripe: Option<Account>,
    /// What is asked about those who join lines, with what it knows us by.
    pub line_service: Option<Service>,
    /// Whose values the draws of lines wait for; no secret.
    pub beacon: Option<Beacon>,
    /// What Stripe signs its webhooks with, the newer one first while there are two.
    pub stripe_webhook: Vec<SecretBytes>,
    /// The certificate with its private key; without it, plain HTTP.
    pub tls: Option<net::Tls>,
}

/// Of a secret that is ours to choose.
const BYTES_MIN: usize = 32;
/// By how often each byte occurs: 32 hexadecimal digits have some 115 bits, 32 bytes in base64 some 200, and one letter
/// again and again none. Shows what was typed without thought, not what somebody else knows.
const BITS_MIN: f64 = 80.0;

/// Of a file's mode.
const READABLE_BY_ALL: u32 = 0o004;

/// How one secret is given.
struct Kind {
    key: &'static str,
    variable: &'static str,
    /// Ours to choose, or another server's password.
    ours: bool,
    /// Its file in a demo's data directory; `None`: a demo can't make it.
    demo_file: Option<&'static str>,
}

const TOKEN_PREVIOUS: &str = "auth.token_secret_previous_file";
const OPERATOR_PREVIOUS: &str = "auth.operator_token_previous_file";
const PAYMENT_PREVIOUS: &str = "auth.payment_secret_previous_file";

const TOKEN: Kind = Kind {
    key: "auth.token_secret_file",
    variable: "DOORBUSTER_AUTH_TOKEN_SECRET",
    ours: true,
    demo_file: Some("token-secret"),
};
const OPERATOR: Kind = Kind {
    key: "auth.operator_token_file",
    variable: "DOORBUSTER_OPERATOR_TOKEN",
    ours: true,
    demo_file: Some("operator-token"),
};
const PAYMENT: Kind = Kind {
    key: "auth.payment_secret_file",
    variable: "DOORBUSTER_PAYMENT_SECRET",
    ours: true,
    demo_file: Some("payment-secret"),
};
const STRIPE: Kind = Kind {
    key: "stripe.secret_key_file",
    variable: "DOORBUSTER_STRIPE_SECRET_KEY",
    ours: false,
    demo_file: None,
};
const STRIPE_WEBHOOK: Kind = Kind {
    key: "stripe.webhook_secret_file",
    variable: "DOORBUSTER_STRIPE_WEBHOOK_SECRET",
    ours: false,
    demo_file: None,
};
const VERIFIER: Kind = Kind {
    key: "line.http_secret_file",
    variable: "DOORBUSTER_LINE_HTTP_SECRET",
    ours: false,
    demo_file: None,
};
const STRIPE_WEBHOOK_PREVIOUS: &str = "stripe.webhook_secret_previous_file";
const MYSQL: Kind = Kind {
    key: "ledger.mysql_password_file",
    variable: "DOORBUSTER_MYSQL_PASSWORD",
    ours: false,
    demo_file: None,
};
const QUEUE: Kind = Kind {
    key: "queue.secret_key_file",
    variable: "DOORBUSTER_QUEUE_SECRET_KEY",
    ours: false,
    demo_file: None,
};
const QUEUE_TOKEN: Kind = Kind {
    key: "queue.security_token_file",
    variable: "DOORBUSTER_QUEUE_SECURITY_TOKEN",
    ours: false,
    demo_file: None,
};
const GATE: Kind =
    Kind { key: "gate.password_file", variable: "DOORBUSTER_GATE_PASSWORD", ours: false, demo_file: None };

const SENTINEL: Kind = Kind {
    key: "gate.sentinel_password_file",
    variable: "DOORBUSTER_GATE_SENTINEL_PASSWORD",
    ours: false,
    demo_file: None,
};

impl Secrets {
    /// Reads the secrets that a checked configuration needs. In a demo the missing ones are made, and kept in
    /// the data directory (which is made as well) readable by its owner alone.
    ///
    /// # Errors
    /// A secret that is missing, too short or can't be read; all of them. A wrong certificate comes alone, before
    /// a demo makes anything.
    pub fn load(config: &Config, environment: &Environment) -> Result<Self, ConfigErrors> {
        let tls = config.http.tls_files().map(|(chain, key)| net::Tls::load(chain, key)).transpose();
        let mut problems = Vec::new();
        let tls = tls.unwrap_or_else(|error| {
            let why = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            problems.push(format!("http.tls_certificate_file and http.tls_key_file: {error}{why}"));
            None
        });
        // A demo makes its secrets, which nothing is to be left of after a start that can't succeed.
        if config.demo.is_some() && !problems.is_empty() {
            return Err(ConfigErrors(problems));
        }
        let mut read = |kind: &Kind, file: Option<&Path>| {
            let demo = config.demo.and(kind.demo_file).map(|file| config.ledger.data_dir.join(file));
            kind.read(environment, file, demo).unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        let mut secrets = Self {
            token: read(&TOKEN, config.auth.token_secret_file.as_deref()),
            operator: read(&OPERATOR, config.auth.operator_token_file.as_deref()),
            payment: read(&PAYMENT, config.auth.payment_secret_file.as_deref()),
            tls,
            ..Self::default()
        };
        secrets.read_engines(config, environment, &mut problems);
        secrets.read_previous(&config.auth, &mut problems);
        secrets.read_shop_keys(&config.auth, &mut problems);
        secrets.read_shop(config, &mut problems);
        secrets.read_stripe(config, environment, &mut problems);
        secrets.read_line(config, environment, &mut problems);
        secrets.webhooks = config.webhooks.load(&mut problems);
        secrets.beacon = config.beacon.load(&mut problems);
        let is_given = TOKEN.is_given(environment, config.auth.token_secret_file.as_deref());
        if config.demo.is_none() && !is_given && config.auth.buyer == BuyerAuth::Token {
            problems.push(format!(
                "auth.buyer = \"token\" needs the secret that signs the buyers' tokens: set {} or {} (at least \
                 {} bytes); or try `doorbuster serve --demo`",
                TOKEN.key, TOKEN.variable, BYTES_MIN
            ));
        }
        if problems.is_empty() { Ok(secrets) } else { Err(ConfigErrors(problems)) }
    }

    /// Which of the files that a configuration names are secrets that everybody on this machine can read.
    pub fn exposed(config: &Config) -> Vec<String> {
        let (auth, gate, queue, stripe) = (&config.auth, &config.gate, &config.queue, &config.stripe);
        let files = [
            (TOKEN.key, &auth.token_secret_file),
            (TOKEN_PREVIOUS, &auth.token_secret_previous_file),
            (OPERATOR.key, &auth.operator_token_file),
            (OPERATOR_PREVIOUS, &auth.operator_token_previous_file),
            (PAYMENT.key, &auth.payment_secret_file),
            (PAYMENT_PREVIOUS, &auth.payment_secret_previous_file),
            (STRIPE.key, &stripe.secret_key_file),
            (STRIPE_WEBHOOK.key, &stripe.webhook_secret_file),
            (STRIPE_WEBHOOK_PREVIOUS, &stripe.webhook_secret_previous_file),
            (VERIFIER.key, &config.line.http_secret_file),
            (GATE.key, &gate.password_file),
            (SENTINEL.key, &gate.sentinel_password_file),
            (MYSQL.key, &config.ledger.mysql_password_file),
            ("ledger.signing_key_file", &config.ledger.signing_key_file),
            (QUEUE.key, &queue.secret_key_file),
            (QUEUE_TOKEN.key, &queue.security_token_file),
            ("gate.tls_key_file", &gate.tls_key_file),
            ("queue.tls_key_file", &queue.tls_key_file),
        ];
        let named = files.into_iter().filter_map(|(key, file)| Some((key, file.as_deref()?)));
        let of_webhooks =
            config.webhooks.secret_files().map(|path| ("secret_file of webhooks.endpoints", path));
        let tls_key = config.http.tls_files().map(|(_, key)| ("http.tls_key_file", key));
        named
            .chain(of_webhooks)
            .chain(tls_key)
            .filter(|(_, path)| Secrets::is_exposed(path))
            .map(|(key, path)| {
                let shown = path.display();
                format!(
                    "{key} = {path:?} is a secret that everybody on this machine can read: chmod 600 {shown}"
                )
            })
            .collect()
    }

    /// Whether everybody on this machine can read the file.
    pub fn is_exposed(path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|found| found.mode() & READABLE_BY_ALL != 0)
    }

    /// Makes one in a new file, readable by its owner alone; one that is there stays as it is.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn make(path: &Path) -> io::Result<()> {
        read_or_generate(path).map(drop)
    }

    fn read_previous(&mut self, auth: &Auth, problems: &mut Vec<String>) {
        for (kind, key, file, current, previous) in [
            (&TOKEN, TOKEN_PREVIOUS, &auth.token_secret_previous_file, &self.token, &mut self.token_previous),
            (
                &OPERATOR,
                OPERATOR_PREVIOUS,
                &auth.operator_token_previous_file,
                &self.operator,
                &mut self.operator_previous,
            ),
            (
                &PAYMENT,
                PAYMENT_PREVIOUS,
                &auth.payment_secret_previous_file,
                &self.payment,
                &mut self.payment_previous,
            ),
        ] {
            let Some(path) = file else { continue };
            if current.is_none() {
                problems.push(format!("{key} is set, but there is no secret after it: set {}", kind.key));
                continue;
            }
            match kind.read_file(key, path) {
                Ok(secret) => *previous = Some(secret),
                Err(problem) => problems.push(problem),
            }
        }
    }

    fn read_shop_keys(&mut self, auth: &Auth, problems: &mut Vec<String>) {
        if let Some(path) = &auth.shop_key_file {
            let keys = read("auth.shop_key_file", path).and_then(|bytes| {
                let keys = ShopKeys::read(&String::from_utf8_lossy(&bytes));
                keys.map_err(|error| format!("auth.shop_key_file = {path:?} {error}"))
            });
            keys.map(|keys| self.shop_keys = Some(keys)).unwrap_or_else(|problem| problems.push(problem));
        }
        if let Some(url) = &auth.shop_jwks_url {
            let path = &auth.shop_jwks_authority_file;
            let authorities = match url.starts_with("https://") {
                true => read("auth.shop_jwks_authority_file", path).map(Some),
                false => Ok(None),
            };
            let source = authorities.and_then(|authorities| {
                let source = KeySource::new(url, authorities.as_deref());
                source.map_err(|error| format!("auth.shop_jwks_authority_file = {path:?} {error}"))
            });
            source
                .map(|source| self.shop_key_source = Some(source))
                .unwrap_or_else(|problem| problems.push(problem));
        }
        let key = match (&auth.shop_key_file, &auth.shop_jwks_url) {
            (Some(_), _) => "auth.shop_key_file",
            (None, Some(_)) => "auth.shop_jwks_url",
            (None, None) => return,
        };
        if self.token.is_none() {
            problems.push(format!(
                "{key} is set, but there is no secret to sign sessions with: set {}",
                TOKEN.key
            ));
        }
    }

    fn read_stripe(&mut self, config: &Config, environment: &Environment, problems: &mut Vec<String>) {
        let stripe = &config.stripe;
        let mut read = |found: Result<Option<SecretBytes>, String>| {
            found.unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        let key = read(STRIPE.read(environment, stripe.secret_key_file.as_deref(), None));
        let webhook = read(STRIPE_WEBHOOK.read(environment, stripe.webhook_secret_file.as_deref(), None));
        let previous = stripe.webhook_secret_previous_file.as_ref().map(|path| {
            if webhook.is_none() {
                let missing = STRIPE_WEBHOOK.key;
                return Err(format!(
                    "{STRIPE_WEBHOOK_PREVIOUS} is set, but there is no secret after it: set {missing}"
                ));
            }
            STRIPE_WEBHOOK.read_file(STRIPE_WEBHOOK_PREVIOUS, path)
        });
        let previous = read(previous.transpose());
        self.stripe = stripe.load(config, key.as_ref(), webhook.as_ref(), problems);
        self.stripe_webhook = webhook.into_iter().chain(previous).collect();
    }

    fn read_line(&mut self, config: &Config, environment: &Environment, problems: &mut Vec<String>) {
        match VERIFIER.read(environment, config.line.http_secret_file.as_deref(), None) {
            Ok(secret) => self.line_service = config.line.load(secret.as_ref(), problems),
            Err(problem) => problems.push(problem),
        }
    }

    fn read_shop(&mut self, config: &Config, problems: &mut Vec<String>) {
        match config.shop.load_languages() {
            Ok(languages) => self.languages = Some(languages),
            Err(found) => problems.extend(found),
        }
        match config.shop.load_image_origins() {
            Ok(origins) => self.image_origins = origins,
            Err(problem) => problems.push(problem),
        }
        if let Some(path) = config.shop.logo_file() {
            let read = std::fs::read(path).map_err(|error| format!("can't be read: {error}"));
            let image = read.and_then(|bytes| Image::new(bytes).map_err(|error| error.to_string()));
            image
                .map(|image| self.logo = Some(image))
                .unwrap_or_else(|problem| problems.push(format!("shop.logo_file = {path:?} {problem}")));
        }
        if config.shop.pay_url.is_some() && self.payment.is_none() {
            problems.push(format!(
                "shop.pay_url is set, but there is no secret to sign it with: set {} or {}",
                PAYMENT.key, PAYMENT.variable
            ));
        }
    }

    /// Reads only the secret that signs the buyers' tokens.
    ///
    /// # Errors
    /// If there is none, or it can't be read.
    pub fn load_for_tokens(config: &Config, environment: &Environment) -> Result<SecretBytes, ConfigErrors> {
        let read = TOKEN.read(environment, config.auth.token_secret_file.as_deref(), None);
        let secret = read.and_then(|secret| {
            secret.ok_or_else(|| format!("there is no token secret: set {} or {}", TOKEN.key, TOKEN.variable))
        });
        secret.map_err(|problem| ConfigErrors(vec![problem]))
    }

    /// Reads only what opening the engines takes: for tools that read them beside a server.
    ///
    /// # Errors
    /// If the password's file can't be read.
    pub fn load_for_ledger(config: &Config, environment: &Environment) -> Result<Self, ConfigErrors> {
        let (mut secrets, mut problems) = (Self::default(), Vec::new());
        secrets.read_engines(config, environment, &mut problems);
        if problems.is_empty() { Ok(secrets) } else { Err(ConfigErrors(problems)) }
    }

    /// Those of the engines.
    fn read_engines(&mut self, config: &Config, environment: &Environment, problems: &mut Vec<String>) {
        let queue = &config.queue;
        for (kind, file, secret) in [
            (&GATE, &config.gate.password_file, &mut self.gate),
            (&SENTINEL, &config.gate.sentinel_password_file, &mut self.sentinel),
            (&MYSQL, &config.ledger.mysql_password_file, &mut self.mysql),
            (&QUEUE, &queue.secret_key_file, &mut self.queue),
            (&QUEUE_TOKEN, &queue.security_token_file, &mut self.queue_token),
        ] {
            match kind.read(environment, file.as_deref(), None) {
                Ok(read) => *secret = read,
                Err(problem) => problems.push(problem),
            }
        }
        let is_given = QUEUE.is_given(environment, queue.secret_key_file.as_deref());
        if is_given == queue.access_key.is_empty() {
            let (missing, given) = match queue.access_key.is_empty() {
                true => ("queue.access_key is empty", QUEUE.key),
                false => ("there is no secret key", "queue.access_key"),
            };
            problems.push(format!(
                "{missing}, but {given} is set: set queue.access_key, and {} or {}",
                QUEUE.key, QUEUE.variable
            ));
        }
    }
}

impl Kind {
    /// Rightly or not.
    fn is_given(&self, environment: &Environment, file: Option<&Path>) -> bool {
        file.is_some() || environment.get(self.variable).is_some()
    }

    fn read(
        &self,
        environment: &Environment,
        file: Option<&Path>,
        demo: Option<PathBuf>,
    ) -> Result<Option<SecretBytes>, String> {
        if let Some(text) = environment.get(self.variable) {
            return self.checked(text.as_bytes(), self.variable).map(Some);
        }
        if let Some(path) = file {
            return self.read_file(self.key, path).map(Some);
        }
        let Some(path) = demo else { return Ok(None) };
        let bytes = read_or_generate(&path)
            .map_err(|error| format!("{}: the demo's secret can't be kept there: {error}", path.display()))?;
        self.checked(without_line_end(&bytes), &path.display().to_string()).map(Some)
    }

    fn read_file(&self, key: &str, path: &Path) -> Result<SecretBytes, String> {
        let bytes = read(key, path)?;
        self.checked(without_line_end(&bytes), &format!("{key} = {path:?}"))
    }

    fn checked(&self, bytes: &[u8], origin: &str) -> Result<SecretBytes, String> {
        let make = "make one with `head -c 32 /dev/urandom | base64`";
        match (self.ours, bytes.len()) {
            (false, 0) => Err(format!("{origin} is empty")),
            (true, length) if length < BYTES_MIN => {
                Err(format!("{origin} holds {length} bytes and needs {BYTES_MIN} at least: {make}"))
            }
            (true, _) if bits(bytes) < BITS_MIN => {
                Err(format!("{origin} repeats itself too much to be a secret: {make}"))
            }
            _ => Ok(bytes.into()),
        }
    }
}

/// Bits that these bytes would have if each were drawn by itself, as often as it occurs here.
fn bits(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let length = bytes.len() as f64;
    let counted = counts.into_iter().filter(|count| *count > 0).map(f64::from);
    counted.map(|count| count * (length / count).log2()).sum()
}

/// A path that is not absolute begins where the program was started, which is not everybody's first thought.
fn read(key: &str, path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| {
        let folder = std::env::current_dir().ok().filter(|_| path.is_relative());
        let place = folder.map_or_else(String::new, |folder| format!(", looked for in {}", folder.display()));
        format!("{key} = {path:?} can't be read: {error}{place}")
    })
}

fn without_line_end(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

/// A secret of ours that is kept in a file.
fn read_or_generate(path: &Path) -> io::Result<Vec<u8>> {
    read_or_make(path, || {
        if let Some(directory) = path.parent() {
            make_data_dir(directory)?;
        }
        let mut entropy = [0; GENERATED_BYTES];
        let filled = SystemRandom::new().fill(&mut entropy);
        filled.map_err(|_unspecified| io::Error::other("the system gave no entropy"))?;
        Ok((URL_SAFE_NO_PAD.encode(entropy) + "\n").into_bytes())
    })
}
