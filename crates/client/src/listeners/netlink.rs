//! Asks Linux for the listening sockets by `sock_diag(7)`. The public lists hold all connections of the machine. Reading
//! these lists takes a hundred times as long: several milliseconds, before each call.

use std::net::{IpAddr, SocketAddr};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with},
};

use super::ListeningSocket;

/// From `linux/netlink.h` and `linux/sock_diag.h`: the length of a header, the flags of a request for all sockets of a
/// family, and the types of messages in the answer.
const HEAD_BYTES: usize = 16;
const REQUEST_ALL: u16 = 0x301;
const BY_FAMILY: u16 = 20;
const DONE: u16 = 3;
/// From `linux/inet_diag.h`: the length of a request with its header, the protocol, and the bit of the state that the
/// requested sockets have.
const REQUEST_BYTES: usize = 72;
const TCP: u8 = 6;
const LISTENING: u32 = 1 << 10;
/// The offsets of a socket's port, address and user in a message, after its header.
const PORT_AT: usize = 4;
const ADDRESS_AT: usize = 8;
const USER_AT: usize = 64;
/// The size of the kernel's messages.
const MESSAGE_BYTES: usize = 32 << 10;
/// Limits how many messages are read.
const MESSAGES_MAX: usize = 1_000;

/// Returns all listening sockets.
///
/// # Errors
/// If the kernel doesn't answer, or a sandbox forbids the question.
pub(super) fn listening() -> Result<Vec<ListeningSocket>, Errno> {
    let mut sockets = Vec::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        collect(family, &mut sockets)?;
    }
    Ok(sockets)
}

fn collect(family: AddressFamily, sockets: &mut Vec<ListeningSocket>) -> Result<(), Errno> {
    let protocol = Some(netlink::SOCK_DIAG);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    send(&socket, &request(family), SendFlags::empty())?;
    let mut buffer = vec![0; MESSAGE_BYTES];
    for _ in 0..MESSAGES_MAX {
        let (length, _) = recv(&socket, &mut *buffer, RecvFlags::DONTWAIT)?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        while let Some((kind, body, further)) = message(rest) {
            match kind {
                BY_FAMILY => sockets.extend(listener(body)),
                DONE => return Ok(()),
                _ => return Err(Errno::OPNOTSUPP),
            }
            rest = further;
        }
    }
    Err(Errno::NOBUFS)
}

fn request(family: AddressFamily) -> Vec<u8> {
    let mut request = Vec::with_capacity(REQUEST_BYTES);
    request.extend(u32::try_from(REQUEST_BYTES).unwrap_or_default().to_ne_bytes());
    request.extend([BY_FAMILY.to_ne_bytes(), REQUEST_ALL.to_ne_bytes()].concat());
    // The sequence number and the sender's port, which the kernel fills in.
    request.extend([0; 8]);
    request.extend([u8::try_from(family.as_raw()).unwrap_or_default(), TCP, 0, 0]);
    request.extend(LISTENING.to_ne_bytes());
    request.resize(REQUEST_BYTES, 0);
    request
}

/// Splits off the first message. Returns its type, its contents, and the following messages.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(array(bytes, 0)?)).ok()?;
    let kind = u16::from_ne_bytes(array(bytes, 4)?);
    let further = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, bytes.get(HEAD_BYTES..length)?, further))
}

fn listener(body: &[u8]) -> Option<ListeningSocket> {
    let ip: IpAddr = if i32::from(*body.first()?) == i32::from(AddressFamily::INET.as_raw()) {
        array::<4>(body, ADDRESS_AT)?.into()
    } else {
        array::<16>(body, ADDRESS_AT)?.into()
    };
    Some(ListeningSocket {
        address: SocketAddr::new(ip, u16::from_be_bytes(array(body, PORT_AT)?)),
        user: u32::from_ne_bytes(array(body, USER_AT)?),
    })
}

fn array<const LENGTH: usize>(bytes: &[u8], offset: usize) -> Option<[u8; LENGTH]> {
    bytes.get(offset..offset + LENGTH)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_kernel_names_listeners_and_their_user() {
        for place in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
            let Ok(one) = TcpListener::bind(place) else {
                assert!(place.starts_with('['), "{place}");
                continue;
            };
            let address = one.local_addr().unwrap();
            let lists = super::super::listed().unwrap();
            let is_it = |socket: &&ListeningSocket| socket.address == address;
            let found = listening().unwrap();
            assert_eq!(found.iter().find(is_it), lists.iter().find(is_it), "{place}");
            assert!(found.iter().any(|socket| socket.address == address));
            drop(one);
            assert!(!listening().unwrap().iter().any(|socket| socket.address == address));
        }
    }

    #[test]
    fn a_message_that_is_cut_off_is_ignored() {
        let request = request(AddressFamily::INET);
        assert_eq!(
            message(&request).map(|(kind, body, rest)| (kind, body.len(), rest.len())),
            Some((BY_FAMILY, 56, 0))
        );
        for length in 0..request.len() {
            assert_eq!(message(&request[..length]), None, "{length}");
            assert_eq!(listener(&request[..length.min(USER_AT)]), None, "{length}");
        }
    }
}
