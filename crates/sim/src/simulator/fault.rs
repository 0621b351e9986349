//! The kinds of faults.

/// Defines the faults and their names in one list.
macro_rules! faults {
    ($($(#[$doc:meta])+ $fault:ident => $name:literal,)+) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $($(#[$doc])+ $fault,)+
        }

        impl Fault {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$fault,)+];

            /// Its name in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$fault => $name,)+
                }
            }
        }
    };
}

faults! {
    /// A call fails before anything happens, and may be repeated.
    Later => "error-later",
    /// A call fails before anything happens, and no retry can help.
    Never => "error-never",
    /// A commit happens, and its answer is lost.
    LostReply => "lost-reply",
    /// A commit does not happen, and its outcome is unknown.
    NotDone => "unknown-not-done",
    /// A commit happens after its caller was told that the outcome is unknown.
    LateCommit => "late-commit",
    /// A request is on its way for longer than a lease.
    SlowCall => "slow-call",
    /// An answer is on its way for longer than a lease.
    SlowReply => "slow-reply",
    /// A process dies with a request, which never arrives.
    DeathBefore => "death-before-call",
    /// A process dies with a request, which still takes effect.
    DeathAfter => "death-after-call",
    /// A change hint never arrives.
    LostWake => "lost-wake",
    /// A change hint arrives twice.
    DoubledWake => "doubled-wake",
    /// A change hint arrives late.
    LateWake => "late-wake",
    /// Pages are as short as they may be, or empty, although more follows.
    ShortPages => "short-pages",
    /// A process dies, and another takes its place.
    Kill => "kill",
    /// A process is stopped for longer than its leases, and continues.
    Pause => "pause",
    /// A process cannot reach the store.
    Cut => "cut",
    /// A process shuts down and starts with the other version of the code.
    Redeploy => "redeploy",
    /// The store restarts: calls in flight have an unknown outcome, later ones fail.
    Restart => "store-restart",
    /// The store is restored from a backup that has everything, and begins an epoch.
    Restore => "store-restored",
    /// The power fails: the disk loses what was not flushed, or any part of it.
    PowerCut => "power-cut",
    /// Everything is exported, and imported into another store, on which the processes go on.
    Import => "store-imported",
    /// The store's calendar jumps forward.
    ClockForward => "clock-forward",
    /// The store's calendar is set back.
    ClockBack => "clock-back",
    /// A handler or step fails, and may be repeated.
    HandlerFails => "handler-fails",
    /// A handler or step fails permanently.
    HandlerRefuses => "handler-refuses",
    /// A handler or step panics.
    HandlerPanics => "handler-panics",
    /// A handler or step takes longer than its lease.
    HandlerHangs => "handler-hangs",
    /// An operator unblocks what is blocked.
    Unblock => "operator-unblock",
    /// An operator resets a target of a reaction.
    Reset => "operator-reset",
    /// An operator cancels or terminates a run.
    Cancel => "operator-cancel",
    /// An operator closes books.
    Close => "operator-close",
    /// An operator cancels or terminates several runs together.
    EndRuns => "operator-end-runs",
    /// An operator cancels jobs, or discards those that failed for good.
    EndJobs => "operator-end-jobs",
    /// An operator skips an event that its target is blocked on.
    Skip => "operator-skip",
    /// An operator pauses a queue, a reaction or a workflow, and resumes it.
    PauseWork => "operator-pause",
    /// The personal data of a subject is erased.
    Erase => "operator-erase",
    /// An operator defers or moves work.
    Defer => "operator-defer",
}
