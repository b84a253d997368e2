use std::path::PathBuf;

use super::*;
use crate::clock;

/// Loads a file's text and variables, as the binary would.
fn load(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("doorbuster.toml");
    std::fs::write(&path, text).unwrap();
    let environment = Environment::from_pairs(variables.iter().copied());
    let place = format!("{}/", directory.path().display());
    Sources::default()
        .file(&path)
        .environment(&environment)
        .load()
        .map_err(|errors| ConfigErrors(errors.0.iter().map(|error| error.replace(&place, "")).collect()))
}

#[track_caller]
fn check_errors(text: &str, variables: &[(&str, &str)], expected: &[&str]) {
    let errors = load(text, variables).expect_err("the configuration is wrong");
    assert_eq!(errors.0, expected);
}

#[test]
fn the_defaults_are_valid_and_the_file_as_it_stands_changes_nothing() {
    assert_eq!(Config::default().check(), Ok(()));
    assert_eq!(load(DEFAULTS, &[]), Ok(Config::default()));
    assert_eq!(load("", &[]), Ok(Config::default()));
    assert_eq!(Config::default().http.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(Config::default().http.tls_files(), None);
    let limits = Config::default().admission.limits(1);
    assert_eq!((limits.orders_per_s, limits.in_flight_max, limits.in_flight_per_buyer_max), (0, 20_000, 8));
}

#[test]
fn every_key_is_documented_with_the_bounds_that_are_checked() {
    let config = Config::default();
    let bounds = config.bounds();
    let (mut section, mut comment, mut keys) = (String::new(), String::new(), 0);
    for line in DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
            comment.clear();
        } else if line.starts_with('#') {
            comment += line;
        } else if let Some((key, value)) = line.split_once(" = ") {
            keys += 1;
            let key = format!("{section}.{key}");
            assert!(!comment.is_empty() || key == "http.tls_key_file", "{key} has no comment");
            let stated = bounds.iter().find(|bound| bound.0 == key);
            let number = value.parse::<u64>().is_ok();
            assert_eq!(stated.is_some(), number, "{key}: numbers, and only they, have bounds");
            if let Some((_, _, range)) = stated {
                let text = format!("Bounds: {} to {}.", range.start(), range.end());
                assert!(comment.contains(&text), "{key}: its comment does not say {text:?}");
            }
            comment.clear();
        }
    }
    let sections: toml::Table = DEFAULTS.parse().unwrap();
    let parsed: usize = sections.values().map(|section| section.as_table().unwrap().len()).sum();
    assert_eq!(keys, parsed, "each key stands on a line of its own");
}

#[test]
fn typos_name_the_line_and_the_nearest_key() {
    for (text, expected) in [
        (
            "\n[admision]\norders_per_s = 5",
            r#"doorbuster.toml:3: unknown key "admision.orders_per_s"; did you mean "admission.orders_per_s"?"#,
        ),
        (
            "[http]\nlisten_ = 1",
            r#"doorbuster.toml:2: unknown key "http.listen_"; did you mean "http.listen"?"#,
        ),
        ("listen = '[::1]:80'", r#"doorbuster.toml:1: unknown key "listen"; did you mean "http.listen"?"#),
        (
            "[ledger]\npayment_s = 1",
            r#"doorbuster.toml:2: unknown key "ledger.payment_s"; did you mean "sale.payment_s"?"#,
        ),
        ("[x]\n", r#"doorbuster.toml:1: unknown key "x"; `doorbuster config` lists the keys"#),
        ("http = 3", "doorbuster.toml:1: http is a section: write [http] and its keys below it"),
        ("[[http]]\nlisten = 1", "doorbuster.toml:1: http is a section: write [http] and its keys below it"),
    ] {
        check_errors(text, &[], &[expected]);
    }
}

#[test]
fn wrong_values_name_the_line_and_the_default() {
    for (text, expected) in [
        (
            "[http]\nthreads = \"two\"",
            r#"doorbuster.toml:2: http.threads = "two": invalid type: string "two", expected usize; the default is 1"#,
        ),
        (
            "[http]\nlisten = \"localhost\"",
            "doorbuster.toml:2: http.listen = \"localhost\": invalid socket address; write an address with a port, like \
             127.0.0.1:8080, [::1]:8080 or localhost:8080; the default is \"127.0.0.1:8080\"",
        ),
        (
            "[ledger]\nsynchronous = \"ful\"",
            "doorbuster.toml:2: ledger.synchronous = \"ful\": unknown variant `ful`, expected one of `full`, \
             `normal`, `off`; the default is \"full\"",
        ),
        (
            "[http]\n\nthreads = 65",
            "doorbuster.toml:3: http.threads = 65 is out of bounds: set it from 1 to 64",
        ),
        (
            "[http]\ntls_key_file = 'key.pem'",
            "http.tls_certificate_file is empty but the other one is set: set both, or neither for plain HTTP",
        ),
        (
            "[http]\nallowed_origins = ['https://a.example/']",
            "doorbuster.toml:2: http.allowed_origins holds \"https://a.example/\": write it as a browser does, \
             like \"https://shop.example\"",
        ),
        (
            "[http]\npublic_names = ['https://a.example']",
            "doorbuster.toml:2: http.public_names holds \"https://a.example\": write a name alone, like \
             \"drops.shop.example\"",
        ),
        (
            "[http]\nlisten = '127.0.0.1:80'\noperator_listen = '127.0.0.1:80'",
            "doorbuster.toml:3: http.operator_listen is http.listen as well: give the operators another address or \
             port, or leave it empty",
        ),
        (
            "[http]\ntrusted_proxies = ['10.0.0.1/8']",
            "doorbuster.toml:2: http.trusted_proxies holds \"10.0.0.1/8\": is an address within a network: write \
             \"10.0.0.0/8\"",
        ),
        (
            "[auth]\nbuyer = 'demo_cookie'",
            "doorbuster.toml:2: auth.buyer = \"demo_cookie\" makes everybody a buyer: use it with `doorbuster \
             serve --demo`, or set \"token\" or \"member_id\"",
        ),
        (
            "[admission]\nburst = 4",
            "doorbuster.toml:2: admission.burst has no effect without a rate: set admission.orders_per_s, or \
             leave burst at 0",
        ),
    ] {
        check_errors(text, &[], &[expected]);
    }
}

#[test]
fn syntax_errors_name_the_line() {
    for (text, place) in [("[http]\nlisten", "doorbuster.toml:2:"), ("[log]\n[log]", "doorbuster.toml:2:")] {
        let errors = load(text, &[]).unwrap_err();
        assert_eq!(errors.0.len(), 1, "{errors}");
        assert!(errors.0[0].starts_with(&format!("{place} not valid TOML: ")), "{errors}");
        assert!(!errors.0[0].contains('\n'));
    }
}

#[test]
fn all_errors_come_out_at_once() {
    let text = "[http]\nlistn = 1\nthreads = -1\nhead_bytes_max = 1\n[log]\nlevel = 'loud'";
    let errors = load(text, &[("DOORBUSTER_HTTP_THREADS", "x")]).unwrap_err();
    assert_eq!(errors.0.len(), 5, "{errors}");
}

#[test]
fn keys_with_other_values_are_named() {
    let of = |threads: &str, origins: &str| {
        let variables = [("DOORBUSTER_HTTP_THREADS", threads), ("DOORBUSTER_HTTP_ALLOWED_ORIGINS", origins)];
        Sources::default().environment(&Environment::from_pairs(variables))
    };
    let one = of("1", "https://a.example");
    assert_eq!(of("1", "https://a.example").keys_unlike(&one), Vec::<String>::new());
    assert_eq!(of("2", "https://b.example").keys_unlike(&one), ["http.allowed_origins", "http.threads"]);
}

#[test]
fn a_missing_file_is_an_error() {
    let errors = Sources::default().file(&PathBuf::from("/nowhere/d.toml")).load().unwrap_err();
    assert_eq!(errors.to_string(), "/nowhere/d.toml: can't be read: No such file or directory (os error 2)");
}

#[test]
fn variables_stand_above_the_file_and_arguments_above_both() {
    let variables = [
        ("DOORBUSTER_HTTP_LISTEN", "127.0.0.1:2"),
        ("DOORBUSTER_HTTP_THREADS", " 3 "),
        ("DOORBUSTER_HTTP_ALLOWED_ORIGINS", "https://a.example, http://b.example:81"),
        ("DOORBUSTER_ADMISSION_ORDERS_PER_S", "55"),
        ("DOORBUSTER_PAGES_WRITE_DIR", "/srv/pages"),
        ("DOORBUSTER_HTTP_METRICS_TOKEN_REQUIRED", "true"),
        ("DOORBUSTER_OPERATOR_TOKEN", "no key of the configuration"),
        ("DOORBUSTER_SERVER", "http://127.0.0.1:1"),
        ("DOORBUSTER_DEV_PORT_BASE", "18000"),
    ];
    let config = load("[http]\nlisten = '127.0.0.1:1'\nconnections_max = 9", &variables).unwrap();
    assert_eq!(config.http.listen.port(), 2);
    assert_eq!((config.http.threads, config.http.connections_max), (3, 9));
    assert!(config.http.metrics_token_required);
    assert_eq!(config.http.allowed_origins, ["https://a.example", "http://b.example:81"]);
    assert_eq!((config.admission.limits(1).orders_per_s, config.admission.limits(1).burst), (55, 20));
    assert_eq!(config.pages.write_dir, Some(PathBuf::from("/srv/pages")));
    let config = Sources::default()
        .environment(&Environment::from_pairs(variables))
        .argument("http.listen", "127.0.0.1:3", "--listen")
        .load()
        .unwrap();
    assert_eq!(config.http.listen.port(), 3);
}

#[test]
fn a_ledger_on_mysql_needs_an_address_a_user_and_a_database() {
    let mysql = "[ledger]\nbackend = \"mysql\"\n";
    check_errors(
        &format!("{mysql}mysql_address = \"db\"\nmysql_user = \"\"\nmysql_database = \"\"\n"),
        &[],
        &[
            "doorbuster.toml:3: ledger.mysql_address = \"db\" is no address: write it as host:port",
            "doorbuster.toml:4: ledger.mysql_user is empty: name it, the ledger is on a MySQL server",
            "doorbuster.toml:5: ledger.mysql_database is empty: name it, the ledger is on a MySQL server",
        ],
    );
    check_errors(
        "[ledger]\nmysql_ca_file = \"ca.pem\"\n",
        &[],
        &["doorbuster.toml:2: ledger.mysql_ca_file has no effect without TLS: set ledger.mysql_tls = \
           \"verified\", or leave it empty"],
    );
    let variables = [("DOORBUSTER_LEDGER_MYSQL_ADDRESS", "[::1]:3307")];
    let config = load(mysql, &variables).unwrap();
    let environment = Environment::from_pairs([("DOORBUSTER_MYSQL_PASSWORD", "hush")]);
    let secrets = Secrets::load_for_ledger(&config, &environment).unwrap();
    let options = config.ledger.mysql_options(&secrets);
    assert_eq!(options.to_string(), "mysql://doorbuster@[::1]:3307/doorbuster");
    assert_eq!(options.password.unwrap().as_bytes(), b"hush");
}

#[test]
fn what_is_for_sentinels_has_an_effect_with_them_alone() {
    check_errors(
        "[gate]\nsentinel_user = \"shop\"\naddresses = [\"a:1\", \"b:1\"]\n",
        &[],
        &[
            "doorbuster.toml:3: gate.addresses has more than one address: set gate.mode = \"cluster\" or \"sentinel\", \
             or name one",
            "doorbuster.toml:2: gate.sentinel_user has no effect without Sentinels: set gate.mode = \"sentinel\", or \
             leave it empty",
        ],
    );
    check_errors(
        "[gate]\nmode = \"sentinel\"\nsentinel_master = \"\"\n",
        &[],
        &[
            "doorbuster.toml:3: gate.sentinel_master is empty: give the name that the Sentinels have for the master",
        ],
    );
    let text = "[gate]\nmode = \"sentinel\"\naddresses = [\"a:1\", \"b:1\"]\nsentinel_user = \"shop\"\n";
    let config = load(text, &[]).unwrap();
    assert_eq!(config.gate.sentinel_master, "mymaster");
    let environment = Environment::from_pairs([("DOORBUSTER_GATE_SENTINEL_PASSWORD", "hush")]);
    let secrets = Secrets::load_for_ledger(&config, &environment).unwrap();
    assert_eq!(secrets.sentinel.unwrap().as_bytes(), b"hush");
}

#[test]
fn what_signs_requests_and_what_encrypts_them_must_be_whole() {
    check_errors(
        "[queue]\ntls_key_file = \"key.pem\"\n",
        &[],
        &[
            "doorbuster.toml:2: queue.tls_key_file has no effect without TLS: set queue.tls = true, or leave it empty",
            "queue.tls_certificate_file is empty but the other one is set: set both, or neither",
        ],
    );
    check_errors(
        "[queue]\ntls = true\n",
        &[],
        &[
            "queue.tls_authority_file is empty: with queue.tls = true, name the file of the authority that signed the \
           brokers' certificates",
        ],
    );
    let secret = [("DOORBUSTER_QUEUE_SECRET_KEY", "hush"), ("DOORBUSTER_QUEUE_SECURITY_TOKEN", "lapses")];
    let environment = Environment::from_pairs(secret);
    let half = load("", &secret).unwrap();
    let error = Secrets::load_for_ledger(&half, &environment).unwrap_err().to_string();
    assert!(error.starts_with("queue.access_key is empty, but queue.secret_key_file is set"), "{error}");
    let whole = load("[queue]\naccess_key = \"shop\"\n", &secret).unwrap();
    let error = Secrets::load_for_ledger(&whole, &Environment::default()).unwrap_err().to_string();
    assert!(error.contains("set queue.access_key, and queue.secret_key_file or DOORBUSTER_QUEUE"), "{error}");
    let secrets = Secrets::load_for_ledger(&whole, &environment).unwrap();
    assert_eq!(secrets.queue.unwrap().as_bytes(), b"hush");
    assert_eq!(secrets.queue_token.unwrap().as_bytes(), b"lapses");
}

#[test]
fn a_jumped_clock_is_asked_about_unless_the_system_is_trusted() {
    let checks = |text| load(text, &[]).unwrap().clock.checks(false);
    let usual = checks("");
    assert_eq!((usual.jump_ms_max, usual.trust, usual.demo), (600_000, clock::Trust::Ask, false));
    let trusting = checks("[clock]\njump_max_s = 120\ntrust = \"system\"\n");
    assert_eq!((trusting.jump_ms_max, trusting.trust), (120_000, clock::Trust::System));
    assert!(Config::default().clock.checks(true).demo);
}

#[test]
fn servers_share_the_rate_and_a_default_burst_is_a_tenth_of_a_second_or_20_or_a_second() {
    let text = "[admission]\norders_per_s = 1001\nmeasured_peak_per_s = 18000\nmeasured_on = '2026-11-20'\n";
    let config = load(text, &[]).unwrap();
    let limits = [1, 2, 10, 143].map(|servers| config.admission.limits(servers));
    assert_eq!(limits.map(|of| (of.orders_per_s, of.burst)), [(1001, 100), (501, 50), (101, 20), (7, 7)]);
    assert_eq!(config.admission.measured_peak(), Some((18_000, "2026-11-20")));
    assert!(load(&format!("[admission]\nmeasured_on = '{:33}'\n", "long"), &[]).is_err());
    assert_eq!(Config::default().admission.limits(3).orders_per_s, 0);
}

#[test]
fn event_loops_share_the_connections() {
    let config = load("[http]\nthreads = 3\nconnections_max = 100\ndrain_timeout_ms = 0", &[]).unwrap();
    let limits = config.http.limits();
    assert_eq!((limits.connections_max, limits.drain, limits.head_bytes_max), (34, Duration::ZERO, 8192));
}

#[test]
fn wrong_variables_are_errors() {
    for (name, value, expected) in [
        (
            "DOORBUSTER_HTTP_LISTN",
            "x",
            "DOORBUSTER_HTTP_LISTN: unknown variable; did you mean \"DOORBUSTER_HTTP_LISTEN\"?",
        ),
        (
            "DOORBUSTER_OPERATORTOKEN",
            "x",
            "DOORBUSTER_OPERATORTOKEN: unknown variable; did you mean \"DOORBUSTER_OPERATOR_TOKEN\"?",
        ),
        ("DOORBUSTER_HTTP_THREADS", "x", "DOORBUSTER_HTTP_THREADS: \"x\" is not a whole number"),
        ("DOORBUSTER_HTTP_MESSAGE_ROUTE", "on", "DOORBUSTER_HTTP_MESSAGE_ROUTE: \"on\" is not true or false"),
        (
            "DOORBUSTER_HTTP_THREADS",
            "0",
            "DOORBUSTER_HTTP_THREADS: http.threads = 0 is out of bounds: set it from 1 to 64",
        ),
    ] {
        check_errors("", &[(name, value)], &[expected]);
    }
}

#[test]
fn a_demo_listens_on_loopback_unless_configured_otherwise() {
    let demo = Demo { starts_in: Duration::ZERO, public: false };
    let listen = |address: &str, demo| {
        let config = Sources::default().argument("http.listen", address, "--listen").demo(demo).load();
        config
            .map(|config| {
                assert!(config.http.message_route && !Config::default().http.message_route);
                config.auth.buyer
            })
            .map_err(|errors| errors.0)
    };
    assert_eq!(listen("127.0.0.1:80", demo), Ok(BuyerAuth::DemoCookie));
    assert_eq!(listen("[::1]:80", demo), Ok(BuyerAuth::DemoCookie));
    let errors = listen("0.0.0.0:80", demo).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("--listen: http.listen = 0.0.0.0:80 is reached by other machines"));
    assert_eq!(listen("0.0.0.0:80", Demo { public: true, ..demo }), Ok(BuyerAuth::DemoCookie));
}

#[test]
fn a_shop_can_be_described() {
    let text = r##"
        [shop]
        name = "Ada's"
        accent = "#0b57d0"
        sign_in_url = "https://shop.example/login?back={return}"
        pay_url = "http://127.0.0.1:9/pay?o={order}&a={amount}&c={currency}&b={return}&s={signature}"
        return_url = "https://drops.example/orders/{order}"
        legal_links = ["Imprint = https://shop.example/imprint", "Terms=https://shop.example/terms?a=b"]
    "##;
    let shop = load(text, &[]).unwrap().shop;
    let links: Vec<_> = shop.legal_links().collect();
    assert_eq!(
        links,
        [("Imprint", "https://shop.example/imprint"), ("Terms", "https://shop.example/terms?a=b")]
    );
    assert!(shop.accent().is_some());
    let error = Secrets::load(
        &load(&format!("[auth]\nbuyer = \"member_id\"\n{text}"), &[]).unwrap(),
        &Environment::from_pairs([]),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("shop.pay_url is set, but there is no secret to sign it with"), "{error}");
}

#[test]
fn a_shop_that_would_mislead_its_buyers_is_refused() {
    let places = "{order}{amount}{currency}{signature}";
    for (line, expected) in [
        ("name = \"\"", "shop.name must have 1 to 40 characters, in one line"),
        ("languages = []", "shop.languages must name 1 to 16 languages, each once"),
        ("languages = [\"de\", \"de\"]", "shop.languages must name 1 to 16 languages, each once"),
        (
            "languages = [\"../en\"]",
            "shop.languages holds \"../en\": write a language's code in small letters, like \"de\" or \"pt-br\"",
        ),
        ("accent = \"red\"", "shop.accent = \"red\" is no colour: write it like \"#c22f18\""),
        ("accent_dark = \"#ffffff\"", "shop.accent_dark is set without shop.accent: set both"),
        (
            "accent = \"#ffcc00\"",
            "shop.accent has a contrast of 1.40 to the pages' ground #faf6f0, and text needs 4.5 (WCAG 2.2 AA): take a \
             darker one, for example #896e00",
        ),
        (
            "sign_in_url = \"http://shop.example/\"",
            "shop.sign_in_url = \"http://shop.example/\" must begin with https://; without TLS an address is on this \
             machine alone (http://127.0.0.1, http://[::1], http://localhost)",
        ),
        (
            "sign_in_url = \"https://shop.example/{order}\"",
            "shop.sign_in_url = \"https://shop.example/{order}\" names a place that there is not: there are {return}",
        ),
        (
            &format!("pay_url = \"https://shop.example/{places}{{return}}\""),
            "shop.return_url is empty, but shop.pay_url names {return}: set it, like \
             \"https://drops.shop.example/orders/{order}\"",
        ),
        (
            "pay_url = \"https://shop.example/{order}{amount}{currency}\"",
            "shop.pay_url lacks {signature}: without it the payment page knows too little to be sure",
        ),
        (
            "return_url = \"https://shop.example/\"",
            "shop.return_url lacks {order}: buyers return to their order",
        ),
        (
            "legal_links = [\"Imprint\"]",
            "shop.legal_links holds \"Imprint\": write a text of 1 to 40 characters and an address, like \
             \"Imprint=https://shop.example/imprint\"",
        ),
    ] {
        let origin = line.split(' ').next().unwrap();
        let errors = load(&format!("[shop]\n{line}\n"), &[]).expect_err(line);
        let errors: Vec<_> =
            errors.0.iter().map(|error| error.trim_start_matches("doorbuster.toml:2: ").to_owned()).collect();
        assert_eq!(errors, [expected], "{origin}");
    }
}

mod secrets {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const LONG: &str = "0123456789abcdef0123456789abcdef";

    fn check(text: &str, variables: &[(&str, &str)]) -> Result<Secrets, String> {
        let config = load(text, &[]).unwrap();
        let environment = Environment::from_pairs(variables.iter().copied());
        Secrets::load(&config, &environment).map_err(|errors| errors.to_string())
    }

    #[test]
    fn the_token_secret_is_needed_for_tokens_only() {
        let error = check("", &[]).unwrap_err();
        assert!(error.starts_with("auth.buyer = \"token\" needs the secret"), "{error}");
        let secrets = check("[auth]\nbuyer = 'member_id'", &[]).unwrap();
        assert!(secrets.token.is_none() && secrets.operator.is_none() && secrets.payment.is_none());
        let secrets = check("", &[("DOORBUSTER_AUTH_TOKEN_SECRET", LONG)]).unwrap();
        assert_eq!(secrets.token.unwrap().as_bytes(), LONG.as_bytes());
    }

    #[test]
    fn short_and_unreadable_secrets_are_errors_and_all_are_reported() {
        let variables =
            [("DOORBUSTER_AUTH_TOKEN_SECRET", &LONG[1..]), ("DOORBUSTER_OPERATOR_TOKEN", "short")];
        let error = check("[auth]\npayment_secret_file = '/nowhere/s'", &variables).unwrap_err();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 3, "{error}");
        assert!(lines[0].starts_with("DOORBUSTER_AUTH_TOKEN_SECRET holds 31 bytes and needs 32 at least"));
        assert!(lines[1].starts_with("DOORBUSTER_OPERATOR_TOKEN holds 5 bytes and needs 32 at least"));
        assert!(
            lines[2].starts_with("auth.payment_secret_file = \"/nowhere/s\" can't be read: No such file")
        );
    }

    #[test]
    fn what_repeats_itself_is_no_secret_and_a_password_is_another_servers() {
        for (secret, good) in [
            ("a".repeat(64).as_str(), false),
            (&"ab".repeat(32), false),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", false),
            ("password password password password", true),
            ("a3f1c09be7725d18a3f1c09be7725d18", true),
            ("q8Zt0v1mXr7Lk2Yw9Np4Bs6Dc3Hf5Jg0", true),
        ] {
            let variables = [("DOORBUSTER_AUTH_TOKEN_SECRET", LONG), ("DOORBUSTER_OPERATOR_TOKEN", secret)];
            let checked = check("", &variables);
            assert_eq!(checked.is_ok(), good, "{secret}");
            assert!(checked.is_ok() || checked.unwrap_err().contains("repeats itself"), "{secret}");
        }
        assert!(
            check("", &[("DOORBUSTER_AUTH_TOKEN_SECRET", LONG), ("DOORBUSTER_MYSQL_PASSWORD", "aaa")])
                .is_ok()
        );
    }

    #[test]
    fn a_file_may_end_with_a_line_end_and_the_environment_stands_above_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, format!("{LONG}\r\n")).unwrap();
        let text = format!("[auth]\ntoken_secret_file = {path:?}");
        assert_eq!(check(&text, &[]).unwrap().token.unwrap().as_bytes(), LONG.as_bytes());
        let other = LONG.to_uppercase();
        let secrets = check(&text, &[("DOORBUSTER_AUTH_TOKEN_SECRET", &other)]).unwrap();
        assert_eq!(secrets.token.unwrap().as_bytes(), other.as_bytes());
    }

    #[test]
    fn the_previous_secret_is_read_beside_the_current_one_and_never_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("previous");
        std::fs::write(&path, format!("{LONG}\n")).unwrap();
        let kinds = ["token_secret", "operator_token", "payment_secret"];
        let lines: String = kinds.iter().map(|kind| format!("{kind}_previous_file = {path:?}\n")).collect();
        let text = format!("[auth]\nbuyer = 'member_id'\n{lines}");
        let error = check(&text, &[]).unwrap_err();
        let alone = kinds.map(|kind| {
            format!("auth.{kind}_previous_file is set, but there is no secret after it: set auth.{kind}_file")
        });
        assert_eq!(error.lines().collect::<Vec<_>>(), alone);
        let current = LONG.to_uppercase();
        let variables = ["AUTH_TOKEN_SECRET", "OPERATOR_TOKEN", "PAYMENT_SECRET"]
            .map(|name| (format!("DOORBUSTER_{name}"), current.clone()));
        let variables = variables.each_ref().map(|(name, value)| (name.as_str(), value.as_str()));
        let secrets = check(&text, &variables).unwrap();
        for previous in [secrets.token_previous, secrets.operator_previous, secrets.payment_previous] {
            assert_eq!(previous.unwrap().as_bytes(), LONG.as_bytes());
        }
        std::fs::write(&path, "short").unwrap();
        assert_eq!(check(&text, &variables).unwrap_err().lines().count(), 3);
    }

    #[test]
    fn a_demo_makes_its_secrets_once_and_keeps_them() {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path().join("var/demo");
        let config = Sources::default()
            .argument("ledger.data_dir", data_dir.to_str().unwrap(), "--data-dir")
            .demo(Demo { starts_in: Duration::ZERO, public: false })
            .load()
            .unwrap();
        let first = Secrets::load(&config, &Environment::default()).unwrap();
        let second = Secrets::load(&config, &Environment::default()).unwrap();
        assert_eq!(first.token.as_ref().unwrap().as_bytes().len(), 43);
        assert_ne!(first.token, first.operator);
        assert_eq!((&first.token, &first.operator), (&second.token, &second.operator));
        assert_eq!(first.payment, second.payment);
        assert_eq!(std::fs::metadata(&data_dir).unwrap().permissions().mode() & 0o777, 0o700);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&data_dir).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            names.push(entry.file_name().into_string().unwrap());
        }
        names.sort();
        assert_eq!(names, ["operator-token", "payment-secret", "token-secret"]);
    }

    #[test]
    fn debug_shows_no_secret() {
        let variables = [("DOORBUSTER_AUTH_TOKEN_SECRET", LONG)];
        let shown = format!("{:?} {:?}", check("", &variables).unwrap(), Environment::from_pairs(variables));
        assert!(!shown.contains(LONG), "{shown}");
    }
}

#[test]
fn a_shop_has_languages_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let ours = include_str!("../../languages/en.ftl");
    let write =
        |code: &str, text: &str| std::fs::write(dir.path().join(format!("{code}.ftl")), text).unwrap();
    let load = |codes: &str| {
        let text = format!("[shop]\nlanguages = {codes}\nlanguages_dir = {:?}\n", dir.path());
        load(&text, &[]).unwrap().shop.load_languages()
    };
    write("nl", &ours.replace("sales = Sales", "sales = Verkopen"));
    let languages = load(r#"["nl", "de"]"#).unwrap();
    assert_eq!(languages.ids().map(|id| languages.code(id).to_owned()).collect::<Vec<_>>(), ["nl", "de"]);
    write("de", &ours.replace("total = Total\n", ""));
    let problems = load(r#"["nl", "de", "xx"]"#).unwrap_err().join("\n");
    for problem in ["the text total is missing", "no texts for \"xx\": there are en, de, zh, es, ar"] {
        assert!(problems.contains(problem), "{problems}");
    }
    write("big", &" ".repeat(300_000));
    assert!(load(r#"["big"]"#).unwrap_err()[0].contains("has more than 262144 bytes"));
}
