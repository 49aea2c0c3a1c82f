//! The signals that end a program.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Which signal came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// SIGINT: somebody pressed Ctrl-C.
    Interrupt,
    /// SIGTERM: somebody, or the machine, wants the program to end.
    Terminate,
}

impl Interruption {
    /// The exit code by which a shell knows that a signal ended the program.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// A watch over the signals, from when it is made: they end the program no
/// longer by themselves.
#[cfg(unix)]
#[derive(Debug)]
pub struct Signals {
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
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next signal. Cancel safe.
    pub async fn next(&mut self) -> Interruption {
        tokio::select! {
            _ = self.interrupt.recv() => Interruption::Interrupt,
            _ = self.terminate.recv() => Interruption::Terminate,
        }
    }
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
