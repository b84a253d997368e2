//! Which addresses may be called: those of the public internet, unless the operator allows others.
//!
//! The name is looked up here, and the address that was judged is the one that is connected to: what a name means a moment later
//! does not matter.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::IpNet;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Not of the public internet (RFC 6890, and what is routed to nobody): this machine, its network, and those of operators.
const PRIVATE: [&str; 24] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/127",
    "100::/64",
    "2001::/23",
    "2001:db8::/32",
    "3fff::/20",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
];
/// IPv4 addresses inside of IPv6: the network, and the byte at which they begin.
const EMBEDDED: [(&str, usize); 4] =
    [("::ffff:0:0/96", 12), ("::/96", 12), ("64:ff9b::/96", 12), ("2002::/16", 2)];

static PRIVATE_NETS: LazyLock<Vec<IpNet>> =
    LazyLock::new(|| PRIVATE.iter().map(|net| net.parse().expect("a network")).collect());
static EMBEDDED_NETS: LazyLock<Vec<(IpNet, usize)>> =
    LazyLock::new(|| EMBEDDED.iter().map(|(net, at)| (net.parse().expect("a network"), *at)).collect());

/// Whether an address is of the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    let inside = |address: Ipv6Addr| {
        let (_, at) = EMBEDDED_NETS.iter().find(|(net, _)| net.contains(&IpAddr::V6(address)))?;
        let bytes: [u8; 4] = address.octets()[*at..*at + 4].try_into().expect("four of sixteen bytes");
        Some(IpAddr::from(bytes))
    };
    if PRIVATE_NETS.iter().any(|net| net.contains(&address)) {
        return false;
    }
    match address {
        IpAddr::V6(address) => inside(address).is_none_or(is_public),
        IpAddr::V4(_) => true,
    }
}

/// Looks names up, and leaves out what may not be called.
#[derive(Debug, Default)]
pub(super) struct PublicOnly(DefaultResolver);

impl Resolver for PublicOnly {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.0.resolve(uri, config, timeout)?;
        let mut public = self.empty();
        for address in found.iter().filter(|address| is_public(address.ip())) {
            public.push(*address);
        }
        if public.is_empty() {
            return Err(ureq::Error::Other("its address is a private one (allow_private)".into()));
        }
        Ok(public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_every_form() {
        for (address, public) in [
            ("8.8.8.8", true),
            ("172.32.0.1", true),
            ("100.128.0.1", true),
            ("127.0.0.1", false),
            ("127.8.8.8", false),
            ("10.1.2.3", false),
            ("172.31.255.255", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("2a00:1450:4001::1", true),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("fd00::1", false),
            ("ff02::1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("::127.0.0.1", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("64:ff9b::808:808", true),
            ("2002:7f00:1::", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }
}
