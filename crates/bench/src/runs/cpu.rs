//! The CPU time of this process, from Linux: in nanoseconds, per thread.

use std::fs;
use std::time::Duration;

/// The sum over all threads; none where the system does not provide it.
pub(super) fn used() -> Option<Duration> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let stats = threads.flatten().map(|thread| fs::read_to_string(thread.path().join("schedstat")));
    // A thread may end meanwhile.
    stats.flatten().map(|stat| on_cpu(&stat)).sum()
}

fn on_cpu(stat: &str) -> Option<Duration> {
    Some(Duration::from_nanos(stat.split(' ').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_the_time_on_a_processor() {
        assert_eq!(on_cpu("1500 20 3\n"), Some(Duration::from_nanos(1500)));
        assert_eq!(on_cpu(""), None);
    }
}
