//! Who asks, where a proxy stands in front of the server: the address of the client behind proxies that are trusted.
//!
//! Each proxy appends the address that it was asked from to `X-Forwarded-For`; what stands further left was sent to it,
//! and anybody can have written it. So the list is read from its right end, as far as the proxies are ours.
//!
//! Must not: decide what an address may do.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The networks of the proxies that are believed; none: nobody is.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// From networks (`10.0.0.0/8`) and single addresses (`10.0.0.1`).
    ///
    /// # Errors
    /// For each text that is neither, or that would trust more than it says: the text, and what to do.
    pub fn parse(texts: &[String]) -> Result<TrustedProxies, Vec<(String, String)>> {
        let mut networks = Vec::new();
        let mut wrong = Vec::new();
        for text in texts {
            match network(text) {
                Ok(network) => networks.push(network),
                Err(advice) => wrong.push((text.clone(), advice)),
            }
        }
        if wrong.is_empty() { Ok(TrustedProxies(networks.into())) } else { Err(wrong) }
    }

    pub(crate) fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The rightmost address that is no trusted proxy's. If all are, the leftmost. What can't be read ends the list:
    /// whoever wrote it is the last that is known, and what stands left of it may be forged.
    pub(crate) fn client(&self, peer: IpAddr, headers: &[httparse::Header<'_>]) -> IpAddr {
        let mut known = peer.to_canonical();
        if self.0.is_empty() || !self.trust(known) {
            return known;
        }
        let named = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(FORWARDED_FOR);
        // Several headers are one list, in their order.
        let lists = headers.iter().rev().filter(named);
        for entry in lists.flat_map(|header| header.value.rsplit(|byte| *byte == b',')) {
            let Some(address) = std::str::from_utf8(entry).ok().and_then(read) else { return known };
            known = address;
            if !self.trust(known) {
                return known;
            }
        }
        known
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    let network = match text.parse::<IpNet>() {
        Ok(network) => network,
        Err(_) => text
            .parse::<IpAddr>()
            .map(IpNet::from)
            .map_err(|_neither| "write a network like \"10.0.0.0/8\", or an address".to_owned())?,
    };
    if network.prefix_len() == 0 {
        return Err(
            "trusts everybody, and so every address that anybody makes up: name the proxies".to_owned()
        );
    }
    if network != network.trunc() {
        return Err(format!("is an address within a network: write \"{}\"", network.trunc()));
    }
    // Addresses are compared in their IPv4 form, which such a network would never have.
    if let IpNet::V6(mapped) = network
        && mapped.addr().to_ipv4_mapped().is_some()
    {
        return Err("is IPv4 written as IPv6: write it as IPv4".to_owned());
    }
    Ok(network)
}

/// An address as proxies write it: with a port, with brackets, with a zone, or bare.
fn read(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let address = match entry.strip_prefix('[') {
        Some(bracketed) => {
            let (inside, port) = bracketed.split_once(']')?;
            let port = port.strip_prefix(':').unwrap_or(port);
            if !port.is_empty() && port.parse::<u16>().is_err() {
                return None;
            }
            IpAddr::V6(without_zone(inside).parse().ok()?)
        }
        None => match without_zone(entry).parse() {
            Ok(address) => address,
            Err(_) => entry.parse::<SocketAddr>().ok().filter(SocketAddr::is_ipv4)?.ip(),
        },
    };
    Some(address.to_canonical())
}

/// `fe80::1%eth0` is an address on a link of the proxy's; which link is not ours to know.
fn without_zone(text: &str) -> &str {
    match text.split_once('%') {
        Some((address, zone)) if address.contains(':') && !zone.is_empty() => address,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(texts: &[&str]) -> TrustedProxies {
        TrustedProxies::parse(&texts.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    /// The client of a request from this peer with these headers.
    fn client(trusted: &TrustedProxies, peer: &str, lists: &[&str]) -> String {
        let headers: Vec<_> = lists
            .iter()
            .map(|list| httparse::Header { name: "X-Forwarded-For", value: list.as_bytes() })
            .collect();
        trusted.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn the_client_is_the_rightmost_address_that_is_not_trusted() {
        let trusted = proxies(&["10.0.0.0/8", "192.0.2.1", "2001:db8:7::/48"]);
        for (peer, lists, expected) in [
            // Nobody but a trusted proxy is believed.
            ("203.0.113.9", &["198.51.100.1"][..], "203.0.113.9"),
            ("11.0.0.1", &["198.51.100.1"], "11.0.0.1"),
            ("10.1.2.3", &[], "10.1.2.3"),
            ("10.1.2.3", &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.1.2.3", &["198.51.100.1"], "198.51.100.1"),
            ("2001:db8:7::1", &["198.51.100.1"], "198.51.100.1"),
            // What the client sent itself stands further left.
            ("10.1.2.3", &["1.1.1.1, 10.0.0.1, 198.51.100.1"], "198.51.100.1"),
            ("10.1.2.3", &["1.1.1.1, 198.51.100.1, 10.0.0.1, 192.0.2.1"], "198.51.100.1"),
            // Several headers are one list.
            ("10.1.2.3", &["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
            ("10.1.2.3", &["198.51.100.1", "10.0.0.1, 10.0.0.2"], "198.51.100.1"),
            // All of them are ours: the first of them asked.
            ("10.1.2.3", &["10.0.0.1,10.0.0.2"], "10.0.0.1"),
            // Forms of an address.
            ("10.1.2.3", &["198.51.100.1:4711"], "198.51.100.1"),
            ("10.1.2.3", &["  198.51.100.1\t"], "198.51.100.1"),
            ("10.1.2.3", &["2001:db8::1"], "2001:db8::1"),
            ("10.1.2.3", &["[2001:db8::1]"], "2001:db8::1"),
            ("10.1.2.3", &["[2001:db8::1]:443"], "2001:db8::1"),
            ("10.1.2.3", &["fe80::1%eth0"], "fe80::1"),
            ("10.1.2.3", &["[fe80::1%2]:443"], "fe80::1"),
            ("10.1.2.3", &["::ffff:198.51.100.1"], "198.51.100.1"),
            ("10.1.2.3", &["198.51.100.1, ::ffff:10.0.0.1"], "198.51.100.1"),
        ] {
            assert_eq!(client(&trusted, peer, lists), expected, "{peer} {lists:?}");
        }
    }

    #[test]
    fn what_can_not_be_read_ends_the_list() {
        let trusted = proxies(&["10.0.0.0/8"]);
        for garbage in [
            "",
            " ",
            "unknown",
            "_hidden",
            "198.51.100",
            "198.51.100.1.2",
            "198.51.100.1:",
            "198.51.100.1:99999",
            "198.51.100.1%eth0",
            "[198.51.100.1]",
            "[2001:db8::1",
            "[2001:db8::1]x",
            "2001:db8::g",
            "fe80::1%",
            "0x0a000001",
            "for=198.51.100.1",
            "\"198.51.100.1\"",
            "198.51.100.1 198.51.100.2",
        ] {
            assert_eq!(client(&trusted, "10.9.9.9", &[garbage]), "10.9.9.9", "{garbage:?}");
            let list = format!("1.1.1.1, {garbage}, 10.0.0.1");
            assert_eq!(client(&trusted, "10.9.9.9", &[&list]), "10.0.0.1", "{list:?}");
            assert_eq!(client(&trusted, "10.9.9.9", &["1.1.1.1", garbage]), "10.9.9.9", "{garbage:?}");
        }
        let not_text = [httparse::Header { name: "x-forwarded-for", value: b"198.51.100.1, \xff" }];
        assert_eq!(trusted.client([10, 9, 9, 9].into(), &not_text).to_string(), "10.9.9.9");
    }

    #[test]
    fn without_proxies_nobody_is_believed() {
        assert_eq!(client(&TrustedProxies::default(), "10.1.2.3", &["198.51.100.1"]), "10.1.2.3");
    }

    #[test]
    fn networks_that_trust_too_much_are_refused() {
        for (text, advice) in [
            ("10.0.0.0/33", "write a network like \"10.0.0.0/8\", or an address"),
            ("proxy.example", "write a network like \"10.0.0.0/8\", or an address"),
            ("", "write a network like \"10.0.0.0/8\", or an address"),
            ("10.0.0.1/8", "is an address within a network: write \"10.0.0.0/8\""),
            ("0.0.0.0/0", "trusts everybody, and so every address that anybody makes up: name the proxies"),
            ("::/0", "trusts everybody, and so every address that anybody makes up: name the proxies"),
            ("::ffff:10.0.0.0/104", "is IPv4 written as IPv6: write it as IPv4"),
        ] {
            let wrong = TrustedProxies::parse(&["127.0.0.1".to_owned(), text.to_owned()]).unwrap_err();
            assert_eq!(wrong, [(text.to_owned(), advice.to_owned())]);
        }
    }
}
