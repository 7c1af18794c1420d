//! [`Note`]: a fact that a reader of an outcome must know, as a variant with its data. `Display` and JSON write it as a
//! sentence.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::queues::Role;
use crate::units::{print_pps, print_share, print_short_time_s, print_time_s, three_digits};

/// Declares an enum of sentences. A row is a variant with its data and the sentence that `Display` makes of it, which
/// is also the variant's documentation.
#[macro_export]
macro_rules! sentences {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($variant:ident $(($($field:ident: $kind:ty),+))? => $text:literal $(, $key:ident = $value:expr)*;)+
    }) => {
        $(#[$meta])*
        $vis enum $name {
            $(#[doc = $text] $variant $(($($kind),+))?,)+
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant $(($($field),+))? => write!(out, $text $(, $key = $value)*),)+
                }
            }
        }
    };
}

sentences! {
    /// A note. Equality compares sentences, because a note that was read from a file is always [`Note::Read`].
    #[derive(Debug, Clone)]
    pub enum Note {
        Read(note: ReadNote) => "{note}";
        Warning(warning: Warning) => "warning: {warning}";

        // Several queues.
        Interpolated => "latency quantiles over all queues are interpolated between those of the queues";
        Queues(queues: u32, cores: usize) =>
            "{queues} queues on {cores} cores; the scheme acts on each queue separately; CPU shares are means over the cores";
        Binding(core: u32, role: Role, queue: u32, imbalance: f64) =>
            "core {core} is the bottleneck ({work} of queue {queue}); the busiest queue gets {imbalance:.3} times the mean load of a queue",
            work = match role { Role::Receive => "reception", Role::Transmit => "transmit completions" };

        // Of the model: size of its error, and effects that it neglects.
        Approximate(bounds: Bounds) => "{bounds}";
        Unchecked(of: &'static str, ring: Option<u64>, socket: Option<u64>) =>
            "the model's error is unknown here ({of}): netcliff's tests compare the model with the simulator only for smaller queues than this \
             host's ({larger} packets). `netcliff simulate` with the same options checks the figures; with the costs of a run it takes the \
             measured distribution of CPU times, where the model takes exponential times",
            larger = larger(*ring, *socket);
        MeanSizeOnly(longer: f64) =>
            "the model uses only the mean of the frame sizes: actual waits in the ring are up to {percent:.2} % longer; latency \
             quantiles are left out",
            percent = 100.0 * longer;
        NoKsoftirqd =>
            "the model computes ksoftirqd=true as false: past the cliff the application gets a share of the CPU that these \
             figures leave out; the simulator includes it";
        NoGroBatch =>
            "the model computes with gro_normal_batch = 1: with a larger batch a poll passes its last packets on after its last \
             look at the ring, and more packets interrupt, which only the simulator includes";
        NoInterruptLatency => "the model leaves out the interrupt's latency: it includes it only for napi";
        MergedTimes =>
            "measured times within 1 % of each other are merged; their mean and variance stay the same";
        ExponentialRest =>
            "the application's times, the interrupt's latency and register writes are modelled as exponential";
        ExponentialInterrupts => "{rest}, interrupts too", rest = Self::ExponentialRest;
        FewerPhases(most: u32) =>
            "times that vary less than {most} exponential phases (coefficient of variation {least:.2}) are modelled as these \
             phases; {rest}",
            least = f64::from(*most).sqrt().recip(), rest = Self::ExponentialRest;
        NeverUsedUp(weight: u64, most: u64) => "weight {weight} is above {most}: the model assumes that no poll uses it up";
        BacklogAsQueue =>
            "backlog: the model has one queue of `ring` packets; process_backlog holds up to one batch more, which it has moved";
        NoQuantilesWithPauses => "latency quantiles are left out: with pauses the model computes only the mean";
        PollingOfPaper =>
            "paper, corrected: mu' = min(Q/T_poll, mu (1 - o/T_poll)) where eq. (9) prints Q/T_v; latency = T_poll/2 + \
             queueing + 1/mu where eq. (12) prints p_0 T_poll";
        PollingAsPrinted =>
            "printed: mu' = Q/T_v where a poll's packets fit into T_v = T_poll - o (eq. (9); Q/T_poll is what a poll a period \
             serves), and latency = queueing + 1/mu' + p_0 T_poll (eq. (12)): compare with fidelity exact";
        CoalesceAsPrinted(frames: u64) =>
            "printed: the timer is taken as a count of tau = ceil(lambda T) = {frames} frames, hence steps over the load and no \
             wait at all below one frame a timer: compare with fidelity exact";
        CoalesceOfPaper =>
            "paper: interrupts slow every service evenly, and nothing is lost while frames wait for an interrupt; mean latency \
             is a quarter low at moderate load, more with long timers or a small ring: compare with fidelity exact";
        InterruptOfPaper =>
            "paper: interrupts slow every service evenly; the exact chain's mean latency is up to 30 % higher";
        MergedStage =>
            "merged: mask, interrupt and first packet as one exponential stage, which inflates latency";
        DimWalk =>
            "dim: the share of time with each profile is that of a random walk with normally distributed measurements, an \
             approximation; the figures of each profile are exact. Latency quantiles are left out";
        DimProfiles(shares: Vec<f64>) => "dim: share of time with each profile, from the first: {each}", each = percents(shares);
        HybridThresholds(up_pps: f64, source: &'static str, down_pps: f64, arrival_pps: f64, polling: f64) =>
            "hybrid: switches to polling when the measured rate is above {up} ({source}) and back below {down}; at {at} it polls \
             {percent:.4} % of the time",
            up = print_pps(up_pps.round()), down = print_pps(down_pps.round()), at = print_pps(*arrival_pps),
            percent = 100.0 * polling;
        HybridSwitches(per_s: f64, window: f64) =>
            "hybrid: {per_s:.3e} switches to polling a second, an approximation (each part in equilibrium at once, samples of {window} \
             packets lognormal and independent)";

        // Of the model with an application.
        ToApplication =>
            "with an application, the model computes only the mean of the latency; `netcliff simulate` also has its quantiles (p50, p99) and the \
             number of packets in the host";
        TwoMoments(application_s: f64) =>
            "application: two-moment approximation of the socket (Brownian motion over the ring's cycles, {t} a packet); strict \
             priority: interrupt, softirq, application; ksoftirqd's sharing of the CPU is not modelled; quantiles of latency to \
             the application are not computed",
            t = print_short_time_s(*application_s);
        FullSocket => "the model assumes a full socket: every packet costs what it costs with cold caches";
        NoLatencyBeyond(loss: f64) => "with an application, the model computes no mean latency where more than {percent:.0} % is lost", percent = 100.0 * loss;
        FullPollsAtRandom => "the model assumes that polls use up their weight at random, as often as with a ring alone, without an application";
        ModerationAsTimer =>
            "the NIC's moderation and the interrupt's delivery are modelled as one timer with the same mean time";
        ColdCaches(protocol_s: f64, application_s: f64) =>
            "cold caches: the fuller the socket buffer, the more CPU time a packet costs (at a full one {protocol} more in protocol processing, \
             {application} more in the application), because its data have left the CPU's caches. The model takes this additional time as \
             exponential, with one mean for each busy period of the ring: that of the socket's fill in the middle of the period",
            protocol = print_time_s(three_digits(*protocol_s)), application = print_time_s(three_digits(*application_s));
        FullPolls(share: f64, weight: u64, more_pps: f64) =>
            "napi: up to {percent} % of the polls are full ({weight} packets, the weight). After ten full polls in a row, or at a timer tick, Linux \
             leaves the rest to the thread ksoftirqd, and the application can run. The model leaves this out: the delivered rate may be up \
             to {more} higher",
            percent = three_digits(100.0 * share), more = print_pps(more_pps.ceil());

        // The simulator.
        HeavyTails(load_pps: Option<(f64, f64)>) =>
            "heavy-tailed traffic without a cutoff: means converge too slowly for a reliable interval, and have none; \
             use quantiles, and the load that was really offered{load}",
            load = load_pps.map_or(String::new(), |(offered, asked)| {
                format!(" ({:.4} kpps of the {:.4} kpps asked for)", offered / 1e3, asked / 1e3)
            });
        PrintedOff(asked_pps: f64) =>
            "off=printed: the requested load ({asked:.4} kpps) is nominal; the sources offer more, as ON periods send whole frames; \
             the figure \"offered\" is the actual load",
            asked = asked_pps / 1e3;
        Replayed(packets: usize, each: u64) =>
            "a trace of {packets} packets, replayed in a loop from different starting points: the intervals show how much its \
             parts differ, not how another recording would differ{around}",
            around = if *each <= *packets as u64 { String::new() } else {
                format!("; each replication replays it {:.1} times", *each as f64 / *packets as f64)
            };
        ReplayedOnce(packets: usize) =>
            "a trace of {packets} packets, read once from its start in each replication, without a warm-up: the intervals \
             show the effect of the host's varying times, not how another recording would differ";
        TooShort(lack: Lack, these: Replications, withheld: bool) => "{what}{without}: simulate more packets",
            what = lack.of(these), without = match (withheld, lack.concerns_all()) {
                (false, _) => "",
                (true, true) => "; no figure has an interval",
                (true, false) => "; latencies have no interval",
            };
        Imprecise(asked: f64, packets: u64, replications: u64, missed: Vec<Missed>) =>
            "the precision of {asked} was not reached within the packets allowed (last: {packets} packets in {replications} \
             replications): {how}",
            asked = print_share(*asked), how = missed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");

        // A trial.
        BelowSchedule => "the sender did not reach the load: offered_pps is its schedule's";
        BelowLoad => "the sender did not reach the load";
        SentLate => "no more packets were lost than the sender sent late: the sender may have caused the loss";
        LostToXdp(counter: String, packets: u64) =>
            "an XDP program of the interface dropped packets ({counter} rose by {packets})";
        LostToAllowance(counter: String, packets: u64) =>
            "the cloud's allowance was exceeded, which is no limit of this host ({counter} rose by {packets})";
        Stolen(share: f64) => "the hypervisor took {percent:.1} % of the host's CPU", percent = 100.0 * share;
        ThisHost => "measured on this host, whose costs are not those of the experiment's host";
        VoidTrial => "void, does not count: the sender may have caused the loss, see the note of the trial";
        FromStamp =>
            "latency from the kernel's receive timestamp, which the poll sets: it leaves out the time in the NIC's ring, which \
             computed latencies include";
        AtSpeed(factor: f64) =>
            "computed with the CPU's speed in the trials at this load: the softirq time of a packet is {factor:.2} times that near the cliff";
        AtLatency(latency_s: f64, gap_late_s: Option<f64>) =>
            "computed with an interrupt latency of {latency}{late}, by trials at similar loads",
            latency = print_short_time_s(*latency_s), late = gap_late_s.map_or(String::new(), |late_s| {
                format!(" and a gap that ends {} late", print_short_time_s(late_s))
            });
    }
}

sentences! {
    /// A value that is possible but probably a mistake.
    #[derive(Debug, Clone, PartialEq)]
    pub enum Warning {
        ShortPeriod(period_s: f64, service_s: f64) =>
            "period = {period} is shorter than the service of one packet ({service}): ticks fall into every cycle",
            period = print_time_s(*period_s), service = print_short_time_s(*service_s);
        LittleBetweenPolls(period_s: f64, poll_s: f64) =>
            "period = {period} leaves less than half of the CPU: each poll has an overhead of {poll}",
            period = print_time_s(*period_s), poll = print_short_time_s(*poll_s);
        QuotaAboveRing(quota: u64, ring: u64) => "quota = {quota} is above the ring ({ring} slots)";
        OtherMean(service: String, measured_s: f64, own_s: f64) =>
            "service = {service} has a mean of {measured}, protocol and per_byte say {own}: its shape is taken, not its mean (set \
             protocol={measured} and per_byte=0s to take both)",
            measured = print_short_time_s(*measured_s), own = print_short_time_s(*own_s);
        WeightAboveBudget(weight: u64, budget: u64) =>
            "weight = {weight} is above budget = {budget}, which changes next to nothing: with one device every round of softirqs ends \
             after one full poll anyway, and the next follows";
        WeightAboveRing(weight: u64, ring: u64) => "weight = {weight} is above the ring ({ring} slots)";
        FramesOfTheRing(frames: u64, ring: u64) =>
            "frames = {frames} is more than half the ring ({ring} slots): packets that come during interrupt and protocol are \
             lost";
        GathersARing(key: &'static str, seconds: f64, ring: u64, offered_pps: f64) =>
            "{key} = {time} gathers more than the ring ({ring} slots) at {pps}",
            time = print_time_s(*seconds), pps = print_pps(*offered_pps);
        NeverEnds(packet_timer_s: f64, usecs_s: f64) =>
            "packet_timer = {timer} never ends before usecs = {usecs}",
            timer = print_time_s(*packet_timer_s), usecs = print_time_s(*usecs_s);
        Preset(name: String, assumed: &'static str) => "{name}: {assumed}";
        OneSlot => "ring = 1 holds only the packet in service: all that come during its service are lost";
        Capture(sentence: String) => "{sentence}";
        NoHeader(file: String, packets: usize, of: usize) =>
            "{file}: {packets} of {of} packets have no IP header: they go to queue 0, as in NICs";
    }
}

/// A note that was read from a file. Its first words say once which note it is, if a reader distinguishes it.
#[derive(Debug, Clone)]
pub enum ReadNote {
    /// [`Note::Approximate`]: name of the approximation, sentence.
    Approximate(String, String),
    /// [`Note::Unchecked`]: name of the approximation, sentence.
    Unchecked(String, String),
    /// [`Note::Warning`]: sentence without its first word.
    Warning(String),
    /// Any other note: sentence.
    Other(String),
}

/// The text after `begin`, up to `end`; `None` if the sentence does not begin so.
fn name_in(sentence: &str, begin: &str, end: &str) -> Option<String> {
    Some(sentence.strip_prefix(begin)?.split_once(end)?.0.to_owned())
}

impl From<String> for ReadNote {
    fn from(sentence: String) -> Self {
        if let Some(name) = name_in(&sentence, "the model approximates here (", "). ") {
            Self::Approximate(name, sentence)
        } else if let Some(name) = name_in(&sentence, "the model's error is unknown here (", "): ") {
            Self::Unchecked(name, sentence)
        } else if let Some(warning) = sentence.strip_prefix("warning: ") {
            Self::Warning(warning.to_owned())
        } else {
            Self::Other(sentence)
        }
    }
}

impl std::fmt::Display for ReadNote {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Approximate(_, sentence) | Self::Unchecked(_, sentence) | Self::Other(sentence) => {
                out.write_str(sentence)
            }
            Self::Warning(warning) => write!(out, "warning: {warning}"),
        }
    }
}

impl Note {
    /// Whether it says that the model's error is unknown.
    pub fn is_unknown_error(&self) -> bool {
        self.unchecked().is_some()
    }

    /// Whether it bounds the error of an approximation whose error is unknown according to `other`.
    pub fn is_refuted_by(&self, other: &Self) -> bool {
        let bounded = match self {
            Self::Approximate(bounds) => bounds.name,
            Self::Read(ReadNote::Approximate(name, _)) => name,
            _ => return false,
        };
        other.unchecked() == Some(bounded)
    }

    /// Name of the approximation whose error is unknown; `None` for other notes.
    fn unchecked(&self) -> Option<&str> {
        match self {
            Self::Unchecked(name, ..) => Some(name),
            Self::Read(ReadNote::Unchecked(name, _)) => Some(name),
            _ => None,
        }
    }

    /// The warning's sentence without its first word; `None` for other notes.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Warning(warning) => Some(warning.to_string()),
            Self::Read(ReadNote::Warning(warning)) => Some(warning.clone()),
            _ => None,
        }
    }
}

impl PartialEq for Note {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl From<String> for Note {
    fn from(sentence: String) -> Self {
        Self::Read(sentence.into())
    }
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Note {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input).map(Self::from)
    }
}

/// A note, as a sentence.
#[cfg(feature = "schema")]
impl schemars::JsonSchema for Note {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Note".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// Bounds of an approximation's error, (lowest, highest).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Name of the approximation, which its notes give.
    pub name: &'static str,
    /// The model's loss fraction minus the simulator's; the delivered share is lower by the same amount.
    pub loss: (f64, f64),
    /// The model's mean latency divided by the simulator's, for losses up to [`Bounds::MOST_LOSS`].
    pub mean_latency: (f64, f64),
    /// The model's interrupt rate divided by the simulator's.
    pub interrupts: (f64, f64),
    /// The model's available CPU minus the simulator's, as shares of one CPU.
    pub available: (f64, f64),
}

impl Bounds {
    /// Loss fraction above which no bound of the mean latency is stated: few packets are delivered then, and effects
    /// that the model's Markov chains neglect decide which ones.
    pub const MOST_LOSS: f64 = 0.9;
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |(low, high): (f64, f64)| format!("{low:.2} to {high:.2}");
        let more = |(low, high): (f64, f64)| format!("{:+.0} to {:+.0}", 100.0 * low, 100.0 * high);
        write!(
            out,
            "the model approximates here ({}). In netcliff's tests, at many hosts and loads, it stayed this near to the simulator: loss {} \
             percentage points, CPU idle {} points, mean latency {} times the simulated one (where at most {:.0} % is lost), interrupts {} \
             times. If that is too coarse, use `netcliff simulate`",
            self.name,
            more(self.loss),
            more(self.available),
            of(self.mean_latency),
            100.0 * Self::MOST_LOSS,
            of(self.interrupts)
        )
    }
}

/// A figure that missed the requested precision.
#[derive(Debug, Clone, PartialEq)]
pub struct Missed {
    /// Its name.
    pub name: &'static str,
    /// Half width of the figure's interval, relative to the value or, if `of_cpu`, as a share of one CPU. `None`: the
    /// figure has no interval.
    pub half_width: Option<f64>,
    /// True for a share of one CPU.
    pub of_cpu: bool,
    /// Smallest half width that a quantile of the histogram can have; `None` unless this is why the precision was
    /// missed.
    pub never_below: Option<f64>,
}

impl std::fmt::Display for Missed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name;
        match (self.half_width, self.never_below) {
            (Some(width), _) if self.of_cpu => write!(out, "{name} ± {width:.2e} of one CPU"),
            (Some(width), Some(least)) => {
                write!(out, "{name} ± {:.2} % (never below {:.2} %)", 100.0 * width, 100.0 * least)
            }
            (Some(width), None) => write!(out, "{name} ± {:.2} %", 100.0 * width),
            (None, _) => write!(out, "{name} without an interval"),
        }
    }
}

/// Why the replications do not give reliable figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Lack {
    /// Time: in this number of replications all arrivals after the warm-up have the same time (they are in one burst of
    /// a capture).
    Time(usize),
    /// A steady state: the warm-up does not end within the first half of the replications.
    Steady,
    /// Length: the replications last too few autocorrelation times.
    Stretches,
    /// Pauses of the CPU: the number of pauses expected per replication, which is too small.
    Pauses(f64),
    /// Complete latencies: this share of the time that packets spend inside the host lies outside the measured window.
    Stay(f64),
    /// Balance: the two sides of Little's law differ by this share of the mean latency, which exceeds its interval.
    Balance(f64),
}

/// Number and length of the replications of a simulation.
#[derive(Debug, Clone, Copy)]
pub struct Replications {
    /// Number of replications.
    pub count: usize,
    /// Packets per replication.
    pub packets_each: u64,
    /// Length of the longest replication after its warm-up (s).
    pub lasting_s: f64,
}

impl Lack {
    /// True if no figure of the replications is reliable; false if only the packets' latencies are not.
    pub fn concerns_all(self) -> bool {
        matches!(self, Self::Time(_) | Self::Steady | Self::Stretches | Self::Pauses(_))
    }

    fn of(self, Replications { count, packets_each, lasting_s }: &Replications) -> String {
        let these = format!("{count} replications of {packets_each} packets");
        let lasting = format!("{these} ({lasting_s:.3} s after the warm-up)");
        match self {
            Self::Time(instants) if instants == *count => format!(
                "{these} lie within bursts: all packets after the warm-up have one arrival time, so that rates, shares of the CPU and \
                 averages over time are omitted"
            ),
            Self::Time(instants) => format!("{instants} of {these} lie within bursts of one arrival time"),
            Self::Steady => format!("{these} show no steady state in their first half"),
            Self::Stretches => format!("{lasting} are too short for queues that change so slowly"),
            Self::Pauses(count) => {
                format!("{lasting} have {count:.1} pauses each on average, too few to show their effect")
            }
            Self::Stay(share) => format!(
                "packets stay inside too long for {lasting}: {:.0} % of their time inside is before or after the measured window",
                100.0 * share.min(1.0)
            ),
            Self::Balance(share) => {
                format!("Little's law and the mean latency differ by {:.2} % in {lasting}", 100.0 * share)
            }
        }
    }
}

fn larger(ring: Option<u64>, socket: Option<u64>) -> String {
    let ring = ring.map(|packets| format!("a ring of {packets}"));
    let socket = socket.map(|packets| format!("a socket buffer of {packets}"));
    ring.into_iter().chain(socket).collect::<Vec<_>>().join(" and ")
}

fn percents(shares: &[f64]) -> String {
    shares.iter().map(|share| format!("{:.0} %", 100.0 * share)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_its_sentence_in_json_and_reads_back_as_one() {
        let notes = [
            Note::Unchecked("dim", Some(2000), Some(3000)),
            Note::HeavyTails(Some((59_000.0, 60_000.0))),
            Note::FewerPhases(8),
            Note::AtLatency(2e-6, Some(30e-6)),
            Note::Warning(Warning::OneSlot),
        ];
        let said = [
            "for smaller queues than this host's (a ring of 2000 and a socket buffer of 3000 packets).",
            "the load that was really offered (59.0000 kpps of the 60.0000 kpps asked for)",
            "(coefficient of variation 0.35) are modelled as these phases; the application's times",
            "computed with an interrupt latency of 2us and a gap that ends 30us late, by trials",
            "warning: ring = 1 holds only the packet in service",
        ];
        let json = serde_json::to_string(&notes).unwrap();
        let read: Vec<Note> = serde_json::from_str(&json).unwrap();
        assert_eq!(read, notes);
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
        for (note, said) in notes.iter().zip(said) {
            assert!(note.to_string().contains(said), "{note}");
        }
        assert!(matches!(&read[0], Note::Read(ReadNote::Unchecked(name, _)) if name == "dim"));
        assert!(matches!(&read[3], Note::Read(ReadNote::Other(_))));
        assert_eq!((read[4].warning(), read[3].warning()), (notes[4].warning(), None));
        let range = (0.0, 1.0);
        let of = |name| {
            Note::Approximate(Bounds { name, loss: range, mean_latency: range, interrupts: range, available: range })
        };
        let stored = |name| Note::from(of(name).to_string());
        for unknown in [&notes[0], &read[0]] {
            assert!(unknown.is_unknown_error());
            assert!(of("dim").is_refuted_by(unknown) && !of("napi").is_refuted_by(unknown));
            assert!(stored("dim").is_refuted_by(unknown) && !stored("napi").is_refuted_by(unknown));
        }
        assert!(!of("dim").is_unknown_error() && !of("dim").is_refuted_by(&of("dim")));
        assert_ne!(Note::NeverUsedUp(300, 256), Note::NeverUsedUp(301, 256));
    }
}
