//! Time zones by name.

use jiff::tz::TimeZone;

/// A zone that cannot be found. Its text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownZone {
    /// Nobody knows it.
    #[error("unknown time zone {0}")]
    Unknown(String),
    /// It is no name at all.
    #[error("time: invalid location name")]
    Invalid,
}

/// The zone of that name: the system's rules, or those in the binary. `Local` is that of the process.
pub fn lookup(name: &str) -> Result<TimeZone, UnknownZone> {
    match name {
        "" | "UTC" => Ok(TimeZone::UTC),
        "Local" => Ok(local()),
        _ if name.contains("..") || name.starts_with(['/', '\\']) => Err(UnknownZone::Invalid),
        // Names are exact, as those of files are.
        _ => TimeZone::get(name)
            .ok()
            .filter(|zone| zone.iana_name() == Some(name))
            .ok_or_else(|| UnknownZone::Unknown(name.to_owned())),
    }
}

/// The zone of the process: `TZ`, else the system's, else UTC.
pub(super) fn local() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}
