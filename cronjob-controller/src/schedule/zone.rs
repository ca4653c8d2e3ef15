//! Time zones by name.
//!
//! The rules that the system installs come first, so that they can be updated without a new release. What the system does not
//! know, or all names where it has no rules at all, as in an empty container, is looked up in the rules of chrono-tz, which are
//! part of the binary and contain the names of old as well.

use chrono::{DateTime, FixedOffset, Offset as _, SecondsFormat, TimeZone as _};
use chrono_tz::Tz;
use jiff::{Timestamp, tz::TimeZone};

/// A name that is not the name of a time zone. The text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownZone {
    /// No such zone in the system's rules or in the binary's.
    #[error("unknown time zone {0}")]
    Unknown(String),
    /// A name that could leave the directory of time zones.
    #[error("time: invalid location name")]
    Invalid,
}

/// The rules of a time zone.
#[derive(Clone, Debug)]
pub enum Zone {
    /// Rules that are part of the binary. Clocks do not change any more after the year 2099.
    Bundled(Tz),
    /// Rules that the system has installed.
    System(TimeZone),
}

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self::Bundled(Tz::UTC);

    /// The zone of that name.
    ///
    /// Names are exact, as those of files are. The empty name is UTC, and `Local` is the zone of the process.
    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        match name {
            "" | "UTC" => Ok(Self::UTC),
            "Local" => Ok(Self::local()),
            _ if name.contains("..") || name.starts_with(['/', '\\']) => Err(UnknownZone::Invalid),
            _ => Self::installed(name)
                .or_else(|| Self::bundled(name))
                .ok_or_else(|| UnknownZone::Unknown(name.to_owned())),
        }
    }

    /// The zone of that name in the rules of the system.
    fn installed(name: &str) -> Option<Self> {
        let zone = TimeZone::get(name).ok()?;
        // The database ignores case.
        (zone.iana_name() == Some(name)).then_some(Self::System(zone))
    }

    /// The zone of that name in the rules of the binary.
    pub(super) fn bundled(name: &str) -> Option<Self> {
        name.parse().ok().map(Self::Bundled)
    }

    /// The zone of the process: that of the variable `TZ`, otherwise the system's, otherwise UTC.
    pub(super) fn local() -> Self {
        TimeZone::try_system().map_or(Self::UTC, Self::System)
    }

    /// A time in RFC 3339, to the second, with the offset of the zone.
    pub fn rfc3339(&self, at: Timestamp) -> String {
        let second = second(at);
        let offset = self.offset_at(second).and_then(|offset| FixedOffset::east_opt(offset as i32));
        match (DateTime::from_timestamp(second, 0), offset) {
            (Some(utc), Some(offset)) => utc.with_timezone(&offset).to_rfc3339_opts(SecondsFormat::Secs, true),
            // Not a time of this calendar.
            _ => at.to_string(),
        }
    }

    /// By how many seconds clocks of the zone are ahead of UTC at a Unix second; nothing outside of the years that times have.
    pub fn offset_at(&self, at: i64) -> Option<i64> {
        #[cfg(test)]
        super::tests::count_lookup();
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

/// The Unix second that contains an instant.
pub(super) fn second(at: Timestamp) -> i64 {
    at.as_nanosecond().div_euclid(1_000_000_000) as i64
}
