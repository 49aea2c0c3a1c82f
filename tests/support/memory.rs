//! The most memory that the program has had, where the system tells.

#![allow(missing_docs, dead_code, unreachable_pub)]

/// In bytes; `None` on a system without `/proc`.
pub fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
