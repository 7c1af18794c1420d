//! [`Tree`] copies, shortens and anonymises the files of a capture.

use crate::{
    inspect::{counters::STATISTICS, interrupts, network::FILTERS},
    inventory::{disturbs, kernel_configuration},
    nic::{Nic, message_interrupts},
    procfs,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Files of an interface, below `sys/class/net/NAME`.
const OF_INTERFACE: &[&str] = &[
    "device/current_link_speed",
    "device/current_link_width",
    "device/features",
    "device/max_link_speed",
    "device/max_link_width",
    "gro_flush_timeout",
    "napi_defer_hard_irqs",
    "queues/*/rps_cpus",
    "queues/*/rps_flow_cnt",
    "queues/*/xps_cpus",
    "threaded",
];

/// Parameters of the kernel command line that change how packets are handled; others are left out.
const PARAMETERS: &[&str] = &[
    "idle",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "amd_pstate",
    "iommu",
    "iommu.passthrough",
    "irqaffinity",
    "isolcpus",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "numa_balancing",
    "preempt",
    "processor.max_cstate",
    "rcu_nocbs",
    "threadirqs",
    "tsc",
];

/// A capture that is being written.
pub(super) struct Tree<'a> {
    root: &'a Path,
    dir: &'a Path,
    /// Files written so far.
    pub(super) count: usize,
}

impl<'a> Tree<'a> {
    /// A tree that copies from `root` to `dir`.
    pub(super) fn new(root: &'a Path, dir: &'a Path) -> Self {
        Self { root, dir, count: 0 }
    }

    pub(super) fn write(&mut self, file: &str, text: &str) -> io::Result<()> {
        let path = self.dir.join(file);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
        self.count += 1;
        Ok(())
    }

    /// Copies the files that match `pattern`. A file that does not exist, or that this user may not read, is left out.
    pub(super) fn copy(&mut self, pattern: &str) -> io::Result<()> {
        for file in matches(self.root, pattern) {
            if let Ok(text) = fs::read_to_string(self.root.join(&file)) {
                self.write(&file, &text)?;
            }
        }
        Ok(())
    }

    fn edited(&mut self, file: &str, edit: impl Fn(&str) -> String) -> io::Result<()> {
        match fs::read_to_string(self.root.join(file)) {
            Ok(text) => self.write(file, &edit(&text)),
            Err(_) => Ok(()),
        }
    }

    pub(super) fn system(&mut self) -> io::Result<()> {
        self.edited("proc/cmdline", command_line)?;
        self.edited("proc/cpuinfo", first_processor)?;
        self.edited("proc/stat", |text| lines(text, |line| line.starts_with("cpu ")))?;
        self.edited("proc/self/status", |text| lines(text, |line| line.starts_with("Uid:")))?;
        self.edited("proc/modules", |text| {
            lines(text, |line| FILTERS.iter().any(|name| line.split(' ').next() == Some(name)))
        })?;
        for file in ["proc/net/ip_tables_names", "proc/net/ip6_tables_names"] {
            if self.root.join(file).exists() {
                self.write(file, "")?;
            }
        }
        let release = procfs::text(self.root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
        let wanted = |line: &str| line.starts_with("CONFIG_HZ=") || line.starts_with("CONFIG_PREEMPT");
        let configuration = lines(&kernel_configuration(self.root, Some(&release)), wanted);
        if !configuration.is_empty() {
            self.write(&format!("boot/config-{release}"), &configuration)?;
        }
        if self.root.join("sys/kernel/btf/vmlinux").exists() {
            self.write("sys/kernel/btf/vmlinux", "")?;
        }
        for file in matches(self.root, "proc/*/comm") {
            let name = procfs::text(self.root.join(&file)).unwrap_or_default();
            if name == "irqbalance" || disturbs(&name).is_some() {
                self.write(&file, &(name + "\n"))?;
            }
        }
        Ok(())
    }

    pub(super) fn interface(&mut self, name: &str) -> io::Result<()> {
        let here = format!("sys/class/net/{name}");
        for file in OF_INTERFACE {
            self.copy(&format!("{here}/{file}"))?;
        }
        self.copy(&format!("proc/sys/net/ipv6/conf/{name}/disable_ipv6"))?;
        // Reading the XPS map of a queue without XPS fails, but the queue exists and its directory is written.
        for (queue, path) in procfs::numbered(self.root.join(&here).join("queues"), "tx-") {
            if procfs::text(path.join("xps_cpus")).is_none() {
                self.write(&format!("{here}/queues/tx-{queue}/xps_cpus"), "")?;
            }
        }
        let device = self.root.join(&here).join("device");
        let node = [device.join("numa_node"), device.join("../numa_node")].into_iter().find_map(procfs::text);
        if let Some(node) = node {
            self.write(&format!("{here}/device/numa_node"), &(node + "\n"))?;
        }
        // Only the driver's name is read, so the copied link may point nowhere.
        if let Ok(driver) = fs::read_link(device.join("driver"))
            && let Some(driver) = driver.file_name()
        {
            self.copy(&format!("sys/module/{}/parameters/*", driver.to_string_lossy()))?;
            fs::create_dir_all(self.dir.join(&here).join("device"))?;
            symlink(Path::new("../drivers").join(driver), self.dir.join(&here).join("device/driver"))?;
            self.count += 1;
        }
        Ok(())
    }

    pub(super) fn interrupts(&mut self, nics: &[Nic]) -> io::Result<()> {
        let mut wanted = BTreeSet::new();
        let table = interrupts::table(self.root, &mut BTreeMap::new());
        for nic in nics {
            // sysfs does not list the interrupts of old devices; they are found by name.
            wanted.extend(interrupts::of_device(self.root, nic, &table).into_iter().map(|irq| irq.number.to_string()));
            let here = format!("sys/class/net/{}", nic.name);
            let listed = message_interrupts(&self.root.join(&here).join("device"));
            for (irq, _) in procfs::numbered(listed, "") {
                self.write(&format!("{here}/device/msi_irqs/{irq}"), "msix\n")?;
                wanted.insert(irq.to_string());
            }
        }
        let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
        self.edited("proc/interrupts", |text| {
            lines(text, |line| {
                let row = line.split(':').next().unwrap_or_default().trim();
                let other = row.parse::<u32>().is_ok();
                !other || wanted.contains(row) || names.iter().any(|name| line.contains(name))
            })
        })?;
        for irq in wanted {
            self.copy(&format!("proc/irq/{irq}/smp_affinity_list"))?;
            self.copy(&format!("proc/irq/{irq}/effective_affinity_list"))?;
        }
        Ok(())
    }

    pub(super) fn later(&mut self, nics: &[Nic]) -> io::Result<()> {
        for nic in nics {
            for counter in STATISTICS {
                self.copy(&format!("sys/class/net/{}/statistics/{counter}", nic.name))?;
            }
        }
        Ok(())
    }
}

/// Existing paths below `root` that match `pattern`, relative to `root`.
fn matches(root: &Path, pattern: &str) -> Vec<String> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.split('/') {
        let fits = |name: &str| match part.split_once('*') {
            Some((head, tail)) => name.starts_with(head) && name.ends_with(tail),
            None => name == part,
        };
        found = found
            .iter()
            .flat_map(|dir| {
                let names = if part.contains('*') { procfs::names(root.join(dir)) } else { vec![part.to_owned()] };
                names.into_iter().filter(|name| fits(name)).map(|name| dir.join(name)).collect::<Vec<_>>()
            })
            .filter(|path| root.join(path).exists())
            .collect();
    }
    found.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

fn lines(text: &str, keep: impl Fn(&str) -> bool) -> String {
    text.lines().filter(|line| keep(line)).map(|line| format!("{line}\n")).collect()
}

fn command_line(text: &str) -> String {
    let known = |word: &&str| PARAMETERS.contains(&word.split('=').next().unwrap_or_default());
    text.split_whitespace().filter(known).collect::<Vec<_>>().join(" ") + "\n"
}

/// Returns all fields of the first processor except its serial number, and only the number of each other processor.
fn first_processor(text: &str) -> String {
    let mut blocks = text.split("\n\n");
    let first = lines(blocks.next().unwrap_or_default(), |line| !line.to_lowercase().starts_with("serial"));
    let others = blocks.map(|block| lines(block, |line| line.starts_with("processor")));
    [first].into_iter().chain(others.filter(|block| !block.is_empty())).collect::<Vec<_>>().join("\n")
}
