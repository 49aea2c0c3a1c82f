//! One child process in a process group of its own: its pipes as a sequence of
//! happenings, and the whole group gone when it is over or let go of.

use std::{
    ffi::OsString,
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    pin::Pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, FutureExt as _};
use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::pipe,
    process::{Child, Command},
    runtime::Handle,
    time::{Sleep, sleep, timeout},
};

use crate::wire::{Code, Reason, Status};

/// How long a group may take to stop after SIGTERM, until it gets SIGKILL.
const TERMINATION_GRACE: Duration = Duration::from_millis(500);
/// How long others may hold the pipes open after the program itself has ended.
const PIPE_GRACE: Duration = Duration::from_millis(250);
/// How much is read of a pipe at once, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// What to start.
pub(super) struct Launch {
    /// A path with a `/`, absolute; or a name to be found in this process's PATH.
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// The whole environment: nothing is inherited beside it.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: PathBuf,
    /// What it reads; nothing where it is empty.
    pub(super) stdin: Bytes,
    pub(super) stderr: Stderr,
}

/// Where the child's stderr goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stderr {
    /// Apart, as [`Happening::Stderr`].
    Apart,
    /// Into the same pipe as stdout, in the order in which both were written.
    WithStdout,
}

/// Why a process did not start.
#[derive(Debug, Error)]
pub(super) enum LaunchError {
    #[error("program {0:?} is not there, or is not executable")]
    NoProgram(PathBuf),
    #[error("working directory {0:?} is not there")]
    NoDirectory(PathBuf),
    #[error("the arguments are too long for a command line")]
    TooLong,
    #[error("an argument holds a NUL character, which no command line can")]
    Nul,
    #[error("program {0:?} cannot be started: {1}")]
    Refused(PathBuf, io::Error),
}

impl From<LaunchError> for Status {
    fn from(error: LaunchError) -> Self {
        let message = error.to_string();
        match error {
            LaunchError::NoProgram(_) | LaunchError::NoDirectory(_) => {
                Self::handler(Code::FailedPrecondition, message)
            }
            LaunchError::TooLong | LaunchError::Nul => Self::of(Reason::InvalidInput, message),
            LaunchError::Refused(..) => Self::handler(Code::Unavailable, message),
        }
    }
}

/// Something that happened with a process.
#[derive(Debug)]
pub(super) enum Happening {
    Stdout(Bytes),
    Stderr(Bytes),
    /// It ended, and all that it wrote came before.
    Ended(ExitStatus),
}

/// A running process. Dropping it stops the whole group: SIGTERM, then SIGKILL
/// after [`TERMINATION_GRACE`].
pub(super) struct Process {
    group: Group,
    stdin: Option<BoxFuture<'static, ()>>,
    stdout: Option<Pipe>,
    stderr: Option<Pipe>,
    status: Option<ExitStatus>,
    /// Once the program has ended: how long its pipes are still waited for.
    patience: Option<Patience>,
}

struct Pipe {
    from: Box<dyn AsyncRead + Send + Unpin>,
    buffer: BytesMut,
}

enum Patience {
    /// Until then others in the group may go on.
    UntilKill(Pin<Box<Sleep>>),
    /// Until then what is left in the pipes is read.
    UntilGivenUp(Pin<Box<Sleep>>),
}

impl Process {
    pub(super) fn start(launch: Launch) -> Result<Self, LaunchError> {
        let Launch { program, arguments, environment, directory, stdin, stderr } = launch;
        if arguments.iter().any(|argument| argument.contains('\0'))
            || environment.iter().any(|(_, value)| value.as_encoded_bytes().contains(&0))
        {
            return Err(LaunchError::Nul);
        }
        let found = find(&program).ok_or_else(|| LaunchError::NoProgram(program.clone()))?;
        if !directory.is_dir() {
            return Err(LaunchError::NoDirectory(directory));
        }
        let refused = |error: io::Error| match error.kind() {
            ErrorKind::ArgumentListTooLong => LaunchError::TooLong,
            _ => LaunchError::Refused(program.clone(), error),
        };
        let mut command = Command::new(found);
        command
            .arg0(&program)
            .args(arguments)
            .env_clear()
            .envs(environment)
            .current_dir(directory)
            .process_group(0)
            .kill_on_drop(true)
            .stdin(if stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
        let merged = match stderr {
            Stderr::Apart => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                None
            }
            Stderr::WithStdout => {
                let (read, write) = io::pipe().map_err(refused)?;
                command.stdout(write.try_clone().map_err(refused)?).stderr(write);
                Some(pipe::Receiver::from_owned_fd(read.into()).map_err(refused)?)
            }
        };
        let mut child = command.spawn().map_err(refused)?;
        // It holds the writing end, which would keep the reading end open.
        drop(command);
        let stdout = match merged {
            Some(merged) => Some(Pipe::new(merged)),
            None => child.stdout.take().map(Pipe::new),
        };
        let stderr = child.stderr.take().map(Pipe::new);
        let stdin = child.stdin.take().map(|mut pipe| {
            // A program need not read its input: an error here is no failure.
            async move {
                let _ = pipe.write_all(&stdin).await;
                let _ = pipe.shutdown().await;
            }
            .boxed()
        });
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = Group { child: Some(child), id };
        Ok(Self { group, stdin, stdout, stderr, status: None, patience: None })
    }

    /// What happens next; `None` after [`Happening::Ended`].
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// Where the process cannot be waited for, which only a broken system does.
    pub(super) async fn next(&mut self) -> io::Result<Option<Happening>> {
        loop {
            if self.stdout.is_none()
                && self.stderr.is_none()
                && let Some(status) = self.status
            {
                let ended = self.group.end();
                return Ok(ended.then_some(Happening::Ended(status)));
            }
            let Some(child) = &mut self.group.child else { return Ok(None) };
            let (until_kill, until_given_up) = match &mut self.patience {
                None => (None, None),
                Some(Patience::UntilKill(at)) => (Some(at), None),
                Some(Patience::UntilGivenUp(at)) => (None, Some(at)),
            };
            // Reads, waits and timers keep their state in `self`: each is cancel
            // safe. In this order what was written is read before it is given up.
            tokio::select! {
                biased;
                () = some(until_kill) => {
                    self.group.signal(Signal::KILL);
                    self.patience = Some(Patience::UntilGivenUp(Box::pin(sleep(PIPE_GRACE))));
                }
                bytes = read(&mut self.stdout) => match bytes {
                    Some(bytes) => return Ok(Some(Happening::Stdout(bytes))),
                    None => self.stdout = None,
                },
                bytes = read(&mut self.stderr) => match bytes {
                    Some(bytes) => return Ok(Some(Happening::Stderr(bytes))),
                    None => self.stderr = None,
                },
                () = some(self.stdin.as_mut()) => self.stdin = None,
                status = child.wait(), if self.status.is_none() => {
                    self.status = Some(status?);
                    self.stdin = None;
                    self.patience = Some(Patience::UntilKill(Box::pin(sleep(PIPE_GRACE))));
                }
                () = some(until_given_up) => {
                    self.stdout = None;
                    self.stderr = None;
                }
            }
        }
    }
}

impl Pipe {
    fn new(from: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self { from: Box::new(from), buffer: BytesMut::new() }
    }
}

/// The next bytes of a pipe; `None` at its end. Waits for ever without one.
async fn read(pipe: &mut Option<Pipe>) -> Option<Bytes> {
    match pipe {
        None => std::future::pending().await,
        Some(Pipe { from, buffer }) => {
            buffer.reserve(READ_BYTES);
            match from.read_buf(buffer).await {
                Ok(0) | Err(_) => None,
                Ok(_) => Some(buffer.split().freeze()),
            }
        }
    }
}

/// Waits for the future; for ever without one.
async fn some<F: Future<Output = ()> + Unpin>(future: Option<F>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// The process and all that it starts.
struct Group {
    /// `None` once all is over.
    child: Option<Child>,
    id: Option<Pid>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // No such group: it is gone already.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Ends what the program left behind; whether this is the first time.
    fn end(&mut self) -> bool {
        if self.child.take().is_none() {
            return false;
        }
        self.signal(Signal::KILL);
        true
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        self.signal(Signal::TERM);
        let killed = Killed(self.id);
        // Outside a runtime nobody can wait for it: it is killed at once.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let _ = timeout(TERMINATION_GRACE, child.wait()).await;
                drop(killed);
                let _ = child.wait().await;
            });
        }
    }
}

/// Kills a group at the end of its life, also where the runtime stops before.
struct Killed(Option<Pid>);

impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}

/// Where a program is: itself for a path, else found in PATH.
pub(super) fn find(program: &Path) -> Option<PathBuf> {
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Some(program.to_owned()).filter(|path| executable(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|path| executable(path))
}
