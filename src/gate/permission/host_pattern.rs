//! `domain:host`, and the hosts that an address may lead to.
//!
//! Hosts are compared as a URL parser normalises them: lower case, international names in their ASCII
//! form, numbers in every notation as one address, without the final dot. Never resolves a name.

use url::{Host, Url};

use super::error::RuleError;

/// Most addresses within one address that are looked at.
const ADDRESSES_MAX: usize = 16;

/// What the machine itself is mostly called. Connecting to address zero reaches it too.
const THIS_MACHINE: &[&str] = &["localhost", "127.0.0.1", "[::1]"];

/// One pattern of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPattern {
    pub(super) host: String,
    /// All below the host, at any depth, and not the host itself.
    below: bool,
    port: Option<u16>,
}

/// A host that an address leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    port: Option<u16>,
}

/// What an address says about where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PreparedUrl {
    /// Every host that some reader of the address may find, for deny and ask.
    pub(super) wide: Vec<Target>,
    /// The one host that every reader finds, for allow.
    pub(super) narrow: Option<Target>,
    /// As given and as normalised, for patterns of text.
    pub(super) texts: Vec<String>,
    /// Why nobody can tell where the address leads.
    pub(super) unclear: Option<&'static str>,
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> Result<Self, RuleError> {
        let refused = || RuleError::HostInvalid {
            host: text.to_owned(),
        };
        let text = text.trim();
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (name, port) = match rest.rsplit_once(':') {
            Some((name, port)) if !rest.ends_with(']') => {
                (name, Some(port.parse().map_err(|_| refused())?))
            }
            Some(_) | None => (rest, None),
        };
        if name.is_empty() || name.contains(['*', '/', '@', '%']) {
            return Err(refused());
        }
        let host = Host::parse(name).map_err(|_| refused())?;
        let is_name = matches!(host, Host::Domain(_));
        if below && !is_name {
            return Err(refused());
        }
        Ok(Self {
            host: without_dots(&host.to_string()),
            below,
            port,
        })
    }

    pub(super) fn matches(&self, target: &Target) -> bool {
        let names = match self.below {
            false => target.host == self.host,
            true => target
                .host
                .strip_suffix(&self.host)
                .is_some_and(|above| above.len() > 1 && above.ends_with('.')),
        };
        names && self.port.is_none_or(|port| target.port == Some(port))
    }

    /// The host's labels, the last one first.
    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.host.rsplit('.')
    }
}

impl Target {
    fn of(url: &Url) -> Option<Self> {
        Some(Self {
            host: without_dots(url.host_str()?),
            port: url.port_or_known_default(),
        })
    }

    /// The host's labels, the last one first.
    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.host.rsplit('.')
    }

    /// The machine itself by its usual names, if it is that by any.
    fn of_this_machine(&self) -> impl Iterator<Item = Self> + use<> {
        let is_this = match Host::parse(&self.host) {
            Ok(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
            Ok(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
            Ok(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Err(_) => false,
        };
        let names = match is_this {
            true => THIS_MACHINE,
            false => &[],
        };
        let port = self.port;
        names.iter().map(move |name| Self {
            host: (*name).to_owned(),
            port,
        })
    }

    /// The same host as an address of the older kind, if it is one in new clothes.
    fn as_v4(&self) -> Option<Self> {
        let Ok(Host::Ipv6(address)) = Host::parse(&self.host) else {
            return None;
        };
        let v4 = address.to_ipv4().filter(|_| !address.is_loopback())?;
        Some(Self {
            host: v4.to_string(),
            port: self.port,
        })
    }
}

impl PreparedUrl {
    pub(super) fn new(text: &str) -> Self {
        let trimmed = text.trim();
        let parsed = Url::parse(trimmed).ok();
        let own = parsed.as_ref().and_then(Target::of);
        let mut texts = vec![text.to_owned()];
        texts.extend(parsed.as_ref().map(|url| url.as_str().to_owned()));
        texts.dedup();
        let has_user = |url: &Url| !url.username().is_empty() || url.password().is_some();
        let unclear = match &parsed {
            None => Some("the address cannot be read"),
            Some(url) if is_read_differently(trimmed, url) => {
                Some("readers of the address may differ about its host")
            }
            Some(_) => None,
        };
        // Where other schemes lead is for their programs to say.
        let is_web = |url: &Url| matches!(url.scheme(), "http" | "https" | "ws" | "wss");
        let is_certain = unclear.is_none()
            && parsed
                .as_ref()
                .is_some_and(|url| is_web(url) && !has_user(url));
        Self {
            wide: all_targets(trimmed, own.as_ref()),
            narrow: own.filter(|_| is_certain),
            texts,
            unclear,
        }
    }
}

/// Every host that some reader may find.
fn all_targets(text: &str, own: Option<&Target>) -> Vec<Target> {
    let mut found: Vec<Target> = own.into_iter().cloned().collect();
    let mut add = |address: &str| {
        // A scheme that is known has its hosts brought to their normal form.
        let url = Url::parse(&format!("https://{address}")).ok();
        let target = url.as_ref().and_then(Target::of);
        let target = target.filter(|target| found.iter().all(|known| known.host != target.host));
        found.extend(target);
    };
    // Addresses within addresses, and those of schemes that no parser knows.
    for (at, mark) in text.match_indices("://").take(ADDRESSES_MAX) {
        add(text.get(at + mark.len()..).unwrap_or_default());
    }
    // `host/path` and `host:80/path` are addresses to many tools, and so is `scheme:host`.
    if !text.contains("://") {
        add(text);
        let behind = text.split_once(':').map(|(_, behind)| behind);
        let is_port = |behind: &&str| {
            let end = behind.find('/').unwrap_or(behind.len());
            behind.bytes().take(end).all(|byte| byte.is_ascii_digit())
        };
        if let Some(behind) = behind.filter(|behind| !is_port(behind)) {
            add(behind.trim_start_matches('/'));
        }
    }
    let older: Vec<Target> = found.iter().filter_map(Target::as_v4).collect();
    found.extend(older);
    let own: Vec<Target> = found.iter().flat_map(Target::of_this_machine).collect();
    found.extend(own);
    found
}

/// Characters that URL parsers drop or turn around, each in its own way, and slashes that some add.
fn is_read_differently(text: &str, url: &Url) -> bool {
    let odd = |character: char| {
        character.is_control() || character.is_whitespace() || matches!(character, '\\' | '{' | '}')
    };
    let behind = text.split_once(':').map_or("", |(_, behind)| behind);
    let has_slashes = behind.starts_with("//") && !behind.starts_with("///");
    let is_file = url.scheme() == "file";
    text.contains(odd) || (url.is_special() && !is_file && (!has_slashes || hides_user(behind)))
}

/// Whether a user's name may end where the host does: `//a.b?@c.d`.
fn hides_user(behind: &str) -> bool {
    let authority = behind.trim_start_matches('/');
    let end = authority.find(['/', '?', '#']);
    let rest = end.and_then(|at| authority.get(at..)).unwrap_or_default();
    let until_path = rest.split('/').next().unwrap_or_default();
    until_path.contains('@')
}

fn without_dots(host: &str) -> String {
    host.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, url: &str) -> bool {
        let pattern = HostPattern::parse(pattern).unwrap();
        let url = PreparedUrl::new(url);
        url.narrow.is_some_and(|target| pattern.matches(&target))
    }

    #[test]
    fn hosts_are_compared_in_their_normal_form() {
        let cases = [
            ("example.com", "https://EXAMPLE.com./x", true),
            ("Example.com", "http://example.com:8080/", true),
            ("example.com:443", "https://example.com/", true),
            ("example.com:443", "https://example.com:8443/", false),
            ("bücher.de", "https://xn--bcher-kva.de/", true),
            ("127.0.0.1", "http://0x7f.1/", true),
            ("[::1]", "http://[0:0::1]:80/", true),
            ("*.example.com", "https://a.b.example.com/", true),
            ("*.example.com", "https://example.com/", false),
            ("*.example.com", "https://badexample.com/", false),
            (
                "docs.example.com",
                "https://docs.example.com.evil.net/",
                false,
            ),
            ("example.com", "https://example.com@evil.net/", false),
            ("example.com", "https://user@example.com/", false),
            ("example.com", "https://evil.net\\@example.com/", false),
            ("example.com", "file:///etc/passwd", false),
            ("example.com", "file://example.com/etc/passwd", false),
            ("example.com", "dict://example.com:11211/", false),
            ("example.com", "javascript://example.com/%0aalert", false),
            ("example.com", "https:example.com", false),
            ("example.com", "https:/example.com", false),
            ("example.com", "https:///example.com", false),
            ("example.com", "http://example.com#@evil.net/", false),
            ("example.com", "http://example.com?@evil.net/", false),
            ("example.com", "http://example.com/?q=a@evil.net", true),
            ("example.com", "https://example.com../", true),
            ("a.b", "https://a.{b,c}/", false),
        ];
        for (pattern, url, expected) in cases {
            assert_eq!(matches(pattern, url), expected, "`{pattern}` on `{url}`");
        }
    }

    #[test]
    fn what_stops_sees_every_host_that_may_be_meant() {
        let hosts = |url: &str| -> Vec<String> {
            let targets = PreparedUrl::new(url).wide;
            targets.into_iter().map(|target| target.host).collect()
        };
        assert_eq!(hosts("https://user@evil.net/"), ["evil.net"]);
        assert_eq!(hosts("evil.net/x"), ["evil.net"]);
        assert_eq!(hosts("evil.net:80/x"), ["evil.net"]);
        assert_eq!(hosts("http://ev\til.net/"), ["evil.net"]);
        for (url, host) in [
            ("foo://EVIL.net/", "evil.net"),
            ("foo://evil%2enet/", "evil.net"),
            ("redis://LOCALHOST:6379", "localhost"),
            ("redis://127.0.0.01:6379", "127.0.0.1"),
            ("gopher://127.1", "127.0.0.1"),
            ("foo://0x7f.1", "127.0.0.1"),
            ("http://[::ffff:127.0.0.1]", "127.0.0.1"),
            ("ssh://[::ffff:7f00:1]", "127.0.0.1"),
            ("http://[::127.0.0.1]", "127.0.0.1"),
            ("jar:http://evil.net/!/", "evil.net"),
            ("view-source:http://evil.net", "evil.net"),
            ("url:http://evil.net", "evil.net"),
            ("foo:evil.net", "evil.net"),
            ("http://evil.net../", "evil.net"),
            ("http://0/", "localhost"),
            ("http://0.0.0.0:80/", "127.0.0.1"),
            ("http://[::]/", "[::1]"),
            ("http://127.9.9.9/", "localhost"),
            ("http://a.localhost/", "127.0.0.1"),
            ("http://[::ffff:0:0]/", "localhost"),
        ] {
            assert!(
                hosts(url).contains(&host.to_owned()),
                "{url}: {:?}",
                hosts(url)
            );
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "*",
            "*.com.*",
            "a*b.com",
            "user@h",
            "h/x",
            "h:x",
            "*.127.0.0.1",
            "a b",
        ] {
            let error = HostPattern::parse(text).unwrap_err();
            assert_eq!(error.code(), "rule_host_invalid", "`{text}`");
        }
    }
}
