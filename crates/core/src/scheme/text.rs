//! Schemes as text.

use super::{Coalesce, Dim, DimProfile, Gap, Hybrid, Moderation, Napi, Scheme};
use crate::error::ParseError;
use crate::params::{self, Params};
use crate::units::{print_pps, print_time_s};

const NAMES: &str = "expected one of ideal, interrupt, disable-enable, polling, napi-2007, napi, coalesce, hybrid, dim, \
                     with parameters after a colon, such as \"polling:period=20us,quota=3\"";

/// Defaults of the paper where a parameter is left out: T_poll = 20 us, Q = 3.
const PERIOD_S: f64 = 20e-6;
const QUOTA: u64 = 3;

impl std::str::FromStr for Scheme {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (name, mut params) = Params::split("scheme", text)?;
        let scheme = match name {
            "ideal" => Self::Ideal,
            "interrupt" => Self::Interrupt { drops_interrupt: params.flag("drops_interrupt")?.unwrap_or(true) },
            "disable-enable" => Self::DisableEnable { merged: params.flag("merged")?.unwrap_or(false) },
            "polling" => {
                let (period_s, quota) = polled(&mut params)?;
                Self::Polling { period_s, quota }
            }
            "napi-2007" => {
                let (period_s, quota) = polled(&mut params)?;
                Self::Napi2007 { period_s, quota }
            }
            "napi" => Self::Napi(napi(&mut params)?),
            "coalesce" => Self::Coalesce(coalesce(&mut params)?),
            "hybrid" => Self::Hybrid(hybrid(&mut params)?),
            "dim" => Self::Dim(dim(&mut params)?),
            _ => return Err(ParseError::new("scheme", text, NAMES)),
        };
        params.finish()?;
        Ok(scheme)
    }
}

fn polled(params: &mut Params<'_>) -> Result<(f64, u64), ParseError> {
    Ok((params.time_s("period")?.unwrap_or(PERIOD_S), params.count("quota")?.unwrap_or(QUOTA)))
}

fn napi(params: &mut Params<'_>) -> Result<Napi, ParseError> {
    let default = Napi::default();
    Ok(Napi {
        weight: params.count("weight")?.unwrap_or(default.weight),
        budget: params.count("budget")?.unwrap_or(default.budget),
        budget_time_s: params.time_s("budget_time")?.unwrap_or(default.budget_time_s),
        backlog: params.flag("backlog")?.unwrap_or(false),
        threaded: params.flag("threaded")?.unwrap_or(false),
        ksoftirqd: params.flag("ksoftirqd")?.unwrap_or(false),
        gro_normal_batch: params.count("gro_normal_batch")?.unwrap_or(default.gro_normal_batch),
        defer_hard_irqs: params.count_u32("defer_hard_irqs")?.unwrap_or(0),
        gro_flush_timeout_s: params.time_s("gro_flush_timeout")?.unwrap_or(0.0),
        busy_poll: params.flag("busy_poll")?.unwrap_or(false),
        irq_suspend_timeout_s: params.time_s("irq_suspend_timeout")?.unwrap_or(0.0),
        moderation: Moderation {
            frames: params.count("rx_frames")?,
            absolute_timer_s: params.time_s("rx_usecs")?,
            packet_timer_s: params.time_s("packet_timer")?,
            min_gap_s: params.time_s("min_gap")?,
            gap: gap(params)?,
            gap_late_s: params.time_s("gap_late")?,
        },
    })
}

fn gap(params: &mut Params<'_>) -> Result<Gap, ParseError> {
    let Some(text) = params.take("gap") else { return Ok(Gap::default()) };
    let found = Gap::ALL.into_iter().find(|gap| gap.name() == text);
    found.ok_or_else(|| ParseError::new("scheme `gap`", text, "expected each, direct, echo, latched or reopened"))
}

fn coalesce(params: &mut Params<'_>) -> Result<Coalesce, ParseError> {
    Ok(Coalesce {
        frames: params.count("frames")?,
        absolute_timer_s: params.time_s("usecs")?,
        packet_timer_s: params.time_s("packet_timer")?,
        min_gap_s: params.time_s("min_gap")?,
        masked: params.flag("masked")?.unwrap_or(false),
        drops_interrupt: params.flag("drops_interrupt")?.unwrap_or(false),
    })
}

fn hybrid(params: &mut Params<'_>) -> Result<Hybrid, ParseError> {
    let (period_s, quota) = polled(params)?;
    Ok(Hybrid {
        period_s,
        quota,
        up_pps: params.pps("up")?,
        down_pps: params.pps("down")?,
        ewma: params.number("ewma")?.unwrap_or(0.1),
        merged: params.flag("merged")?.unwrap_or(false),
    })
}

fn dim(params: &mut Params<'_>) -> Result<Dim, ParseError> {
    let profile = match params.take("profile") {
        None | Some("eqe") => DimProfile::Eqe,
        Some("cqe") => DimProfile::Cqe,
        Some(other) => return Err(ParseError::new("scheme `profile`", other, "expected eqe or cqe")),
    };
    Ok(Dim { profile, start: params.count_u32("start")?.unwrap_or(1) })
}

impl std::fmt::Display for Scheme {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs = match self {
            Self::Ideal => vec![],
            Self::Interrupt { drops_interrupt } => vec![("drops_interrupt", Some(drops_interrupt.to_string()))],
            Self::DisableEnable { merged } => vec![("merged", Some(merged.to_string()))],
            Self::Polling { period_s, quota } | Self::Napi2007 { period_s, quota } => {
                vec![("period", Some(print_time_s(*period_s))), ("quota", Some(quota.to_string()))]
            }
            Self::Napi(napi) => napi_pairs(napi),
            Self::Coalesce(coalesce) => coalesce_pairs(coalesce),
            Self::Hybrid(hybrid) => hybrid_pairs(hybrid),
            Self::Dim(dim) => vec![
                ("profile", Some(if dim.profile == DimProfile::Eqe { "eqe" } else { "cqe" }.to_owned())),
                ("start", Some(dim.start.to_string())),
            ],
        };
        out.write_str(&params::print(self.name(), &pairs))
    }
}

type Pairs = Vec<(&'static str, Option<String>)>;

fn when(flag: bool) -> Option<String> {
    flag.then(|| "true".to_owned())
}

fn napi_pairs(napi: &Napi) -> Pairs {
    let time = |seconds: f64| (seconds > 0.0).then(|| print_time_s(seconds));
    let moderation = napi.moderation;
    vec![
        ("weight", Some(napi.weight.to_string())),
        ("budget", Some(napi.budget.to_string())),
        ("budget_time", Some(print_time_s(napi.budget_time_s))),
        ("backlog", when(napi.backlog)),
        ("threaded", when(napi.threaded)),
        ("ksoftirqd", when(napi.ksoftirqd)),
        ("gro_normal_batch", (napi.gro_normal_batch > 1).then(|| napi.gro_normal_batch.to_string())),
        ("defer_hard_irqs", (napi.defer_hard_irqs > 0).then(|| napi.defer_hard_irqs.to_string())),
        ("gro_flush_timeout", time(napi.gro_flush_timeout_s)),
        ("busy_poll", when(napi.busy_poll)),
        ("irq_suspend_timeout", time(napi.irq_suspend_timeout_s)),
        ("rx_frames", moderation.frames.map(|frames| frames.to_string())),
        ("rx_usecs", moderation.absolute_timer_s.map(print_time_s)),
        ("packet_timer", moderation.packet_timer_s.map(print_time_s)),
        ("min_gap", moderation.min_gap_s.map(print_time_s)),
        ("gap", (moderation.gap != Gap::Each).then(|| moderation.gap.name().to_owned())),
        ("gap_late", moderation.gap_late_s.map(print_time_s)),
    ]
}

fn coalesce_pairs(coalesce: &Coalesce) -> Pairs {
    let time = |seconds: Option<f64>| seconds.map(print_time_s);
    vec![
        ("frames", coalesce.frames.map(|frames| frames.to_string())),
        ("usecs", time(coalesce.absolute_timer_s)),
        ("packet_timer", time(coalesce.packet_timer_s)),
        ("min_gap", time(coalesce.min_gap_s)),
        ("masked", when(coalesce.masked)),
        ("drops_interrupt", when(coalesce.drops_interrupt)),
    ]
}

fn hybrid_pairs(hybrid: &Hybrid) -> Pairs {
    vec![
        ("period", Some(print_time_s(hybrid.period_s))),
        ("quota", Some(hybrid.quota.to_string())),
        ("up", hybrid.up_pps.map(print_pps)),
        ("down", hybrid.down_pps.map(print_pps)),
        ("ewma", Some(hybrid.ewma.to_string())),
        ("merged", when(hybrid.merged)),
    ]
}

crate::units::serde_as_text!(Scheme);
