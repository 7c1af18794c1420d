//! Paths of single packets through the kernel: [`Follower`] (bpf/trace.bpf.c).

use super::{Key, Owner, Site, TracerError, names::Names, symbols::Symbols};
use crate::bpf;
use crate::spaces::Spaces;
use libbpf_rs::{
    Link, RingBufferBuilder,
    btf::{
        Btf,
        types::{Func, Typedef},
    },
    skel::{OpenSkel as _, Skel as _, SkelBuilder as _},
};
use netcliff_core::drops::{Path, PathStep};
use netcliff_core::filter::Filter;
use std::{cell::RefCell, collections::BTreeMap, fmt, time::Duration, time::Instant};

bpf::skeleton!("trace");
use skeleton::{TraceSkel, TraceSkelBuilder};

/// Longest wait of one poll of the events.
const POLL: Duration = Duration::from_millis(20);
/// Time that the followed packets have to reach their end after the last of them began its path.
const LINGER: Duration = Duration::from_millis(200);

/// Follows packets through the kernel.
pub struct Follower {
    // Dropped first: the programs must not write to the maps while they are freed.
    links: Vec<Link>,
    skel: TraceSkel<'static>,
    names: Option<Names>,
    places: BTreeMap<u32, String>,
    /// Places that this kernel lacks.
    missing: Vec<String>,
    /// Whether functions are traced in addition to tracepoints.
    functions: bool,
    wanted: u32,
    spaces: RefCell<Spaces>,
}

impl fmt::Debug for Follower {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Follower").field("places", &self.places).finish_non_exhaustive()
    }
}

/// Splits a name `p13_ip_output` into number and name of the place.
fn place_of(program: &str) -> Option<(u32, &str)> {
    let (number, name) = program.strip_prefix('p')?.split_once('_')?;
    Some((number.parse().ok()?, name))
}

/// Opens and loads the programs of the places that this kernel has, and lists the others.
fn load(
    btf: &Btf<'_>,
    filter: Option<&Filter>,
    per_s: f64,
    has_reason: bool,
    functions: bool,
) -> Result<(TraceSkel<'static>, Vec<String>), TracerError> {
    let mut open =
        TraceSkelBuilder::default().open(bpf::place()).map_err(|error| TracerError::new(bpf::open_reason(&error)))?;
    let mut missing = Vec::new();
    for mut program in open.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let Some((_, place)) = place_of(&name) else { continue };
        let tracepoint = btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{place}")).is_some();
        let function = functions && btf.type_by_name::<Func<'_>>(place).is_some();
        if !tracepoint && !function {
            program.set_autoload(false);
            missing.push(place.to_owned());
        }
    }
    let rodata =
        open.maps.rodata_data.as_deref_mut().ok_or_else(|| TracerError::new("the programs have no constants"))?;
    rodata.has_reason = u32::from(has_reason);
    rodata.spacing_ns = (1e9 / per_s.max(1e-3)) as u64;
    super::load::put_filter!(rodata, filter.map_or(&[][..], |filter| filter.steps()));
    let skel = open.load().map_err(|error| TracerError::new(bpf::load_reason(&error)))?;
    Ok((skel, missing))
}

impl Follower {
    /// Starts to follow the next `packets` packets that the filter accepts, at most `per_s` new packets per second.
    ///
    /// # Errors
    /// This kernel has no BTF, permission is missing, or the kernel refuses the programs.
    pub fn start(filter: Option<&Filter>, packets: u32, per_s: f64) -> Result<Self, TracerError> {
        let btf = bpf::types().map_err(TracerError::new)?;
        let names = Names::of_tracepoint(&btf)?;
        // If the kernel refuses tracing of functions, tracepoints remain.
        let with = |functions: bool| Ok((load(&btf, filter, per_s, names.is_some(), functions)?, functions));
        let ((skel, missing), functions) = with(true).or_else(|_: TracerError| with(false))?;
        let mut follower = Self {
            links: Vec::new(),
            skel,
            names,
            places: BTreeMap::new(),
            missing,
            functions,
            wanted: packets,
            spaces: RefCell::default(),
        };
        follower.attach()?;
        if let Some(bss) = follower.skel.maps.bss_data.as_deref_mut() {
            // SAFETY: a word of mapped memory; the programs change it by atomics only after this.
            unsafe { (&raw mut bss.wanted).write_volatile(i64::from(packets)) };
        }
        Ok(follower)
    }

    /// Attaches the programs at the ends of packets first, so that the end of a followed packet is always seen.
    fn attach(&mut self) -> Result<(), TracerError> {
        let mut programs: Vec<_> = self
            .skel
            .object()
            .progs_mut()
            .filter_map(|program| {
                let name = program.name().to_string_lossy().into_owned();
                let (number, place) = place_of(&name).map(|(number, place)| (number, place.to_owned()))?;
                (!self.missing.contains(&place)).then_some((number, place, program))
            })
            .collect();
        programs.sort_by_key(|(number, ..)| *number);
        for (number, place, program) in programs {
            match program.attach() {
                Ok(link) => {
                    self.links.push(link);
                    self.places.insert(number, place);
                }
                // A function that is inlined everywhere, or whose tracing this kernel does not allow.
                Err(_) => self.missing.push(place),
            }
        }
        if self.places.contains_key(&1) && self.places.contains_key(&2) {
            return Ok(());
        }
        Err(TracerError::new("the tracepoints skb:kfree_skb and skb:consume_skb refused the programs"))
    }

    /// Follows packets for at most the time `most`, or until all have reached their end, or until `stop` returns true.
    /// Returns their paths.
    ///
    /// # Errors
    /// The events cannot be read.
    pub fn follow(
        &mut self,
        most: Duration,
        symbols: &Symbols,
        stop: impl Fn() -> bool,
    ) -> Result<Vec<Path>, TracerError> {
        let paths: RefCell<BTreeMap<u32, Following>> = RefCell::default();
        let take = |bytes: &[u8]| {
            if let Some(event) = Event::of(bytes) {
                self.add(&mut paths.borrow_mut(), &event, symbols);
            }
            0
        };
        let failed = |error: libbpf_rs::Error| TracerError::new(format!("the events cannot be read: {error}"));
        let mut builder = RingBufferBuilder::new();
        builder.add(&self.skel.maps.events, take).map_err(failed)?;
        let events = builder.build().map_err(failed)?;
        let until = Instant::now() + most;
        let mut complete_since = None;
        while Instant::now() < until && !stop() {
            events.poll(POLL).map_err(failed)?;
            let all = paths.borrow();
            if all.len() < self.wanted as usize {
                continue;
            }
            if all.values().all(|one| one.is_over) {
                break;
            }
            let since = *complete_since.get_or_insert_with(Instant::now);
            if since.elapsed() > LINGER {
                break;
            }
        }
        events.consume().map_err(failed)?;
        drop(events);
        Ok(paths.into_inner().into_values().map(|one| one.path).collect())
    }

    fn add(&self, paths: &mut BTreeMap<u32, Following>, event: &Event, symbols: &Symbols) {
        let fresh = || Following {
            began_ns: event.at_ns,
            is_over: false,
            path: Path { packet: event.packet, flow: event.flow(), ..Path::default() },
        };
        let Following { began_ns, is_over, path } = paths.entry(event.packet).or_insert_with(fresh);
        *is_over |= event.ended != 0;
        // This event and later ones belong to another packet.
        if event.ended == REUSED {
            return;
        }
        let dropped = (event.place == 1).then(|| {
            let reason = self.names.as_ref().map_or_else(|| "-".to_owned(), |names| names.of(event.reason));
            format!("{reason} at {}", symbols.at(event.location))
        });
        path.ended |= event.ended != 0;
        let inode = Some(u64::from(event.owner.space)).filter(|inode| *inode > 0);
        path.steps.push(PathStep {
            at_ns: event.at_ns.saturating_sub(*began_ns),
            place: self.places.get(&event.place).cloned().unwrap_or_else(|| format!("place {}", event.place)),
            cpu: event.cpu,
            device: event.owner.device(),
            netns: inode.map(|inode| self.spaces.borrow_mut().name(inode)),
            bytes: event.length,
            dropped,
        });
    }

    /// What limits the paths, one sentence each.
    pub fn limits(&self) -> Vec<String> {
        let mut limits = Vec::new();
        if !self.functions {
            limits
                .push("this kernel refuses programs at functions (fentry): only its tracepoints are shown".to_owned());
        } else if !self.missing.is_empty() {
            limits.push(format!("this kernel does not let these be traced: {}", self.missing.join(", ")));
        }
        if let Some(bss) = self.skel.maps.bss_data.as_deref() {
            // SAFETY: words of mapped memory; the programs may write at the same time.
            let (events, packets) = unsafe {
                ((&raw const bss.lost_events).read_volatile(), (&raw const bss.lost_packets).read_volatile())
            };
            if events > 0 {
                limits.push(format!("{events} steps found no room in the ring of events"));
            }
            if packets > 0 {
                limits.push(format!("{packets} packets were not followed: their place was taken"));
            }
        }
        limits
    }
}

/// A packet that is being followed.
struct Following {
    began_ns: u64,
    /// True: its end was seen, or another packet uses its address.
    is_over: bool,
    path: Path,
}

/// `REUSED` of bpf/trace.bpf.c.
const REUSED: u32 = 2;

/// `struct event`.
struct Event {
    at_ns: u64,
    location: u64,
    packet: u32,
    place: u32,
    cpu: u32,
    length: u32,
    reason: u32,
    ended: u32,
    flow: [u8; 40],
    owner: Owner,
}

impl Event {
    fn of(bytes: &[u8]) -> Option<Event> {
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Event {
            at_ns: long(0)?,
            location: long(8)?,
            packet: word(16)?,
            place: word(20)?,
            cpu: word(24)?,
            length: word(28)?,
            reason: word(32)?,
            ended: word(36)?,
            flow: *bytes.get(40..)?.first_chunk()?,
            owner: Owner::of(bytes.get(80..)?)?,
        })
    }

    fn flow(&self) -> Option<netcliff_core::drops::Flow> {
        Key::of_flow(Site { location: 0, reason: 0 }, &self.flow)?.flow()
    }
}
