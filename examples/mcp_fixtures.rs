//! Serves the tests' fixture actions over MCP, for clients in other languages:
//! `stdio`, or `http`, which says its URL on standard output.

#[path = "../tests/support/fixtures.rs"]
mod fixtures;

use std::{env, future::pending, io::Write as _, time::Duration};

use a11_grpc::mcp::{McpOptions, McpServer, http::HttpOptions};
use anyhow::bail;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = McpServer::new(McpOptions::new(fixtures::registry()));
    let grace = Duration::from_secs(10);
    match env::args().nth(1).as_deref() {
        Some("stdio") => server.serve_stdio(pending(), grace).await?,
        Some("http") => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            writeln!(std::io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
            server.serve_http(listener, &HttpOptions::default(), pending(), grace).await;
        }
        _ => bail!("usage: mcp_fixtures stdio|http"),
    }
    Ok(())
}
