//! The MCP servers of a configuration: what is refused, and the program with
//! their tools among its actions, whichever way it is told of them.

#[path = "support/program.rs"]
mod program;

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::config::Config;
use a11_grpc::mcp::{
    McpOptions, McpServer, Reach,
    http::{HttpBody, HttpOptions},
};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use program::{run, serving};
use serde_json::{Value, json};
use tokio::net::TcpListener;

fn parse(servers: &str) -> Config {
    let text = format!("[actions.good]\ncommand = ['true']\n{servers}");
    let config = Config::parse(&text, Path::new("a.toml"), Path::new("/etc/a11"));
    let config = config.expect("a config");
    assert_eq!(config.commands.len(), 1);
    config
}

#[test]
fn a_broken_server_is_refused_with_its_key_and_hides_nothing() {
    let check = |broken: &str, expected: &str| {
        let good = "[mcp_servers.good]\nurl = 'http://localhost/mcp'\n";
        let config = parse(&format!("{good}[mcp_servers.bad]\n{broken}"));
        let said: Vec<_> = config.refused.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{broken}: {said:?}");
        assert!(said[0].starts_with("MCP server \"bad\": a.toml:"), "{said:?}");
        assert!(said[0].contains(expected), "{said:?}");
        assert_eq!(config.mcp_servers.len(), 1);
    };
    check("", ":5: it needs either `command` or `url`");
    check("command = 'a'\nurl = 'http://b'", "it needs either `command` or `url`");
    check("comand = 'a'", ":6: unknown field `comand`");
    check("command = 'a'\nargs = 'b'", ":7: args: invalid type");
    check("command = 'a'\nheaders = { b = 'c' }", "headers: it has no meaning beside `command`");
    check("url = 'http://a'\nargs = ['b']", "args: it has no meaning beside `url`");
    check("url = 'http://a'\nworking_directory = 'b'", "working_directory: it has no meaning");
    check("url = 'ws://a'", "url: the scheme is \"ws\"");
    check("url = 'http://a'\nheaders = { 'b c' = 'd' }", "headers: \"b c\" cannot be sent");
    check("command = '${NO_SUCH_VARIABLE_HERE}'", "command: the environment has no variable");
    check("command = 'a'\nprefix = 'b/'", "prefix: \"b/\"");
}

#[test]
fn paths_are_relative_to_the_file_and_a_bare_name_is_looked_up() {
    let check = |server: &str, command: &str, directory: &str| {
        let config = parse(&format!("[mcp_servers.a]\n{server}"));
        let Reach::Command { command: found, cwd, .. } = &config.mcp_servers[0].reach else {
            panic!("a command");
        };
        let cwd = cwd.as_ref().map(|cwd| cwd.components().collect::<PathBuf>());
        assert_eq!((found.as_str(), cwd), (command, Some(directory.into())), "{server}");
    };
    check("command = 'npx'", "npx", "/etc/a11");
    check("command = './s'\nworking_directory = 'w'", "/etc/a11/./s", "/etc/a11/w");
    check("command = '/usr/bin/s'\nworking_directory = '/w'", "/usr/bin/s", "/w");
    assert!(parse("[mcp_servers.a]\ncommand = 'x'\nenabled = false").mcp_servers.is_empty());
}

/// A folder with a config of one action, `shout`, and one that takes in the
/// program with that config.
fn configs(folder: &Path) -> (String, String) {
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (far, near) = (folder.join("far.toml"), folder.join("near.toml"));
    std::fs::write(&far, "[actions.shout]\ncommand = ['echo', 'loud']\n").expect("written");
    let args = json!(["--log", "error", "serve", "--mcp-stdio", "--config", "far.toml"]);
    let server = format!(
        "[mcp_servers.far]\nprefix = 'far_'\ncommand = {}\nargs = {args}\n\
         [mcp_servers.gone]\ncommand = './no-such-program'\n\
         [mcp_servers.bad]\ncomand = 'x'\n",
        json!(env!("CARGO_BIN_EXE_a11-grpc")),
    );
    std::fs::write(&near, server).expect("written");
    (text(&far), text(&near))
}

#[tokio::test]
async fn every_command_has_the_tools_of_the_configs_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, near) = configs(folder.path());
    let listed = run(&["actions", "--config", &near]).await;
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(listed.stdout.contains("far_shout"), "{}", listed.stdout);
    assert!(listed.stdout.contains("http_fetch"), "{}", listed.stdout);
    assert!(listed.stderr.contains("left out MCP server \"bad\""), "{}", listed.stderr);
    assert!(listed.stderr.contains("gone"), "{}", listed.stderr);
    let called = run(&["call", "far_shout", "--config", &near]).await;
    assert_eq!((called.code, called.stdout.trim()), (0, "loud"), "{}", called.stderr);
}

#[tokio::test]
async fn a_strict_server_does_not_start_with_a_part_that_is_broken() {
    let folder = tempfile::tempdir().expect("a folder");
    let (far, near) = configs(folder.path());
    let list = folder.path().join("list.json");
    std::fs::write(&list, r#"{"mcpServers": {"bad": {}}}"#).expect("written");
    let list = list.to_str().expect("UTF-8");
    let check = async |flags: &[&str], expected: &str| {
        let start = ["serve", "--listen", "127.0.0.1:0", "--strict"];
        let ran = run(&[&start[..], flags].concat()).await;
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert!(!ran.stderr.contains("listening"), "{}", ran.stderr);
    };
    check(&["--config", &near], "left out MCP server \"bad\"").await;
    check(&["--config", &far, "--mcp-servers", list], "--strict: 1 of").await;
}

/// Waits until a service has some actions.
async fn until_there(address: &str, expected: &[&str]) {
    let there = async {
        loop {
            let listed = run(&["actions", "--json", "--server", address]).await;
            let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
            let actions = listed["actions"].as_array().expect("actions");
            let is_there = |name: &&str| actions.iter().any(|action| action["name"] == **name);
            if expected.iter().all(is_there) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), there).await.expect("the tools are taken in");
}

#[tokio::test]
async fn a_server_on_the_command_line_is_an_address_or_a_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let (far, _) = configs(folder.path());
    let line = format!("'{}' serve --mcp-stdio --config '{far}'", env!("CARGO_BIN_EXE_a11-grpc"));
    let near = serving(&["--mcp-server", &line], &[]).await;
    until_there(&near.address, &["shout"]).await;
    let called = run(&["call", "shout", "--server", &near.address]).await;
    assert_eq!((called.code, called.stdout.trim()), (0, "loud"), "{}", called.stderr);
    let refused = run(&["serve", "--mcp-server", "ftp://x"]).await;
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("the scheme is \"ftp\""), "{}", refused.stderr);
}

/// An MCP server whose only tool is there for whoever sends a header; its URL.
async fn guarded(name: &'static str, value: &'static str) -> String {
    let registry = Registry::new();
    let schema = ActionSchema::builder("guarded").output(Port::text("secret")).build();
    let tell = handler(|context: Context| async move { context.write("secret", "told").await });
    registry.register(schema, tell).expect("registered");
    let options = McpOptions::new(Arc::new(registry));
    let service = McpServer::new(options).http_service(&HttpOptions::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            let guard = service_fn(move |request: http::Request<Incoming>| {
                let service = service.clone();
                async move {
                    if request.headers().get(name).is_none_or(|sent| sent != value) {
                        let mut response = http::Response::new(HttpBody::default());
                        *response.status_mut() = http::StatusCode::UNAUTHORIZED;
                        return Ok::<_, Infallible>(response);
                    }
                    Ok(service.handle(request).await)
                }
            });
            tokio::spawn(async move {
                let connections = auto::Builder::new(TokioExecutor::new());
                let _ = connections.serve_connection(TokioIo::new(stream), guard).await;
            });
        }
    });
    url
}

#[tokio::test]
async fn the_file_of_other_hosts_has_its_servers_taken_in_with_headers_and_variables() {
    let folder = tempfile::tempdir().expect("a folder");
    let (far, _) = configs(folder.path());
    let url = guarded("authorization", "Bearer t0ken").await;
    let start =
        format!("exec '{}' serve --mcp-stdio --config \"$FAR\"", env!("CARGO_BIN_EXE_a11-grpc"));
    let list = json!({"mcpServers": {
        "near": {"command": "sh", "args": ["-c", start], "env": {"FAR": far}, "prefix": "near_"},
        "web": {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${TEST_TOKEN}"}},
        "off": {"command": "no-such-program", "disabled": true},
    }});
    let path = folder.path().join("list.json");
    std::fs::write(&path, list.to_string()).expect("written");
    let path = path.to_str().expect("UTF-8");
    // A system without roots of its own, as small containers are.
    let none = folder.path().join("none");
    let none = none.to_str().expect("UTF-8");
    let variables = [("TEST_TOKEN", "t0ken"), ("SSL_CERT_FILE", none), ("SSL_CERT_DIR", none)];
    let near = serving(&["--strict", "--mcp-servers", path], &variables).await;
    until_there(&near.address, &["near_shout", "guarded"]).await;
    for (action, expected) in [("near_shout", "loud"), ("guarded", "told")] {
        let called = run(&["call", action, "--server", &near.address]).await;
        assert_eq!((called.code, called.stdout.trim()), (0, expected), "{}", called.stderr);
    }
}
