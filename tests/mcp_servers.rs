//! The MCP servers of a configuration: what is refused, and the program with
//! their tools among its actions, whichever way it is told of them.

#[path = "support/program.rs"]
#[allow(dead_code)]
mod program;

use std::path::{Path, PathBuf};

use a11_grpc::config::Config;
use a11_grpc::mcp::Reach;
use program::run;
use serde_json::{Value, json};

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
async fn a_server_on_the_command_line_is_an_address_or_a_command_line() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    let folder = tempfile::tempdir().expect("a folder");
    let (far, _) = configs(folder.path());
    let line = format!("'{}' serve --mcp-stdio --config '{far}'", env!("CARGO_BIN_EXE_a11-grpc"));
    let args = ["serve", "--listen", "127.0.0.1:0", "--mcp", "127.0.0.1:0", "--mcp-server", &line];
    let mut child = program::command(&args)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut address = None;
    while address.is_none() {
        let line = lines.next_line().await.expect("read").expect("it says where it is");
        address = line.strip_prefix("listening on ").map(str::to_owned);
    }
    let address = address.expect("said");
    // The tools are there once the server that was started has listed them.
    let found = tokio::time::timeout(std::time::Duration::from_secs(30), async {
        loop {
            let listed = run(&["actions", "--json", "--server", &address]).await;
            let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
            let actions = listed["actions"].as_array().expect("actions");
            if actions.iter().any(|action| action["name"] == "shout") {
                return;
            }
        }
    });
    found.await.expect("the tool is taken in");
    let called = run(&["call", "shout", "--server", &address]).await;
    assert_eq!((called.code, called.stdout.trim()), (0, "loud"), "{}", called.stderr);
    let refused = run(&["serve", "--mcp-server", "ftp://x"]).await;
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("the scheme is \"ftp\""), "{}", refused.stderr);
}
