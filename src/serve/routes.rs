//! What is served: the services, reflection over all of them, and health.

use std::sync::Arc;

use tonic::{
    codec::CompressionEncoding,
    server::NamedService,
    service::{Routes, RoutesBuilder},
};
use tonic_health::{ServingStatus, server::HealthReporter};

use super::limits::Limits;
use crate::action::{Handlers, Registry};
use crate::runner::Recorder;
use crate::service::{ActionApi, AsPromised, InteractionApi, NodeApi, PeerApi};
use crate::session::{Config, Directory, FreeNodes};
use crate::wire::pb::{
    FILE_DESCRIPTOR_SET, action_service_server::ActionServiceServer,
    interaction_service_server::InteractionServiceServer, node_service_server::NodeServiceServer,
};

/// The health of what is served.
pub(super) struct Health {
    reporter: HealthReporter,
    services: Vec<&'static str>,
}

/// The health service's name for the server as a whole.
const WHOLE_SERVER: &str = "";

impl Health {
    /// Says of everything whether it serves.
    pub(super) async fn set(&self, status: ServingStatus) {
        for service in &self.services {
            self.reporter.set_service_status(service, status).await;
        }
    }

    /// Ends the streams of those who watch, which would hold up the shutdown.
    pub(super) async fn close(mut self) {
        for service in self.services {
            self.reporter.clear_service_status(service).await;
        }
    }
}

/// Everything that is served, and what must be told when it stops.
pub(super) struct Served {
    pub(super) routes: Routes,
    pub(super) health: Health,
    /// The sessions of attached peers.
    pub(super) directory: Arc<Directory>,
    /// The handlers that run here, whoever called them.
    pub(super) handlers: Arc<Handlers>,
}

/// The services of a registry, and of a store where there is one, all of them
/// serving.
pub(super) async fn routes(
    registry: Arc<Registry>,
    recorder: Option<Recorder>,
    limits: &Limits,
) -> Result<Served, tonic_reflection::server::Error> {
    let (reporter, health_service) = tonic_health::server::health_reporter();
    let mut services = vec![WHOLE_SERVER];
    let mut routes = RoutesBuilder::default();

    // Taken compressed, answered plain: most clients say that they accept gzip
    // and few gain by it.
    let mut actions = ActionApi::new(registry.clone());
    let handlers = actions.handlers().clone();
    let sessions =
        Config { grace: limits.session_grace, max_sessions: limits.sessions, ..Config::default() };
    let directory = Directory::new(registry, handlers.clone(), sessions);
    actions = actions.reachable_in(directory.runs().clone());
    let mut interactions = InteractionApi::without_store();
    if let Some(recorder) = recorder {
        interactions = InteractionApi::new(recorder.store().clone());
        actions = actions.recording(recorder);
    }
    let actions = ActionServiceServer::new(actions)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
        .max_decoding_message_size(limits.message_bytes)
        .max_encoding_message_size(limits.message_bytes);
    services.push(name_of(&actions));
    routes.add_service(AsPromised(actions));
    let interactions = InteractionServiceServer::new(interactions)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
        .max_decoding_message_size(limits.message_bytes)
        .max_encoding_message_size(limits.message_bytes);
    services.push(name_of(&interactions));
    routes.add_service(AsPromised(interactions));
    let peers = PeerApi::new(directory.clone()).into_server();
    services.push(name_of(&peers));
    routes.add_service(AsPromised(peers));
    let nodes = NodeApi::new(FreeNodes::new(directory.clone()));
    let nodes = NodeServiceServer::new(nodes)
        .max_decoding_message_size(limits.message_bytes)
        .max_encoding_message_size(limits.message_bytes);
    services.push(name_of(&nodes));
    routes.add_service(AsPromised(nodes));

    let reflection = || {
        // Each version would list itself alone.
        tonic_reflection::server::Builder::configure()
            .include_reflection_service(false)
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            )
    };
    // Older clients ask v1alpha alone.
    routes.add_service(reflection().build_v1()?);
    routes.add_service(reflection().build_v1alpha()?);
    routes.add_service(health_service);

    let health = Health { reporter, services };
    health.set(ServingStatus::Serving).await;
    Ok(Served { routes: routes.routes().prepare(), health, directory, handlers })
}

fn name_of<S: NamedService>(_: &S) -> &'static str {
    S::NAME
}
