//! Under which names this server is asked. A page of another site can point a name of its own here, once it has been
//! loaded from there (DNS rebinding); to the reader's browser our answers are that site's own then.
//!
//! Must not: know who asks, or what.

use std::net::Ipv4Addr;

/// The names that a `Host` may have.
#[derive(Debug)]
pub(super) struct Hosts {
    /// `None`: any.
    names: Option<Box<[String]>>,
}

impl Hosts {
    /// Without names any will do; but not in a local demo, where a page that asks under its own name could order.
    pub(super) fn new(public_names: &[String], local_demo: bool) -> Hosts {
        Hosts { names: (local_demo || !public_names.is_empty()).then(|| public_names.into()) }
    }

    /// An address, and a name without a dot, are nobody's to point somewhere else. What sends no `Host` is no browser.
    pub(super) fn allow(&self, host: Option<&str>) -> bool {
        let (Some(names), Some(host)) = (&self.names, host) else { return true };
        let name = if host.starts_with('[') { host } else { host.split(':').next().unwrap_or_default() };
        let name = name.strip_suffix('.').unwrap_or(name);
        host.starts_with('[')
            || !name.contains('.')
            || name.parse::<Ipv4Addr>().is_ok()
            || ends_with_localhost(name)
            || names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Browsers take every such name for this machine.
fn ends_with_localhost(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, last)| last.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_names_are_refused_where_names_are_known_and_in_a_demo() {
        let named = Hosts::new(&["shop.example".to_owned()], false);
        let demo = Hosts::new(&[], true);
        let open = Hosts::new(&[], false);
        for (host, named_allows, demo_allows) in [
            (None, true, true),
            (Some("shop.example"), true, false),
            (Some("SHOP.example.:443"), true, false),
            (Some("127.0.0.1:8080"), true, true),
            (Some("192.168.1.7"), true, true),
            (Some("[::1]:8080"), true, true),
            (Some("localhost:8080"), true, true),
            (Some("sale.localhost"), true, true),
            (Some("edge"), true, true),
            (Some("evil.example:8080"), false, false),
            (Some("127.0.0.1.evil.example"), false, false),
            (Some("shop.example.evil.example"), false, false),
            (Some("localhost.evil.example"), false, false),
            (Some(""), true, true),
        ] {
            assert_eq!(named.allow(host), named_allows, "{host:?}");
            assert_eq!(demo.allow(host), demo_allows, "{host:?}");
            assert!(open.allow(host), "{host:?}");
        }
    }
}
