//! Addresses that people write, `host:port` with a name or a number, as the sockets that they mean; and whether those
//! are on this machine. It opens no connection.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};

/// # Errors
/// If it is no `host:port`, or the name stands for no address: which one.
pub fn resolve(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains([':', '/', '@']));
    let Some((host, Ok(port))) = parts.map(|(host, port)| (host, port.parse())) else {
        return Err("write it as host:port, such as localhost:9876".to_owned());
    };
    resolve_host(host, port)
}

/// IPv4 first: servers listen there, and a name such as `localhost` has often both.
pub fn resolve_host(host: &str, port: u16) -> Result<SocketAddr, String> {
    let found: Vec<SocketAddr> = (host.trim_matches(['[', ']']), port)
        .to_socket_addrs()
        .map_err(|error| format!("the host '{host}' was not resolved: {error}"))?
        .collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("the host '{host}' has no address"))
}

/// The server of `mysql://user:password@host:port/database`.
///
/// # Errors
/// If it is no such URL, or its host stands for no address. The password is not in the error.
pub fn of_mysql(url: &str) -> Result<SocketAddr, String> {
    // An error of the parser may hold the text.
    let options = mysql::Opts::from_url(url)
        .map_err(|_error| "write it as mysql://user:password@host:port/database".to_owned())?;
    resolve_host(&options.get_ip_or_hostname(), options.get_tcp_port())
}

/// On this machine, by whichever of its addresses: one that a socket of ours can have.
pub fn is_local(mut address: SocketAddr) -> bool {
    address.set_port(0);
    UdpSocket::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    /// Those of this machine, as the kernel lists them: `|-- 10.0.0.5`, then `/32 host LOCAL`.
    fn own_addresses() -> Vec<IpAddr> {
        let list = std::fs::read_to_string("/proc/net/fib_trie").unwrap();
        let lines: Vec<&str> = list.lines().map(str::trim).collect();
        let own = lines.windows(2).filter(|lines| lines[1] == "/32 host LOCAL");
        own.map(|lines| lines[0].trim_start_matches("|-- ").parse().unwrap()).collect()
    }

    #[test]
    fn each_address_of_this_machine_is_local() {
        let own = own_addresses();
        assert!(own.contains(&Ipv4Addr::LOCALHOST.into()), "{own:?}");
        for address in own {
            assert!(is_local((address, 80).into()), "{address}");
        }
        // Of the range for documentation: nobody has it.
        assert!(!is_local(([203, 0, 113, 77], 80).into()));
    }

    #[test]
    fn names_and_numbers_are_addresses() {
        for (text, wanted) in
            [("127.0.0.1:80", "127.0.0.1:80"), ("[::1]:80", "[::1]:80"), ("localhost:9876", "127.0.0.1:9876")]
        {
            assert_eq!(resolve(text).map(|address| address.to_string()), Ok(wanted.to_owned()), "{text}");
        }
        for wrong in
            ["here", "localhost", ":80", "localhost:", "localhost:70000", "http://localhost:80", "::1"]
        {
            assert!(resolve(wrong).unwrap_err().contains("host:port"), "{wrong}");
        }
        let unknown = resolve("no-such-host.invalid:80").unwrap_err();
        assert!(unknown.starts_with("the host 'no-such-host.invalid' was not resolved: "), "{unknown}");
    }

    #[test]
    fn the_server_of_a_mysql_url_is_found() {
        let address = of_mysql("mysql://root:secret@localhost:3307/shop").unwrap();
        assert_eq!(address.to_string(), "127.0.0.1:3307");
        assert_eq!(of_mysql("mysql://root@127.0.0.1/").unwrap().port(), 3306);
        for wrong in ["foo", "http://root:secret@localhost/", "mysql://root:secret@localhost:x/"] {
            let error = of_mysql(wrong).unwrap_err();
            assert!(error.contains("mysql://user") && !error.contains("secret"), "{error}");
        }
    }
}
