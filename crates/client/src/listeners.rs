//! Finds the users whose programs listen at addresses of this machine. Asks the kernel. If a sandbox forbids the question,
//! reads Linux's public lists (`proc_pid_net(5)`).

#[cfg(target_os = "linux")]
mod netlink;

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// The operating system's lists of connections, for IPv4 and IPv6.
const LISTS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The state of a listening socket.
const LISTENING: &str = "0A";

#[derive(Debug, PartialEq, Eq)]
struct ListeningSocket {
    address: SocketAddr,
    user: u32,
}

/// Returns the users whose programs may accept a connection to one of `addresses`; `None` if the operating system
/// doesn't say.
pub(super) fn listeners(addresses: &[SocketAddr]) -> Option<Vec<u32>> {
    #[cfg(target_os = "linux")]
    let from_kernel = netlink::listening().ok();
    #[cfg(not(target_os = "linux"))]
    let from_kernel = None;
    let sockets = from_kernel.or_else(listed)?.into_iter();
    let may_accept =
        |listener: &ListeningSocket| addresses.iter().any(|address| accepts(listener.address, *address));
    Some(sockets.filter(may_accept).map(|listener| listener.user).collect())
}

/// Returns the listening sockets in the operating system's lists; `None` if there are no such lists.
fn listed() -> Option<Vec<ListeningSocket>> {
    let files: Vec<File> = LISTS.iter().filter_map(|list| File::open(list).ok()).collect();
    let lines = files.iter().flat_map(|file| {
        // The list begins with the listening sockets. All connections of the machine follow, and needn't be read.
        let lines = BufReader::new(file).lines().map_while(Result::ok).skip(1);
        lines.map_while(|line| listener(&line))
    });
    let sockets = lines.collect();
    (!files.is_empty()).then_some(sockets)
}

/// True if a listener at `listener` may accept connections to `address`. A listener at all IPv6 addresses may accept IPv4,
/// too.
fn accepts(listener: SocketAddr, address: SocketAddr) -> bool {
    let (ip, wanted) = (listener.ip().to_canonical(), address.ip().to_canonical());
    listener.port() == address.port()
        && (ip == wanted
            || ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
            || (ip == IpAddr::V4(Ipv4Addr::UNSPECIFIED) && wanted.is_ipv4()))
}

/// Parses a line such as `0: 0100007F:1CF3 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 12345 …`.
/// Returns `None` if the line's socket doesn't listen.
fn listener(line: &str) -> Option<ListeningSocket> {
    let mut fields = line.split_whitespace();
    let address = fields.nth(1)?;
    let state = fields.nth(1)?;
    let user = fields.nth(3)?.parse().ok()?;
    let (ip, port) = address.split_once(':')?;
    let address = SocketAddr::new(ip_of(ip)?, u16::from_str_radix(port, 16).ok()?);
    (state == LISTENING).then_some(ListeningSocket { address, user })
}

/// Parses an address in hexadecimal digits: 32-bit words in the machine's byte order, made of bytes in network order.
fn ip_of(digits: &str) -> Option<IpAddr> {
    let words = (0..digits.len()).step_by(8).map(|index| digits.get(index..index + 8));
    let bytes: Vec<u8> = words
        .map(|word| u32::from_str_radix(word?, 16).ok().map(u32::to_ne_bytes))
        .collect::<Option<Vec<_>>>()?
        .concat();
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(IpAddr::from(bytes));
    }
    <[u8; 16]>::try_from(bytes.as_slice()).ok().map(IpAddr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_listeners_are_read() {
        let line = "   0: 0100007F:1CF3 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0 100 0";
        let expected = ListeningSocket { address: "127.0.0.1:7411".parse().unwrap(), user: 1000 };
        assert_eq!(listener(line), Some(expected));
        let line = "   1: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 \
                    00:00000000 00000000     0        0 1 1";
        assert_eq!(listener(line).unwrap().address, "[::1]:80".parse().unwrap());
        assert_eq!(listener(&line.replace(" 0A ", " 01 ")), None);
        for broken in
            ["", "   0: 0100007F", "0: x:y z 0A 0 0 0 0", "0: 0100:1CF3 00000000:0000 0A 0 0 0 1000"]
        {
            assert_eq!(listener(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_listener_accepts_connections_to_its_address_and_one_at_all_addresses_to_any() {
        for (at, address, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("127.0.0.1:81", "127.0.0.1:80", false),
            ("127.0.0.2:80", "127.0.0.1:80", false),
        ] {
            let found = accepts(at.parse().unwrap(), address.parse().unwrap());
            assert_eq!(found, expected, "{at} for {address}");
        }
    }

    #[test]
    fn the_user_of_a_listening_program_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(listeners(&[address]).unwrap().len(), 1);
        drop(listener);
        assert_eq!(listeners(&[address]), Some(Vec::new()));
    }
}
