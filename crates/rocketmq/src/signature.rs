//! Who asks, and the proof of it, where brokers want one.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// What requests are signed with. `Debug` does not show the secrets.
#[derive(Clone, Copy)]
pub struct Signer<'a> {
    /// The user's name.
    pub access_key: &'a str,
    pub secret_key: &'a [u8],
    /// Of credentials that lapse, if these do.
    pub security_token: Option<&'a [u8]>,
}

impl Signer<'_> {
    /// Adds who asks, and the signature: HMAC-SHA1 over the values of all fields, in the order of their names, and the
    /// body. Brokers of 4.x with `aclEnable` and of 5.x with `authenticationEnabled` check the same one.
    pub fn sign(self, fields: &mut BTreeMap<String, String>, body: &[u8]) {
        fields.insert("AccessKey".into(), self.access_key.to_owned());
        if let Some(token) = self.security_token {
            fields.insert("SecurityToken".into(), String::from_utf8_lossy(token).into_owned());
        }
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, self.secret_key);
        let mut signature = hmac::Context::with_key(&key);
        fields.values().for_each(|value| signature.update(value.as_bytes()));
        signature.update(body);
        fields.insert("Signature".into(), STANDARD.encode(signature.sign()));
    }
}

impl fmt::Debug for Signer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_signature_is_over_the_fields_by_name_and_the_body() {
        // printf 'shop-keyorders3body' | openssl dgst -sha1 -hmac secret-key -binary | base64
        let signer = Signer { access_key: "shop-key", secret_key: b"secret-key", security_token: None };
        let mut signed = fields(&[("topic", "orders"), ("zone", "3")]);
        signer.sign(&mut signed, b"body");
        assert_eq!(signed["AccessKey"], "shop-key");
        assert_eq!(signed["Signature"], "npjXQQw2ZJfHhX4b6ZtAZE2Tkjg=");
        // The token is signed as well: printf 'shop-keytokenorders' | ...
        let signer = Signer { security_token: Some(b"token"), ..signer };
        let mut signed = fields(&[("topic", "orders")]);
        signer.sign(&mut signed, b"");
        assert_eq!(
            (signed["SecurityToken"].as_str(), signed["Signature"].as_str()),
            ("token", "t9+Zu1QDozsfX28wJDFmC/CAh04=")
        );
    }
}
