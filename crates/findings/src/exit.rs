//! Exit codes.

macro_rules! exit_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $text:literal;)*) => {
        /// Why a command ended as it did. Where a guest program ran and there is nothing to report, its own
        /// exit code is passed through instead (128 and the signal's number where a signal ended it).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum ExitCode { $($(#[doc = $doc])+ $name = $code),* }

        /// Every exit code with its sentence, for help texts and docs.
        pub const EXIT_CODES: &[(ExitCode, &str)] = &[$((ExitCode::$name, $text)),*];
    };
}

exit_codes! {
    /// Nothing to report.
    Success = 0, "nothing to report";
    /// Of several runs, some failed.
    SomeFailed = 1, "of several runs, some failed";
    /// The command line is wrong.
    Usage = 2, "the command line is wrong, or what it names cannot be used";
    /// There are findings.
    Findings = 66, "there are findings";
    /// A bug or an environment that we did not expect.
    Internal = 70, "something went wrong inside selvedge or the system underneath";
    /// The tests of a test command failed.
    TestsFailed = 100, "tests failed";
    /// The build failed.
    BuildFailed = 101, "the program could not be built";
    /// A run hung or ran out of time.
    Hang = 124, "a run hung or exceeded its time limit";
    /// A command was found and could not be started.
    CannotStart = 126, "the program was found and could not be started";
    /// A command was not found.
    NotFound = 127, "the program was not found";
}

impl ExitCode {
    /// The number for the system.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_ascending_and_leave_signals_alone() {
        let codes: Vec<u8> = EXIT_CODES.iter().map(|(code, _)| code.code()).collect();
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(codes.iter().all(|code| *code < 128));
    }
}
