//! Which IP addresses belong to the public internet. Pure.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// What kind of address it is. Only [`Public`](Self::Public) ones lead to hosts
/// that anybody may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// Globally reachable unicast.
    Public,
    /// `0.0.0.0/8`, `::`: this host.
    Unspecified,
    /// `127.0.0.0/8`, `::1`.
    Loopback,
    /// RFC 1918.
    Private,
    /// `169.254.0.0/16`, `fe80::/10`; cloud metadata services live here.
    LinkLocal,
    /// `100.64.0.0/10`, behind a carrier's NAT.
    Shared,
    /// `224.0.0.0/4`, `ff00::/8`.
    Multicast,
    /// `255.255.255.255`.
    Broadcast,
    /// For examples only.
    Documentation,
    /// `198.18.0.0/15`, `2001:2::/48`.
    Benchmarking,
    /// `fc00::/7`.
    UniqueLocal,
    /// `fec0::/10`.
    SiteLocal,
    /// `::ffff:0:0/96` and `::/96`: an IPv4 address inside IPv6.
    EmbeddedIpv4,
    /// `64:ff9b::/96`, `64:ff9b:1::/48`, `2002::/16`, `2001::/32`: leads to an
    /// IPv4 address by translation or a tunnel.
    Translated,
    /// Not given out, or for protocols.
    Reserved,
}

impl AddressClass {
    /// The class of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Shared => "carrier-grade NAT",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Documentation => "documentation",
            Self::Benchmarking => "benchmarking",
            Self::UniqueLocal => "unique local",
            Self::SiteLocal => "site-local",
            Self::EmbeddedIpv4 => "IPv4-in-IPv6",
            Self::Translated => "translated or tunnelled",
            Self::Reserved => "reserved",
        })
    }
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [0, ..] => AddressClass::Unspecified,
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] => AddressClass::Shared,
        [169, 254, ..] => AddressClass::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Documentation,
        [192, 0, 0, _] | [192, 88, 99, _] => AddressClass::Reserved,
        [198, 18..=19, ..] => AddressClass::Benchmarking,
        [224..=239, ..] => AddressClass::Multicast,
        [255, 255, 255, 255] => AddressClass::Broadcast,
        [240..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

/// Only `2000::/3` is given out for the public internet: what is not known to be
/// public is not.
fn of_v6(address: Ipv6Addr) -> AddressClass {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressClass::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] => AddressClass::EmbeddedIpv4,
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => AddressClass::Translated,
        [0x2002, ..] | [0x2001, 0, ..] => AddressClass::Translated,
        [0x2001, 2, 0, ..] => AddressClass::Benchmarking,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => AddressClass::Documentation,
        [0x2001, 1..=0x1ff, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        [0xfc00..=0xfdff, ..] => AddressClass::UniqueLocal,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xfec0..=0xfeff, ..] => AddressClass::SiteLocal,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        _ => AddressClass::Reserved,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_have_a_class() {
        let check = |address: &str, expected: AddressClass| {
            let address: IpAddr = address.parse().expect(address);
            assert_eq!(AddressClass::of(address), expected, "{address}");
        };
        check("8.8.8.8", AddressClass::Public);
        check("2606:4700:4700::1111", AddressClass::Public);
        check("0.1.2.3", AddressClass::Unspecified);
        check("127.255.0.1", AddressClass::Loopback);
        check("172.32.0.1", AddressClass::Public);
        check("172.31.255.255", AddressClass::Private);
        check("169.254.169.254", AddressClass::LinkLocal);
        check("100.64.0.1", AddressClass::Shared);
        check("100.128.0.1", AddressClass::Public);
        check("192.0.0.1", AddressClass::Reserved);
        check("198.19.0.1", AddressClass::Benchmarking);
        check("240.0.0.1", AddressClass::Reserved);
        check("255.255.255.255", AddressClass::Broadcast);
        check("::", AddressClass::Unspecified);
        check("::1", AddressClass::Loopback);
        check("::7f00:1", AddressClass::EmbeddedIpv4);
        check("::ffff:8.8.8.8", AddressClass::EmbeddedIpv4);
        check("64:ff9b::7f00:1", AddressClass::Translated);
        check("2002:7f00:1::", AddressClass::Translated);
        check("2001::1", AddressClass::Translated);
        check("2001:20::1", AddressClass::Reserved);
        check("2001:db8::1", AddressClass::Documentation);
        check("3fff::1", AddressClass::Documentation);
        check("100::1", AddressClass::Reserved);
        check("fd00::1", AddressClass::UniqueLocal);
        check("fe80::1", AddressClass::LinkLocal);
        check("fec0::1", AddressClass::SiteLocal);
        check("ff02::1", AddressClass::Multicast);
    }

    proptest! {
        #[test]
        fn nothing_that_std_calls_special_is_public(v4: u32, v6: u128, prefix in 0u16..0xffff) {
            let four = Ipv4Addr::from(v4);
            let special = four.is_loopback()
                || four.is_private()
                || four.is_link_local()
                || four.is_multicast()
                || four.is_broadcast()
                || four.is_documentation()
                || four.is_unspecified();
            prop_assert!(!special || AddressClass::of(four.into()) != AddressClass::Public);
            let mapped = four.to_ipv6_mapped();
            prop_assert_eq!(AddressClass::of(mapped.into()), AddressClass::EmbeddedIpv4);
            let six = Ipv6Addr::from((v6 >> 16) | (u128::from(prefix) << 112));
            let special = six.is_loopback()
                || six.is_unspecified()
                || six.is_multicast()
                || six.is_unique_local()
                || six.is_unicast_link_local();
            prop_assert!(!special || AddressClass::of(six.into()) != AddressClass::Public);
        }
    }
}
