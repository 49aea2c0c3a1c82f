//! The `mcpServers` JSON of MCP hosts: which servers there are and how each is
//! reached.

use std::{collections::BTreeMap, env, path::PathBuf};

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::variables::{Lookup, VariableError, completed};

/// One MCP server to take tools in from.
#[derive(Debug, Clone, PartialEq)]
pub struct McpSource {
    /// What it is called here.
    pub name: String,
    /// What its actions' names begin with; empty for the tools' own names.
    pub prefix: String,
    /// How it is reached.
    pub reach: Reach,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    /// It is started, and spoken to on its input and output.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment beside this process's.
        env: BTreeMap<String, String>,
        /// Where it runs; here where absent.
        cwd: Option<PathBuf>,
    },
    /// Over Streamable HTTP.
    Url {
        /// Its address.
        url: String,
        /// What is sent with each request.
        headers: Vec<(HeaderName, HeaderValue)>,
    },
}

/// The text is no list of servers.
#[derive(Debug, Error)]
#[error("not a list of MCP servers: {0}")]
pub struct ServerListError(#[from] serde_json::Error);

/// A server that was left out, and why. The others are there.
#[derive(Debug, Error)]
#[error("MCP server {server:?}: {fault}")]
pub struct RefusedServer {
    /// What it is called.
    pub server: String,
    /// What is wrong with it.
    #[source]
    pub fault: ServerFault,
}

/// What is wrong with one server.
#[derive(Debug, Error)]
pub enum ServerFault {
    /// A key has a value that it cannot have.
    #[error("{key}: {error}")]
    Key {
        /// The key.
        key: String,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// It is both, or neither, a command and an address.
    #[error("it needs either `command` or `url`")]
    Reach,
    /// It is neither, and has keys that mean nothing here.
    #[error("it needs either `command` or `url`; {0} is not known")]
    Unknown(String),
    /// A key that has no meaning for a server reached that way.
    #[error("{key}: it has no meaning beside `{beside}`")]
    Stray {
        /// The key.
        key: &'static str,
        /// How the server is reached.
        beside: &'static str,
    },
    /// An address that cannot be reached over HTTP.
    #[error("url: {0}")]
    Url(UrlFault),
    /// What seems to be an address is no command.
    #[error("it has no scheme; did you mean {0}?")]
    Scheme(String),
    /// A header that cannot be sent.
    #[error("headers: {0:?} cannot be sent")]
    Header(String),
    /// A prefix that no action's name can begin with.
    #[error("prefix: {0:?} has characters that no action's name has")]
    Prefix(String),
    /// A variable that has no value.
    #[error("{key}: {error}")]
    Variable {
        /// The key it stands in.
        key: &'static str,
        /// What is wrong with it.
        error: VariableError,
    },
    /// A command line that is none.
    #[error("a quote in the command line is not closed")]
    Quotes,
}

/// What is wrong with an address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlFault {
    /// It is no URL.
    #[error("{0}")]
    Malformed(#[from] url::ParseError),
    /// Another scheme than http and https.
    #[error("the scheme is {0:?}; http and https can be reached")]
    Scheme(String),
    /// A user name or a password in it.
    #[error("it has a user name or a password in it; use `headers`")]
    Userinfo,
}

/// One entry as hosts write it, and as a configuration has it. In every text
/// `${NAME}` is a variable of the environment.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct McpServerEntry {
    pub(crate) command: Option<String>,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: Option<PathBuf>,
    // What some hosts call it.
    #[serde(alias = "httpUrl", alias = "serverUrl")]
    pub(crate) url: Option<String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) prefix: String,
    #[serde(default)]
    pub(crate) disabled: bool,
}

impl McpServerEntry {
    /// The server that the entry describes; `None` for one that is disabled.
    ///
    /// # Errors
    /// Where it cannot be reached as it says.
    pub fn into_source(self, name: &str) -> Result<Option<McpSource>, ServerFault> {
        self.source(name, &|variable| env::var(variable).ok())
    }

    fn source(self, name: &str, lookup: Lookup<'_>) -> Result<Option<McpSource>, ServerFault> {
        let Self { command, args, env, cwd, url, headers, prefix, disabled } = self;
        if disabled {
            return Ok(None);
        }
        let fits = |character: char| character.is_ascii_alphanumeric() || "-_#".contains(character);
        if !prefix.chars().all(fits) {
            return Err(ServerFault::Prefix(prefix));
        }
        let complete = |key: &'static str, text: &str| {
            completed(text, lookup).map_err(|error| ServerFault::Variable { key, error })
        };
        let reach = match (command, url) {
            (Some(command), None) => {
                if !headers.is_empty() {
                    return Err(ServerFault::Stray { key: "headers", beside: "command" });
                }
                let set = |(name, value): (String, String)| Ok((name, complete("env", &value)?));
                Reach::Command {
                    command: complete("command", &command)?,
                    args: args.iter().map(|arg| complete("args", arg)).collect::<Result<_, _>>()?,
                    env: env.into_iter().map(set).collect::<Result<_, _>>()?,
                    cwd,
                }
            }
            (None, Some(url)) => {
                let stray = [("args", args.is_empty()), ("env", env.is_empty())];
                if let Some((key, _)) = stray.into_iter().find(|(_, is_empty)| !is_empty) {
                    return Err(ServerFault::Stray { key, beside: "url" });
                }
                let header = |(key, value): (String, String)| {
                    let value = complete("headers", &value)?;
                    match (key.parse(), value.parse()) {
                        (Ok(key), Ok(value)) => Ok((key, value)),
                        _ => Err(ServerFault::Header(key)),
                    }
                };
                let headers = headers.into_iter().map(header).collect::<Result<_, _>>()?;
                let url = complete("url", &url)?;
                check_url(&url).map_err(ServerFault::Url)?;
                Reach::Url { url, headers }
            }
            _ => return Err(ServerFault::Reach),
        };
        Ok(Some(McpSource { name: name.to_owned(), prefix, reach }))
    }
}

fn check_url(text: &str) -> Result<(), UrlFault> {
    let url = url::Url::parse(text)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlFault::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlFault::Userinfo);
    }
    Ok(())
}

/// What a list says.
#[derive(Debug, Default)]
pub struct ServerList {
    /// The servers that can be taken in, by name.
    pub servers: Vec<McpSource>,
    /// Those that cannot.
    pub refused: Vec<RefusedServer>,
}

/// Reads the JSON that hosts keep: `{"mcpServers": {NAME: {"command": …, "args":
/// …, "env": …} or {"url": …, "headers": …}}}`, or `servers` for `mcpServers`. An
/// entry may have a `prefix` for its actions' names; one that is `disabled` is
/// left out. One that is broken hides no other.
///
/// # Errors
/// Where it is no such list.
pub fn read(json: &str) -> Result<ServerList, ServerListError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Entries {
        #[serde(alias = "servers")]
        mcp_servers: BTreeMap<String, Value>,
    }
    let Entries { mcp_servers } = serde_json::from_str(json)?;
    let mut list = ServerList::default();
    for (server, entry) in mcp_servers {
        let unknown = unknown_keys(&entry);
        let entry: Result<McpServerEntry, _> = serde_path_to_error::deserialize(entry);
        let source = entry
            .map_err(|error| ServerFault::Key {
                key: error.path().to_string(),
                error: error.into_inner(),
            })
            .and_then(|entry| entry.into_source(&server))
            .map_err(|fault| match (fault, unknown) {
                (ServerFault::Reach, Some(unknown)) => ServerFault::Unknown(unknown),
                (fault, _) => fault,
            });
        match source {
            Ok(source) => list.servers.extend(source),
            Err(fault) => list.refused.push(RefusedServer { server, fault }),
        }
    }
    Ok(list)
}

/// The keys of an entry that say nothing, other than those that hosts have for
/// themselves.
fn unknown_keys(entry: &Value) -> Option<String> {
    const KNOWN: [&str; 11] = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "httpUrl",
        "serverUrl",
        "headers",
        "prefix",
        "disabled",
        "type",
    ];
    let keys = entry.as_object()?.keys().filter(|key| !KNOWN.contains(&key.as_str()));
    let keys: Vec<_> = keys.map(|key| format!("{key:?}")).collect();
    (!keys.is_empty()).then(|| keys.join(", "))
}

/// The server that a text on a command line means: an `http://` or `https://`
/// address, or else a command line, whose words are split as a shell would and
/// nothing more.
///
/// # Errors
/// Where it is neither.
pub fn from_argument(text: &str) -> Result<McpSource, RefusedServer> {
    let server = || text.chars().take(255).collect::<String>();
    let refused = |fault| RefusedServer { server: server(), fault };
    let first = text.split_whitespace().next().unwrap_or_default();
    let reach = if first.contains("://") {
        check_url(text.trim()).map_err(|fault| refused(ServerFault::Url(fault)))?;
        Reach::Url { url: text.trim().to_owned(), headers: vec![] }
    } else if let Some(url) = url_without_scheme(text.trim()) {
        return Err(refused(ServerFault::Scheme(url)));
    } else {
        let words = shlex::split(text).ok_or_else(|| refused(ServerFault::Quotes))?;
        let mut words = words.into_iter();
        let command = words.next().ok_or_else(|| refused(ServerFault::Reach))?;
        Reach::Command { command, args: words.collect(), env: BTreeMap::new(), cwd: None }
    };
    Ok(McpSource { name: server(), prefix: String::new(), reach })
}

/// The address that somebody meant who left out `http://`: `HOST:PORT`, with a path
/// or without. No command has such a name.
fn url_without_scheme(text: &str) -> Option<String> {
    let (authority, _path) = text.split_once('/').unwrap_or((text, ""));
    let (host, port) = authority.rsplit_once(':')?;
    let is_host = !host.is_empty() && !text.contains(char::is_whitespace);
    let url = format!("http://{text}");
    (is_host && port.parse::<u16>().is_ok() && url::Url::parse(&url).is_ok()).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_scheme_is_no_command() {
        let check = |text: &str, expected: Option<&str>| {
            let said = from_argument(text).err().map(|error| error.to_string());
            let meant = said.as_deref().and_then(|it| it.split("did you mean ").nth(1));
            assert_eq!(meant, expected, "{text}: {said:?}");
        };
        check("127.0.0.1:8013/mcp", Some("http://127.0.0.1:8013/mcp?"));
        check("localhost:8013", Some("http://localhost:8013?"));
        check("[::1]:8013/mcp", Some("http://[::1]:8013/mcp?"));
        check("npx -y server", None);
        check("./serve:8013 --all", None);
        check("C:/tools/server", None);
        check("docker run image:8080", None);
        check("http://127.0.0.1:8013/mcp", None);
    }

    #[test]
    fn the_list_that_hosts_keep_is_read() {
        let list = r#"{"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "files"], "env": {"A": "b"}},
            "far": {"type": "http", "url": "https://far.example/mcp",
                "headers": {"Authorization": "Bearer x"}, "prefix": "far_"},
            "other": {"httpUrl": "https://other.example/mcp"},
            "off": {"command": "x", "disabled": true}}}"#;
        let ServerList { servers, refused } = read(list).expect("read");
        let [far, files, other] = &servers[..] else { panic!("{servers:?}") };
        assert!(refused.is_empty(), "{refused:?}");
        assert_eq!((far.name.as_str(), far.prefix.as_str()), ("far", "far_"));
        assert!(
            matches!(&far.reach, Reach::Url { headers, .. } if headers[0].0 == "authorization")
        );
        assert!(matches!(&files.reach, Reach::Command { command, args, .. }
            if command == "npx" && args.len() == 2));
        assert!(matches!(&other.reach, Reach::Url { .. }));
    }

    #[test]
    fn an_unusable_entry_is_named_with_its_key_and_hides_no_other() {
        let check = |entry: &str, expected: &str| {
            let list = format!(r#"{{"servers": {{"a": {entry}, "b": {{"command": "c"}}}}}}"#);
            let ServerList { servers, refused } = read(&list).expect("read");
            assert_eq!(servers.len(), 1, "{servers:?}");
            let said = refused[0].to_string();
            assert!(said.starts_with(r#"MCP server "a": "#) && said.contains(expected), "{said}");
        };
        check("{}", "either `command` or `url`");
        check(r#"{"comand": "c"}"#, r#""comand" is not known"#);
        check("7", "expected struct");
        check(r#"{"url": "http://u", "command": "c"}"#, "either `command` or `url`");
        check(r#"{"command": "c", "args": "x"}"#, "args: ");
        check(r#"{"command": "c", "headers": {"a": "b"}}"#, "headers: ");
        check(r#"{"url": "http://u", "env": {"a": "b"}}"#, "env: ");
        check(r#"{"url": "http://u", "headers": {"x y": ""}}"#, r#""x y""#);
        check(r#"{"url": "ftp://u"}"#, r#"url: the scheme is "ftp""#);
        check(r#"{"url": "http://a:b@u"}"#, "url: it has a user name");
        check(r#"{"command": "c", "prefix": "a/"}"#, r#"prefix: "a/""#);
        check(r#"{"command": "c", "args": ["${input:x}"]}"#, "args: `${input:x}`");
        assert!(read("{}").is_err());
    }

    #[test]
    fn variables_stand_for_what_the_environment_holds() {
        let entry = McpServerEntry {
            url: Some("https://${HOST}/mcp".into()),
            headers: [("authorization".to_owned(), "Bearer ${TOKEN}".to_owned())].into(),
            ..McpServerEntry::default()
        };
        let lookup = |name: &str| Some(name.to_lowercase());
        let source = entry.source("a", &lookup).expect("usable").expect("enabled");
        let Reach::Url { url, headers } = source.reach else { panic!("a url") };
        assert_eq!(
            (url.as_str(), headers[0].1.as_bytes()),
            ("https://host/mcp", &b"Bearer token"[..])
        );
    }

    #[test]
    fn an_argument_is_an_address_or_a_command_line() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let reach = from_argument(text).expect(text).reach;
            match (reach, expected) {
                (Reach::Url { url, .. }, None) => assert_eq!(url, text),
                (Reach::Command { command, args, .. }, Some(words)) => {
                    assert_eq!([vec![command], args].concat(), words, "{text}");
                }
                (reach, _) => panic!("{text}: {reach:?}"),
            }
        };
        check("http://localhost:8013/mcp", None);
        check("npx -y server-x", Some(&["npx", "-y", "server-x"]));
        check("./server 'a b' \\$HOME", Some(&["./server", "a b", "$HOME"]));
        check("server http://x", Some(&["server", "http://x"]));
        for text in ["", "ftp://x", "http://", "server 'x"] {
            assert!(from_argument(text).is_err(), "{text}");
        }
    }
}
