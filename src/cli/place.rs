//! Where conversations are: a server's store, or one that is opened here.

use std::path::Path;

use clap::Args;
use tonic::transport::Channel;

use super::{exit::Failure, output::tell, target::registry};
use crate::client::{self, connect};
use crate::interaction::store;
use crate::serve::in_process;
use crate::wire::pb::interaction_service_client::InteractionServiceClient;

/// What a command speaks to, wherever it is.
pub(super) type Client = InteractionServiceClient<Channel>;

/// Where conversations are kept. A server goes before a store, a flag before the
/// environment.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// Use the store of the server at this address [env: A11_SERVER_URL]
    #[arg(long, value_name = "URL", global = true, conflicts_with = "store")]
    server: Option<String>,

    /// Open this store: a SQLite file, or postgres://USER@HOST/DATABASE
    /// [env: A11_STORE]
    #[arg(long, value_name = "PLACE", global = true)]
    store: Option<String>,
}

/// Whether a store's file must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Before,
    Perhaps,
}

impl Place {
    /// The place of a conversation that is there: no store is made.
    pub(super) async fn existing(&self) -> Result<Client, Failure> {
        self.client(Made::Before).await
    }

    /// The place where a conversation may begin.
    pub(super) async fn any(&self) -> Result<Client, Failure> {
        self.client(Made::Perhaps).await
    }

    async fn client(&self, made: Made) -> Result<Client, Failure> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let store = match (&self.server, &self.store) {
            (Some(url), _) => return Ok(client::interactions(connect(url).await?)),
            (None, Some(store)) => Some(store.clone()),
            (None, None) => match variable("A11_SERVER_URL") {
                Some(url) => return Ok(client::interactions(connect(&url).await?)),
                None => variable("A11_STORE"),
            },
        };
        let store = store.ok_or(Failure::NoPlace)?;
        if made == Made::Before && !store.contains("://") && !Path::new(&store).exists() {
            return Err(Failure::NoStore(store));
        }
        let store = store::open(&store).await?;
        Ok(client::interactions(
            in_process(registry(None, &[], &tell)?.registry, Some(store)).await?,
        ))
    }
}
