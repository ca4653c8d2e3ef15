//! Parses IP addresses leniently, and writes them in canonical form.

use std::{
    fmt::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::objects::AddressType;

/// Parses an address. Leading zeros are ignored, and an IPv4-mapped IPv6 address becomes an IPv4 address.
///
/// Upstream: `ParseIPSloppy`.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    if !text.contains(':') {
        return parse_ipv4(text).map(IpAddr::V4);
    }
    // The last four bytes of an IPv6 address may be written as an IPv4 address, as in `::ffff:10.0.0.1`.
    let address: Ipv6Addr = match text.rsplit_once(':') {
        Some((front, back)) if back.contains('.') => {
            let [a, b, c, d] = parse_ipv4(back)?.octets();
            format!("{front}:{:x}:{:x}", u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])).parse().ok()?
        }
        _ => text.parse().ok()?,
    };
    Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4))
}

fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next().filter(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))?;
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then(|| octets.into())
}

/// The canonical text of an address, without an allocation. Ordered like the text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddressText {
    /// The text, padded with zeros. The text of every address fits.
    bytes: [u8; 39],
    len: usize,
}

impl AddressText {
    pub(crate) fn new(address: IpAddr) -> Self {
        let mut text = Self { bytes: [0; 39], len: 0 };
        let _ = write!(text, "{address}");
        text
    }
}

impl fmt::Write for AddressText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let start = self.len;
        self.len += part.len();
        self.bytes.get_mut(start..self.len).ok_or(fmt::Error)?.copy_from_slice(part.as_bytes());
        Ok(())
    }
}

/// Whether `text` is the canonical form of this address. Does not allocate.
pub fn is_canonical_text(address: IpAddr, text: &str) -> bool {
    let AddressText { bytes, len } = AddressText::new(address);
    bytes.starts_with(text.as_bytes()) && text.len() == len
}

/// Returns `Ipv4` or `Ipv6`, the `addressType` of a slice that can contain this address.
pub fn address_type_of(address: IpAddr) -> AddressType {
    if address.is_ipv4() { AddressType::Ipv4 } else { AddressType::Ipv6 }
}

#[cfg(test)]
mod tests;
