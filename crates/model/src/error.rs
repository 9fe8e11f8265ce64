//! The one error of the project: what went wrong, and what the user can do about it.

use std::fmt;

/// A failure as it is told to the user: one line with the cause, one with the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What went wrong, with the file, number or name it went wrong at. One line, no final full stop.
    pub cause: String,
    /// What to do about it, where something can be done.
    pub remedy: Option<String>,
}

/// What every fallible function of the project returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error whose remedy is not known.
    pub fn new(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), remedy: None }
    }

    /// The same error with its remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The same error, its cause led in by where it happened (`"profile.npz: not a zip file"`).
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.cause = format!("{place}: {}", self.cause);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "\n{remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}
