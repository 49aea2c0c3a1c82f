//! Serves the tests' fixture actions over MCP, for clients in other languages:
//! `stdio`, or `http`, which says its URL on standard output; then how many
//! milliseconds a call may take.

#[path = "../tests/support/fixtures.rs"]
mod fixtures;
#[path = "../tests/support/mcp_fixtures.rs"]
mod mcp_fixtures;

use std::{env, future::pending, io::Write as _, time::Duration};

use a11_grpc::mcp::{McpServer, http::HttpOptions};
use anyhow::bail;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let deadline = match env::args().nth(2) {
        Some(millis) => Some(Duration::from_millis(millis.parse()?)),
        None => None,
    };
    let server = McpServer::new(mcp_fixtures::options(fixtures::registry(), deadline));
    let grace = Duration::from_secs(10);
    match env::args().nth(1).as_deref() {
        Some("stdio") => server.serve_stdio(pending(), grace).await?,
        Some("http") => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            writeln!(std::io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
            server.serve_http(listener, &HttpOptions::default(), pending(), grace).await;
        }
        _ => bail!("usage: mcp_fixtures stdio|http [MILLISECONDS]"),
    }
    Ok(())
}
