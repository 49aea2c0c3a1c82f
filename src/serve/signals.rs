//! The signals that end a program.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Which signal came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// SIGHUP: the terminal is gone.
    HangUp,
    /// SIGINT: somebody pressed Ctrl-C.
    Interrupt,
    /// SIGTERM: somebody, or the machine, wants the program to end.
    Terminate,
}

impl Interruption {
    /// The exit code by which a shell knows that a signal ended the program.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::HangUp => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// A watch over the signals, from when it is made: they end the program no
/// longer by themselves. SIGHUP is left alone where it is ignored, as under `nohup`,
/// and where that cannot be seen.
#[cfg(unix)]
#[derive(Debug)]
pub struct Signals {
    hang_up: Option<Signal>,
    interrupt: Signal,
    terminate: Signal,
}

#[cfg(unix)]
impl Signals {
    /// Begins to watch.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn watch() -> io::Result<Self> {
        let hang_up = is_hang_up_kept().then(|| signal(SignalKind::hangup()));
        Ok(Self {
            hang_up: hang_up.transpose()?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next signal. Cancel safe.
    pub async fn next(&mut self) -> Interruption {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hang_up => Interruption::HangUp,
            _ = self.interrupt.recv() => Interruption::Interrupt,
            _ = self.terminate.recv() => Interruption::Terminate,
        }
    }
}

/// Whether SIGHUP is known not to be ignored: there is no safe call that tells, but
/// Linux has it in a file.
#[cfg(unix)]
fn is_hang_up_kept() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The signals from the first on, a bit each.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|it| it & 1 == 0)
}

/// A watch over Ctrl-C.
#[cfg(not(unix))]
#[derive(Debug)]
pub struct Signals(());

#[cfg(not(unix))]
impl Signals {
    /// Begins to watch.
    ///
    /// # Errors
    /// Never here.
    pub fn watch() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// The next Ctrl-C.
    pub async fn next(&mut self) -> Interruption {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Interruption::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}
