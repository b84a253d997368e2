//! Why no TLS connection to an engine came about, by the words of the library, and which key of the configuration to change.
//!
//! By its words, because two of the three clients give nothing else.

/// The keys that one engine's TLS is configured by. What has no key is empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsKeys {
    /// What to set for a server that speaks no TLS.
    pub(crate) off: &'static str,
    pub(crate) authority: &'static str,
    /// What to change if the certificate is for another name.
    pub(crate) name: &'static str,
    /// Our own certificate.
    pub(crate) client: &'static str,
}

/// How these errors begin.
const OF_TLS: [&str; 6] = [
    "invalid peer certificate: ",
    "received fatal alert: ",
    "received corrupt message",
    "peer is incompatible: ",
    "peer misbehaved: ",
    "peer sent no certificates",
];

/// Words of an error, and what to do then.
type Row = (&'static str, fn(&TlsKeys) -> String);

/// The first that fits.
const ADVICE: [Row; 14] = [
    ("certificate not valid for name", |keys| format!("its certificate is for another name: {}", keys.name)),
    ("NotValidForName", |keys| format!("its certificate is for another name: {}", keys.name)),
    ("certificate expired", |_| "its certificate must be renewed".into()),
    ("Expired", |_| "its certificate must be renewed".into()),
    ("invalid peer certificate", |keys| format!("check {}", keys.authority)),
    ("CertificateRequired", asks_for_ours),
    ("BadCertificate", asks_for_ours),
    ("CertificateUnknown", asks_for_ours),
    ("CertificateExpired", asks_for_ours),
    ("UnknownCA", asks_for_ours),
    ("AccessDenied", asks_for_ours),
    ("HandshakeFailure", asks_for_ours),
    ("corrupt message", |keys| format!("if it speaks no TLS, set {}", keys.off)),
    ("", |keys| format!("if it speaks no TLS, set {}", keys.off)),
];

fn asks_for_ours(keys: &TlsKeys) -> String {
    format!("it takes no certificate of ours: {}", keys.client)
}

/// The line for people, if the error is one of TLS: what went wrong, and what to change.
pub(crate) fn explain(error: &str, keys: &TlsKeys) -> Option<String> {
    let at = OF_TLS.iter().find_map(|begin| error.find(begin))?;
    let what = &error[at..];
    let (_, advice) = ADVICE.iter().find(|(words, _)| what.contains(words)).expect("the last row fits all");
    Some(format!("TLS: {what}; {}", advice(keys)))
}

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

    use super::*;

    #[test]
    fn each_error_of_the_library_names_the_key_to_change() {
        let keys = TlsKeys { off: "OFF", authority: "AUTHORITY", name: "NAME", client: "CLIENT" };
        let certificate = |error| Error::InvalidCertificate(error);
        let alert = Error::AlertReceived;
        let cases = [
            (certificate(CertificateError::UnknownIssuer), "AUTHORITY"),
            (certificate(CertificateError::BadSignature), "AUTHORITY"),
            (certificate(CertificateError::NotValidForName), "NAME"),
            (certificate(CertificateError::Expired), "renewed"),
            (alert(AlertDescription::CertificateRequired), "CLIENT"),
            (alert(AlertDescription::BadCertificate), "CLIENT"),
            (alert(AlertDescription::UnknownCA), "CLIENT"),
            (alert(AlertDescription::HandshakeFailure), "CLIENT"),
            (alert(AlertDescription::ProtocolVersion), "OFF"),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), "OFF"),
        ];
        for (error, key) in cases {
            let line = explain(&format!("Input/output error: {error}"), &keys).unwrap();
            assert!(line.contains(key) && line.contains(&error.to_string()), "{line}");
        }
        assert_eq!(explain("connection refused", &keys), None);
    }
}
