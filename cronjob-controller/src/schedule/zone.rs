//! Finds the rules of a time zone by its name.
//!
//! The rules that the operating system installs come first, because they can be updated without a new release. The rules of
//! chrono-tz in the binary serve names that the system does not know, such as legacy names. They serve all names if the system
//! has no rules, as in an empty container.

use chrono::{DateTime, FixedOffset, Offset as _, SecondsFormat, TimeZone as _};
use chrono_tz::Tz;
use jiff::{Timestamp, tz::TimeZone};

/// Why a time zone name was rejected. The messages are those of upstream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownTimeZone {
    /// Neither the system nor the binary has rules for this name.
    #[error("unknown time zone {0}")]
    NoRules(String),
    /// The name could escape the directory of time zone files.
    #[error("time: invalid location name")]
    InvalidName,
}

/// The rules of a time zone, which give the offset from UTC at any time.
#[derive(Clone, Debug)]
pub enum ZoneRules {
    /// Rules from the binary. They contain no clock changes after the year 2099.
    Bundled(Tz),
    /// Rules that the operating system has installed.
    System(TimeZone),
}

impl ZoneRules {
    /// The zone with offset 0, which also serves the empty name.
    pub const UTC: Self = Self::Bundled(Tz::UTC);

    /// Finds a zone in the rules of the operating system, or else in the rules of the binary.
    ///
    /// Zone names are case-sensitive. The empty name is UTC, and `Local` is the zone of the process.
    pub fn find_by_name(name: &str) -> Result<Self, UnknownTimeZone> {
        match name {
            "" | "UTC" => Ok(Self::UTC),
            "Local" => Ok(Self::process_zone()),
            _ if name.contains("..") || name.starts_with(['/', '\\']) => Err(UnknownTimeZone::InvalidName),
            _ => Self::find_installed(name)
                .or_else(|| Self::find_bundled_rules(name))
                .ok_or_else(|| UnknownTimeZone::NoRules(name.to_owned())),
        }
    }

    fn find_installed(name: &str) -> Option<Self> {
        let zone = TimeZone::get(name).ok()?;
        // `TimeZone::get` ignores the case of letters, but zone names are case-sensitive.
        (zone.iana_name() == Some(name)).then_some(Self::System(zone))
    }

    pub(super) fn find_bundled_rules(name: &str) -> Option<Self> {
        name.parse().ok().map(Self::Bundled)
    }

    /// Returns the zone of the process: from the variable `TZ`, or else from the system, or else UTC.
    pub(super) fn process_zone() -> Self {
        TimeZone::try_system().map_or(Self::UTC, Self::System)
    }

    /// Formats a time in RFC 3339, in whole seconds, with the offset of the zone.
    pub fn format_rfc3339(&self, at: Timestamp) -> String {
        let second = to_unix_second(at);
        let offset = self.utc_offset_seconds_at(second).and_then(|offset| FixedOffset::east_opt(offset as i32));
        match (DateTime::from_timestamp(second, 0), offset) {
            (Some(utc), Some(offset)) => utc.with_timezone(&offset).to_rfc3339_opts(SecondsFormat::Secs, true),
            // A time outside of chrono's calendar is formatted in UTC.
            _ => at.to_string(),
        }
    }

    /// Returns the offset from UTC in seconds at a Unix second; `None` for a time outside of the calendar.
    pub fn utc_offset_seconds_at(&self, at: i64) -> Option<i64> {
        #[cfg(test)]
        super::tests::count_offset_lookup();
        let seconds = match self {
            Self::Bundled(zone) => {
                let utc = DateTime::from_timestamp(at, 0)?.naive_utc();
                zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()
            }
            Self::System(zone) => zone.to_offset(Timestamp::from_second(at).ok()?).seconds(),
        };
        Some(i64::from(seconds))
    }
}

/// Returns the Unix second that contains an instant.
pub(super) fn to_unix_second(at: Timestamp) -> i64 {
    at.as_nanosecond().div_euclid(1_000_000_000) as i64
}
