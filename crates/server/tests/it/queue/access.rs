//! Brokers that take TLS and signed requests alone: what is right goes through, and what is wrong is one line that names who
//! answered what, and the key to change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use server::queue::{Admin, Consumer, Credentials, Options, Producer, Queue, Security, Tls, Unavailable};
use server::secret::SecretBytes;

use super::{asked, beginnings, create_topic, options, read, settings, survey};
use crate::engines::Engines;
use crate::sent::send;

/// Of the user that may do everything.
const USER: &str = "shop";
const SECRET: &str = "shop-secret";
/// The 5.x way. The broker signs what it asks of others itself.
const ACCESS_CONTROL: &str = "brokerFastFailureEnable=false osPageCacheBusyTimeOutMills=10000 authenticationEnabled=true \
    authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider \
    authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider \
    initAuthenticationUser={\"username\":\"shop\",\"password\":\"shop-secret\"} \
    innerClientAuthenticationCredentials={\"accessKey\":\"shop\",\"secretKey\":\"shop-secret\"}";

const OPTIONS_4: &str = "brokerFastFailureEnable=false osPageCacheBusyTimeOutMills=10000 aclEnable=true";
/// An administrator, and an account as docs/cluster.md describes it.
const ACCOUNTS_4: &str = r"
globalWhiteRemoteAddresses: []
accounts:
- accessKey: administrator
  secretKey: administrator-secret
  admin: true
- accessKey: doorbuster
  secretKey: doorbuster-secret
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [guarded-4=PUB|SUB]
  groupPerms: [doorbuster-test=SUB]
";

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn pem(name: &str) -> Vec<u8> {
    std::fs::read(file(name)).unwrap()
}

/// One name server and one broker, which want TLS, a certificate of ours and a signature.
fn guarded() -> &'static Engines {
    static GUARDED: OnceLock<Engines> = OnceLock::new();
    GUARDED.get_or_init(|| {
        let engines = Engines::private(&[], &[("DOORBUSTER_ROCKETMQ_OPTIONS", ACCESS_CONTROL)]);
        want_certificates(&engines);
        engines.up(&["rocketmq"]);
        engines
    })
}

/// The same of the last 4.x that a registry has.
fn guarded_4() -> &'static Engines {
    static GUARDED: OnceLock<Engines> = OnceLock::new();
    GUARDED.get_or_init(|| {
        let settings = [("DOORBUSTER_ROCKETMQ_VERSION", "4.9.7"), ("DOORBUSTER_ROCKETMQ_OPTIONS", OPTIONS_4)];
        let engines = Engines::private(&[], &settings);
        want_certificates(&engines);
        let conf = engines.dir().join("rocketmq-broker/home/conf");
        std::fs::create_dir_all(&conf).unwrap();
        std::fs::write(conf.join("plain_acl.yml"), ACCOUNTS_4).unwrap();
        engines.up(&["rocketmq"]);
        engines
    })
}

fn want_certificates(engines: &Engines) {
    let dir = engines.dir().join("certificates");
    std::fs::create_dir(&dir).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.join(name), bytes).unwrap();
    let (own, client) = (pem("localhost.cert.pem"), pem("localhost-renewed.cert.pem"));
    write("certificate.pem", &own);
    write("key.pem", &pem("localhost.key.pem"));
    write("clients.pem", &[own, client].concat());
    engines.set("DOORBUSTER_ROCKETMQ_TLS_DIR", dir.to_str().unwrap());
}

fn credentials(access_key: &str, secret: &str) -> Option<Arc<Credentials>> {
    let secret_key = SecretBytes::from(secret.as_bytes());
    Some(Arc::new(Credentials { access_key: access_key.into(), secret_key, security_token: None }))
}

fn tls(authority: &str, certificate: bool, name: &str) -> Option<Tls> {
    let ours = (pem("localhost-renewed.cert.pem"), pem("localhost-renewed.key.pem"));
    let ours = certificate.then_some((ours.0.as_slice(), ours.1.as_slice()));
    Some(Tls::new(&pem(authority), ours, name).unwrap())
}

fn on(engines: &Engines, credentials: Option<Arc<Credentials>>, tls: Option<Tls>) -> Options {
    Options { security: Security { credentials, tls }, ..options(engines) }
}

#[test]
fn what_is_signed_and_encrypted_goes_through_both_ways() {
    let engines = guarded();
    let right = on(engines, credentials(USER, SECRET), tls("localhost.cert.pem", true, ""));
    create_topic(&right, "guarded").unwrap();
    asked(&right, Admin::disk_used).unwrap();
    let shown = settings(&right);
    assert!(shown.ends_with("flushDiskType = SYNC_FLUSH, brokerRole = ASYNC_MASTER"), "{shown}");
    let (mut producer, mut consumer) = (Producer::new(right.clone()), Consumer::new(right, "guarded"));
    let wants = beginnings(&mut consumer);
    // Some that fill many records of TLS, and some that fill none.
    let large: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte; 4_000]).collect();
    send(&mut producer, "guarded", &large);
    send(&mut producer, "guarded", &[b"small"]);
    let bodies: Vec<_> = read(&mut consumer, &wants, large.len() + 1).into_values().flatten().collect();
    assert!(large.iter().all(|body| bodies.contains(body)) && bodies.contains(&b"small".to_vec()));
}

/// Name server and brokers, what is wrong, who is named, and what the line holds.
type Case<'a> = (&'a str, Option<Arc<Credentials>>, Option<Tls>, &'a str, &'a [&'a str]);

#[test]
fn each_wrong_credential_certificate_or_mode_is_a_line_that_names_the_key() {
    let engines = guarded();
    let right = || (credentials(USER, SECRET), tls("localhost.cert.pem", true, ""));
    let topic = "guarded-lines";
    create_topic(&on(engines, right().0, right().1), topic).unwrap();
    let (name_server, broker) = (engines.address("rocketmq-namesrv"), engines.address("rocketmq-broker"));
    let signed = || tls("localhost.cert.pem", true, "");
    let cases: [Case<'_>; 7] = [
        ("no TLS", right().0, None, &name_server, &["without an answer", "set queue.tls = true"]),
        (
            "another authority",
            right().0,
            tls("localhost-renewed.cert.pem", true, ""),
            &name_server,
            &["invalid peer certificate", "check queue.tls_authority_file"],
        ),
        (
            "another name",
            right().0,
            tls("localhost.cert.pem", true, "brokers.example"),
            &name_server,
            &["not valid for name", "set queue.tls_server_name"],
        ),
        (
            "no certificate",
            right().0,
            tls("localhost.cert.pem", false, ""),
            &name_server,
            &["queue.tls_certificate_file and queue.tls_key_file"],
        ),
        (
            "no signature",
            None,
            signed(),
            &broker,
            &["code 16", "set queue.access_key and queue.secret_key_file"],
        ),
        ("nobody", credentials("nobody", SECRET), signed(), &broker, &["code 16", "check queue.access_key"]),
        (
            "another secret",
            credentials(USER, "no"),
            signed(),
            &broker,
            &["code 16", "check queue.access_key"],
        ),
    ];
    for (what, credentials, tls, address, held) in cases {
        let wrong = on(engines, credentials, tls);
        let made = create_topic(&wrong, topic).unwrap_err();
        assert!(made.is_lasting(), "{what}: {made}");
        let mut producer = Producer::new(wrong);
        // The first look may only have begun to connect.
        let looked = loop {
            match producer.look(topic).unwrap_err() {
                Unavailable::Refused(why) => break why,
                Unavailable::Unreachable(_) => {}
                Unavailable::NoTopic(topic) => panic!("{what}: {topic} is there"),
            }
        };
        for line in [made.to_string(), looked] {
            assert!(line.contains(address) && !line.contains('\n'), "{what}: {line}");
            assert!(held.iter().all(|text| line.contains(text)), "{what}: {line}");
        }
    }
}

/// Requests that 5.x has and 4.x has not are answered by others.
#[test]
fn a_broker_of_4_x_with_access_control_is_read_and_written_by_an_account_of_the_documents() {
    let engines = guarded_4();
    let encrypted = || tls("localhost.cert.pem", true, "");
    let ours = on(engines, credentials("doorbuster", "doorbuster-secret"), encrypted());
    let topic = "guarded-4";
    let refused = create_topic(&ours, topic).unwrap_err();
    assert!(refused.is_lasting(), "{refused}");
    let line = refused.to_string();
    let held = ["does not let us make topic guarded-4", "admin permission", "check queue.access_key"];
    assert!(held.iter().all(|text| line.contains(text)) && !line.contains('\n'), "{line}");
    let wrong = on(engines, credentials("doorbuster", "another-secret"), encrypted());
    let line = create_topic(&wrong, topic).unwrap_err().to_string();
    assert!(line.contains("Check signature failed") && line.contains("check queue.access_key"), "{line}");

    let administrator = on(engines, credentials("administrator", "administrator-secret"), encrypted());
    create_topic(&administrator, topic).unwrap();
    create_topic(&administrator, "deleted-4").unwrap();
    let line = Admin::new(ours.clone()).delete_topics(&["deleted-4"]).unwrap_err().to_string();
    assert!(
        line.contains("does not let us delete topic deleted-4") && line.contains("check queue.access_key"),
        "{line}"
    );
    asked(&administrator, |admin| admin.delete_topics(&["deleted-4"])).unwrap();
    let found = Consumer::new(ours.clone(), "deleted-4").queues().unwrap_err().to_string();
    assert!(
        found.contains("know no broker now that has the topic deleted-4: its brokers are down"),
        "{found}"
    );
    // Now they are there.
    create_topic(&ours, topic).unwrap();
    let (mut producer, mut consumer) = (Producer::new(ours.clone()), Consumer::new(ours.clone(), topic));
    let wants = beginnings(&mut consumer);
    let bodies: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte; 400]).collect();
    send(&mut producer, topic, &bodies);
    let came: Vec<_> = read(&mut consumer, &wants, bodies.len()).into_values().flatten().collect();
    assert!(bodies.iter().all(|body| came.contains(body)));

    asked(&ours, Admin::disk_used).unwrap();
    let shown = settings(&ours);
    assert!(shown.ends_with("flushDiskType = SYNC_FLUSH, brokerRole = ASYNC_MASTER"), "{shown}");
    let gone = Queue { broker: "broker-a".into(), number: 8 };
    let queues = survey(&ours, topic, &gone);
    assert_eq!((queues.read, queues.write, queues.messages.len()), (8, 8, 9));
    assert_eq!(queues.messages.values().map(|held| held.end - held.start).sum::<u64>(), 256);
    let queues = survey(&ours, "no-such-topic", &gone);
    assert_eq!((queues.read, queues.write), (0, 0), "{queues:?}");
}

#[test]
fn tls_that_a_broker_does_not_have_or_that_nobody_vouches_for_is_said_so() {
    // By default it takes both, with a certificate that it made itself.
    let engines = Engines::shared(&["rocketmq"]);
    let wrong = on(engines, None, tls("localhost.cert.pem", false, ""));
    let line = create_topic(&wrong, "unvouched").unwrap_err().to_string();
    assert!(line.contains("check queue.tls_authority_file"), "{line}");
    // What is signed is taken where nobody asks for it.
    create_topic(&on(engines, credentials("anybody", "x"), None), "signed").unwrap();
    // Whoever speaks first, and not TLS.
    let mariadb = Engines::shared(&["mariadb"]).address("mariadb");
    let security = Security { credentials: None, tls: tls("localhost.cert.pem", false, "") };
    let elsewhere = Options { name_servers: vec![mariadb.clone()], security, ..options(engines) };
    let line = create_topic(&elsewhere, "nowhere").unwrap_err().to_string();
    assert!(line.contains(&mariadb) && line.contains("queue.tls = false"), "{line}");
}
