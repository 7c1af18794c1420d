//! Parses records of a ring of perf events.

/// Optional fields of a sample; process, thread and time are always present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields {
    /// The kernel's stack.
    pub stack: bool,
    /// Events since the last sample.
    pub period: bool,
    /// The fields of the tracepoint.
    pub raw: bool,
}

const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const CALLCHAIN: u64 = 1 << 5;
const PERIOD: u64 = 1 << 8;
const RAW: u64 = 1 << 10;

/// Addresses from this value on mark a context in a call chain: `PERF_CONTEXT_MAX`.
const MARKS: u64 = -4095_i64 as u64;

/// `PERF_RECORD_LOST`, `PERF_RECORD_SAMPLE`.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

impl Fields {
    pub(super) fn sample_type(self) -> u64 {
        let of = |wanted, bit| if wanted { bit } else { 0 };
        TID | TIME | of(self.stack, CALLCHAIN) | of(self.period, PERIOD) | of(self.raw, RAW)
    }
}

/// What the CPU ran when a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A program's own code.
    User,
    /// The kernel, or a hypervisor.
    Kernel,
    /// A guest.
    Guest,
}

/// A sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Process; 0 for the idle task, and for tasks that have ended or that this process may not see.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Time [ns of CLOCK_MONOTONIC].
    pub time_ns: u64,
    /// What the CPU ran.
    pub mode: Mode,
    /// Events since the last sample; 1 if the field was not requested.
    pub period: u64,
    /// Addresses of the kernel's stack, innermost first.
    pub stack: Vec<u64>,
    /// Fields of the tracepoint.
    pub raw: Vec<u8>,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A sample.
    Sample(Sample),
    /// Number of records lost because the ring was full.
    Lost(u64),
}

/// Type, flags and length from a record's header.
pub(super) fn header(bytes: &[u8]) -> (u32, u16, u16) {
    let mut at = Bytes(bytes);
    let kind = at.u32().unwrap_or(0);
    let rest = at.u32().unwrap_or(0).to_ne_bytes();
    (kind, u16::from_ne_bytes([rest[0], rest[1]]), u16::from_ne_bytes([rest[2], rest[3]]))
}

/// Parses a record from the bytes after its header; `None` if it is of another type, or truncated.
pub(super) fn read(kind: u32, misc: u16, body: &[u8], fields: Fields) -> Option<Record> {
    let mut at = Bytes(body);
    match kind {
        LOST => at.u64().and_then(|_| at.u64()).map(Record::Lost),
        SAMPLE => {
            // In the order of the bits of sample_type, except for the call chain and the fields of a tracepoint, which
            // are last.
            let (pid, tid, time_ns) = (at.u32()?, at.u32()?, at.u64()?);
            let period = if fields.period { at.u64()? } else { 1 };
            let mut stack = Vec::new();
            if fields.stack {
                let entries = at.u64()?.min(1024);
                stack = (0..entries).map_while(|_| at.u64()).filter(|address| *address < MARKS).collect();
            }
            let raw =
                if fields.raw { at.u32().and_then(|length| at.take(length as usize))?.to_vec() } else { Vec::new() };
            // PERF_RECORD_MISC_CPUMODE_MASK: kernel 1, user 2, hypervisor 3, kernel and user of a guest 4 and 5.
            let mode = match misc & 7 {
                2 => Mode::User,
                4 | 5 => Mode::Guest,
                _ => Mode::Kernel,
            };
            // The idle task has number 0; tasks that have ended or that this process may not see have -1.
            let number = |number: u32| if number == u32::MAX { 0 } else { number };
            Some(Record::Sample(Sample { pid: number(pid), tid: number(tid), time_ns, mode, period, stack, raw }))
        }
        _ => None,
    }
}

/// Reads values one after another from bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn pair(low: u32, high: u32) -> u64 {
        u64::from_ne_bytes([low.to_ne_bytes(), high.to_ne_bytes()].concat().try_into().unwrap())
    }

    #[test]
    fn a_sample_has_its_fields_in_the_kernel_s_order() {
        let fields = Fields { stack: true, period: true, raw: false };
        let body = bytes(&[pair(7, 8), 1234, 99, 3, -128_i64 as u64, 0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020]);
        let Some(Record::Sample(sample)) = read(SAMPLE, 1, &body, fields) else { panic!("a sample") };
        assert_eq!((sample.pid, sample.tid, sample.time_ns, sample.period), (7, 8, 1234, 99));
        assert_eq!(sample.stack, [0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020]);
        assert_eq!(sample.mode, Mode::Kernel);
        // A truncated call chain gives the addresses present; a truncated header gives no sample.
        let Some(Record::Sample(cut)) = read(SAMPLE, 2, &body[..body.len() - 8], fields) else { panic!("a sample") };
        assert_eq!((cut.stack.len(), cut.mode), (1, Mode::User));
        assert_eq!(read(SAMPLE, 1, &body[..8], fields), None);
    }

    #[test]
    fn fields_of_a_tracepoint_and_lost_records_are_read() {
        let fields = Fields { stack: false, period: false, raw: true };
        let mut body = bytes(&[pair(u32::MAX, u32::MAX), 5]);
        body.extend(4u32.to_ne_bytes());
        body.extend([1, 2, 3, 4]);
        let Some(Record::Sample(sample)) = read(SAMPLE, 1, &body, fields) else { panic!("a sample") };
        assert_eq!((sample.raw, sample.pid), (vec![1, 2, 3, 4], 0));
        assert_eq!(read(LOST, 0, &bytes(&[1, 42]), fields), Some(Record::Lost(42)));
        assert_eq!(read(3, 0, &bytes(&[1, 42]), fields), None);
        let mut head = 9u32.to_ne_bytes().to_vec();
        head.extend(2u16.to_ne_bytes());
        head.extend(40u16.to_ne_bytes());
        assert_eq!(header(&head), (9, 2, 40));
    }
}
