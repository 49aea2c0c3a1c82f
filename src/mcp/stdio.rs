//! Stdio: one client on this process's input and output, a message a line.
//!
//! Output is the protocol's alone: nothing else in the process may write there.

use std::{future::Future, io, time::Duration};

use rmcp::ServiceExt as _;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{lines::Lines, server::McpServer, tools::Tools};

/// How long past the longest call an answer may take to be written.
const FLUSH: Duration = Duration::from_secs(5);

/// Why serving on stdio ended badly.
#[derive(Debug, Error)]
pub enum StdioError {
    /// The handshake came to nothing.
    #[error("the client did not open the protocol: {0}")]
    Handshake(String),
    /// Output can no longer be written.
    #[error("output failed: {0}")]
    Output(#[from] io::Error),
}

impl McpServer {
    /// Serves this process's input and output until the input ends or `stop`
    /// resolves; then every call that was accepted finishes, and its answer is
    /// written. After `stop` calls are given `grace` for that; after the end of
    /// input they have their deadline.
    ///
    /// Reading this process's input leaves a thread behind that ends with it: a
    /// program that returns before its input ended should
    /// [shut its runtime down](tokio::runtime::Runtime::shutdown_background)
    /// without waiting.
    ///
    /// # Errors
    /// Where the client leaves before the protocol is open, or takes no more
    /// answers.
    pub async fn serve_stdio(
        &self,
        stop: impl Future<Output = ()>,
        grace: Duration,
    ) -> Result<(), StdioError> {
        self.serve_lines(tokio::io::stdin(), tokio::io::stdout(), stop, grace).await
    }

    /// The same over any pair of streams.
    ///
    /// # Errors
    /// As [`serve_stdio`](Self::serve_stdio).
    pub async fn serve_lines(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future<Output = ()>,
        grace: Duration,
    ) -> Result<(), StdioError> {
        let end_of_input = CancellationToken::new();
        let cut = CancellationToken::new();
        let longest = self.0.options.deadline.saturating_add(FLUSH);
        let (lines, written) = Lines::new(input, output, end_of_input.clone(), longest);
        let serve = async {
            match Tools::new(self).serve_with_ct(lines, cut.clone()).await {
                Ok(running) => {
                    let _ = running.waiting().await;
                    Ok(())
                }
                // The input may end before anything was asked.
                Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
                Err(error) => Err(StdioError::Handshake(error.to_string())),
            }
        };
        tokio::pin!(serve);
        let served = tokio::select! {
            served = &mut serve => served,
            () = stop => {
                end_of_input.cancel();
                match tokio::time::timeout(grace, &mut serve).await {
                    Ok(served) => served,
                    Err(_) => {
                        cut.cancel();
                        serve.await
                    }
                }
            }
        };
        // Nothing holds the lines any more, so the writer ends when it has
        // written all it was given.
        let written = tokio::time::timeout(FLUSH, written.ended()).await;
        served?;
        written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(())
    }
}
