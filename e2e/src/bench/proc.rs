//! Memory and CPU time of processes, from `/proc`. Formats: proc_pid_status(5), proc_pid_stat(5), proc_pid_task(5).

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Memory of a process in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What is resident now (`VmRSS`).
    pub resident: u64,
    /// The part of it that is no file (`RssAnon`): heap and stacks.
    pub anonymous: u64,
    /// The most that was ever resident (`VmHWM`).
    pub peak: u64,
}

/// CPU time of a process in user and system mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime {
    /// Of all its threads.
    pub own: Duration,
    /// Of the children that have ended and were waited for.
    pub children: Duration,
}

/// Memory of a running process.
pub fn memory(pid: u32) -> Result<Memory> {
    parse_status(&read(pid, "status")?).with_context(|| format!("/proc/{pid}/status is not understood"))
}

/// CPU time of a running process; it counts in ticks of the system's clock, usually 10 ms.
pub fn cpu_time(pid: u32) -> Result<CpuTime> {
    let ticks = rustix::param::clock_ticks_per_second();
    parse_stat(&read(pid, "stat")?, ticks).with_context(|| format!("/proc/{pid}/stat is not understood"))
}

/// Children that run now, whichever thread started them.
pub fn children(pid: u32) -> Result<Vec<u32>> {
    let tasks = format!("/proc/{pid}/task");
    let mut children = Vec::new();
    for task in std::fs::read_dir(&tasks).with_context(|| format!("cannot list {tasks}"))? {
        // A thread may end meanwhile.
        if let Ok(text) = std::fs::read_to_string(task?.path().join("children")) {
            children.extend(parse_children(&text));
        }
    }
    Ok(children)
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = Path::new("/proc").join(pid.to_string()).join(file);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn parse_status(status: &str) -> Option<Memory> {
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.strip_prefix(':')?.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some(Memory {
        resident: kib("VmRSS")?,
        anonymous: kib("RssAnon")?,
        peak: kib("VmHWM")?,
    })
}

fn parse_stat(stat: &str, ticks_per_second: u64) -> Option<CpuTime> {
    // The second field, the name, may hold spaces and parentheses itself.
    let (_, after_name) = stat.rsplit_once(')')?;
    let ticks: Vec<u64> = after_name
        .split_whitespace()
        .skip(11)
        .take(4)
        .map_while(|field| field.parse().ok())
        .collect();
    let [user, system, children_user, children_system] = *ticks.as_slice() else {
        return None;
    };
    let time = |ticks: u64| {
        Some(Duration::from_millis(
            (ticks * 1000).checked_div(ticks_per_second)?,
        ))
    };
    Some(CpuTime {
        own: time(user + system)?,
        children: time(children_user + children_system)?,
    })
}

fn parse_children(text: &str) -> impl Iterator<Item = u32> {
    text.split_whitespace().filter_map(|pid| pid.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_gives_memory_in_kib() {
        let status = "Name:\tgpu-manager\nVmPeak:\t  200000 kB\nVmHWM:\t   19000 kB\nVmRSS:\t   18000 kB\n\
                      RssAnon:\t    7000 kB\nRssFile:\t   11000 kB\nThreads:\t4\n";
        let expected = Memory {
            resident: 18_000,
            anonymous: 7_000,
            peak: 19_000,
        };
        assert_eq!(parse_status(status), Some(expected));
        // A process that has ended and was not waited for has no memory.
        assert_eq!(parse_status("Name:\tgpu-manager\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn stat_gives_time_whatever_the_name_is() {
        let numbers = "S 1 2 3 4 5 6 7 8 9 10 250 50 400 100 20 0 4 0 12345";
        let expected = CpuTime {
            own: Duration::from_secs(3),
            children: Duration::from_secs(5),
        };
        for name in ["gpu-manager", "a ) 9 (b"] {
            assert_eq!(parse_stat(&format!("42 ({name}) {numbers}"), 100), Some(expected));
        }
        assert_eq!(parse_stat("42 (x) S 1 2", 100), None);
        assert_eq!(parse_stat("", 100), None);
    }

    #[test]
    fn children_are_numbers_between_blanks() {
        assert_eq!(parse_children("17 23 \n").collect::<Vec<_>>(), [17, 23]);
        assert_eq!(parse_children("").count(), 0);
    }

    #[test]
    fn this_process_can_be_read() {
        let own = std::process::id();
        let memory = memory(own).unwrap();
        assert!(memory.anonymous > 0 && memory.anonymous <= memory.resident);
        assert!(memory.peak >= memory.resident);
        cpu_time(own).unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert!(children(own).unwrap().contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
