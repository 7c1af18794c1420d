//! [`Table`]: the stage of a packet's path to which a kernel function belongs. The rows are in `stages.txt`, whose head
//! describes their format.

use std::collections::{BTreeMap, BTreeSet};

use netcliff_core::profile::Stage;

/// The rows of the table.
const ROWS: &str = include_str!("stages.txt");

/// Version of a kernel: major and minor.
pub type Kernel = (u32, u32);

/// Parses `6.18.44-generic` as (6, 18); `None` if the text has another form.
pub fn kernel(release: &str) -> Option<Kernel> {
    let mut parts = release.split(['.', '-', '+', '~']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// How the table classifies a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The function and all that it calls are work of this stage.
    Work(Stage),
    /// The function calls work of all kinds: only its own time belongs to this stage.
    Caller(Stage),
    /// The function's time belongs to its caller.
    Helper,
}

/// The rows that apply to one kernel version.
#[derive(Debug, Clone, Default)]
pub struct Table {
    names: BTreeMap<&'static str, Kind>,
    forms: Vec<(Form, Kind)>,
    modules: BTreeMap<String, Kind>,
    interrupt: Marks,
    idle: Marks,
    tracing: Marks,
    programs: Marks,
}

/// A set of functions that share a property, for example the functions of the idle task: by names and by forms with
/// wildcards.
#[derive(Debug, Clone, Default)]
struct Marks {
    names: BTreeSet<&'static str>,
    forms: Vec<Form>,
}

impl Marks {
    fn have(&self, name: &str) -> bool {
        self.names.contains(name) || self.forms.iter().any(|form| form.fits(name))
    }
}

/// A name in which `*` stands for any number of characters.
#[derive(Debug, Clone)]
struct Form(Vec<&'static str>);

impl Form {
    fn new(text: &'static str) -> Self {
        Self(text.split('*').collect())
    }

    fn letters(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum()
    }

    fn fits(&self, name: &str) -> bool {
        let [first, middle @ .., last] = &self.0[..] else { return false };
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        for piece in middle {
            let Some(at) = rest.find(piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(last)
    }
}

/// Removes the suffix that the compiler appends to a copy or a part of a function.
fn bare(name: &str) -> &str {
    name.split_once('.').map_or(name, |(bare, _)| bare)
}

impl Table {
    /// Makes the table for a kernel; `None`: the newest. Functions of the modules `drivers` count as the driver's.
    ///
    /// # Panics
    /// The file has an invalid row; a test reads it for every kernel.
    pub fn new(kernel: Option<Kernel>, drivers: &[String]) -> Self {
        let kernel = kernel.unwrap_or((u32::MAX, 0));
        let mut table = Self::default();
        let mut section = "";
        for line in ROWS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(head) = line.strip_prefix("== ") {
                section = head.split_whitespace().next().expect("a section has a name");
                continue;
            }
            for word in line.split_whitespace() {
                table.add(section, word, kernel);
            }
        }
        for driver in drivers {
            table.modules.entry(driver.replace('-', "_")).or_insert(Kind::Work(Stage::Interrupt));
        }
        table
    }

    fn add(&mut self, section: &str, word: &'static str, kernel: Kernel) {
        let (is_caller, word) = word.strip_prefix('!').map_or((false, word), |word| (true, word));
        let (range, name) = word.split_once(':').unwrap_or(("..", word));
        let (from, until) = range.split_once("..").expect("a range of kernels is FROM..UNTIL");
        let bound = |text: &str, open| if text.is_empty() { open } else { self::kernel(text).expect("MAJOR.MINOR") };
        if kernel < bound(from, (0, 0)) || kernel > bound(until, (u32::MAX, u32::MAX)) {
            return;
        }
        let marks = match section {
            "interrupt-context" => &mut self.interrupt,
            "idle" => &mut self.idle,
            "outer-tracing" => &mut self.tracing,
            "program-tracing" => &mut self.programs,
            _ => {
                let stage = || Stage::of_key(section).unwrap_or_else(|| panic!("stages.txt: `{section}` is no stage"));
                let kind = match (section, is_caller) {
                    ("helper", _) => Kind::Helper,
                    (_, true) => Kind::Caller(stage()),
                    (_, false) => Kind::Work(stage()),
                };
                if let Some(module) = name.strip_prefix('[') {
                    self.modules.insert(module.trim_end_matches(']').to_owned(), kind);
                } else if name.contains('*') {
                    self.forms.push((Form::new(name), kind));
                } else {
                    self.names.insert(name, kind);
                }
                return;
            }
        };
        if name.contains('*') {
            marks.forms.push(Form::new(name));
        } else {
            marks.names.insert(name);
        }
    }

    /// Returns the kind of a function; `None` if the table does not have it. `frame` is `name` or `name [module]`.
    pub fn find(&self, frame: &str) -> Option<Kind> {
        let (name, module) = match frame.split_once(" [") {
            Some((name, module)) => (bare(name), Some(module.trim_end_matches(']'))),
            None => (bare(frame), None),
        };
        if let Some(kind) = self.names.get(name) {
            return Some(*kind);
        }
        let forms = self.forms.iter().filter(|(form, _)| form.fits(name));
        // The form with the most letters is used; among equal ones, the first row.
        let best = forms.rev().max_by_key(|(form, _)| form.letters()).map(|(_, kind)| *kind);
        best.or_else(|| self.modules.get(module?).copied())
    }

    /// Whether this function shows that a task was interrupted.
    pub fn interrupts(&self, frame: &str) -> bool {
        self.interrupt.have(bare(frame))
    }

    /// Whether this function belongs to the idle task.
    pub fn idles(&self, frame: &str) -> bool {
        self.idle.have(bare(frame))
    }

    /// Whether this function and all that it calls belong to a tracer.
    pub fn traces(&self, frame: &str) -> bool {
        self.tracing.have(bare(frame))
    }

    /// Whether the BPF programs that this function calls belong to a tracer.
    pub fn traces_by_program(&self, frame: &str) -> bool {
        self.programs.have(bare(frame))
    }

    /// Returns the table's names without wildcards. The share of these names that a kernel has shows how well the table
    /// fits the kernel.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(frame: &str) -> Option<Kind> {
        Table::new(Some((6, 18)), &[]).find(frame)
    }

    #[test]
    fn the_row_with_most_letters_counts() {
        assert_eq!(find("virtnet_poll"), Some(Kind::Work(Stage::Interrupt)));
        assert_eq!(find("virtnet_xmit_xdp"), Some(Kind::Work(Stage::Transmit)));
        assert_eq!(find("_copy_to_iter"), Some(Kind::Work(Stage::Copy)));
        assert_eq!(find("ip_finish_output2"), Some(Kind::Work(Stage::Ip)));
        assert_eq!(find("e1000_xmit_frame"), Some(Kind::Work(Stage::Transmit)));
        assert_eq!(find("e1000_clean_rx_irq"), Some(Kind::Work(Stage::Interrupt)));
        assert_eq!(find("net_rx_action"), Some(Kind::Caller(Stage::Interrupt)));
        assert_eq!(find("_raw_spin_unlock_irqrestore"), Some(Kind::Helper));
        assert_eq!(find("a_function_of_nobody"), None);
    }

    #[test]
    fn parts_and_copies_of_a_function_are_the_function() {
        assert_eq!(find("do_softirq.part.0"), find("do_softirq"));
        assert_eq!(find("finish_task_switch.isra.0"), Some(Kind::Work(Stage::Switch)));
        assert_eq!(find("__netif_receive_skb_core.constprop.0"), Some(Kind::Work(Stage::Ip)));
    }

    #[test]
    fn a_module_s_functions_are_its_stage_s_where_no_row_names_them() {
        assert_eq!(find("something_inside [mlx5_core]"), Some(Kind::Work(Stage::Interrupt)));
        assert_eq!(find("something_inside [nf_tables]"), Some(Kind::Work(Stage::Netfilter)));
        assert_eq!(find("mlx5e_xmit [mlx5_core]"), Some(Kind::Work(Stage::Transmit)));
        assert_eq!(find("something_inside [new_nic]"), None);
        let own = Table::new(None, &["new-nic".to_owned()]);
        assert_eq!(own.find("something_inside [new_nic]"), Some(Kind::Work(Stage::Interrupt)));
    }

    #[test]
    fn names_hold_for_their_kernels() {
        let at = |version, name: &str| Table::new(Some(version), &[]).find(name);
        let softirq = Some(Kind::Caller(Stage::Interrupt));
        assert_eq!((at((6, 8), "__do_softirq"), at((6, 8), "handle_softirqs")), (softirq, None));
        assert_eq!((at((6, 9), "__do_softirq"), at((6, 9), "handle_softirqs")), (None, softirq));
        assert_eq!(kernel("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(kernel("6.12+deb13"), Some((6, 12)));
        assert_eq!(kernel("next"), None);
    }

    /// Every stage has rows, except the application and unknown functions, and no name is in two sections.
    #[test]
    fn the_table_is_whole() {
        let table = Table::new(None, &[]);
        let kinds: Vec<Kind> = table.names.values().copied().chain(table.forms.iter().map(|(_, kind)| *kind)).collect();
        for stage in Stage::ALL.into_iter().filter(|stage| !matches!(stage, Stage::Application | Stage::Unknown)) {
            assert!(kinds.contains(&Kind::Work(stage)), "{stage:?} has no row");
        }
        let mut seen = BTreeMap::new();
        let mut section = "";
        for line in ROWS.lines().filter(|line| !line.starts_with('#')) {
            if let Some(head) = line.strip_prefix("== ") {
                section = head.split_whitespace().next().unwrap();
            } else if !matches!(section, "interrupt-context" | "idle" | "outer-tracing" | "program-tracing") {
                for word in line.split_whitespace() {
                    let before = seen.insert(word.trim_start_matches('!'), section);
                    assert!(before.is_none_or(|before| before == section), "{word}: {before:?} and {section}");
                }
            }
        }
    }
}
