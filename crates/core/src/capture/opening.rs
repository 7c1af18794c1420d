//! [`opened`]: decompresses a capture and converts it to a form that the parser reads; names other kinds of files.

use std::io::{self, Cursor, Read};

/// Most bytes that are read from a compressed file after decompression.
#[cfg(feature = "packed")]
const MOST_UNPACKED: u64 = 64 << 30;
/// Number of first bytes by which the kind of a file is recognised.
const HEAD: u64 = 16;
/// The "modified" pcap of A. Kuznetzov's patch, big-endian. Its records have 8 more bytes; the parser reads them only
/// in little-endian files.
const MODIFIED_BIG_ENDIAN: [u8; 4] = [0xa1, 0xb2, 0xcd, 0x34];

/// A capture's bytes, and a copy of the first of them.
pub(super) struct Opened<'a> {
    pub from: Box<dyn Read + Send + 'a>,
    pub head: Vec<u8>,
}

/// Opens a capture, decompressing it if need be.
pub(super) fn opened<'a>(from: impl Read + Send + 'a) -> io::Result<Opened<'a>> {
    let mut from = unpacked(from)?;
    let mut head = Vec::new();
    from.by_ref().take(HEAD).read_to_end(&mut head)?;
    let whole = Cursor::new(head.clone()).chain(from);
    let from: Box<dyn Read + Send + 'a> =
        if head.starts_with(&MODIFIED_BIG_ENDIAN) { Box::new(Modified::new(whole)) } else { Box::new(whole) };
    Ok(Opened { from, head })
}

fn unpacked<'a>(mut from: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut first = Vec::new();
    from.by_ref().take(4).read_to_end(&mut first)?;
    let (gzip, zstd) = (first.starts_with(&[0x1f, 0x8b]), is_zstd(&first));
    let whole = Cursor::new(first).chain(from);
    #[cfg(feature = "packed")]
    return Ok(if gzip {
        Box::new(flate2::read::MultiGzDecoder::new(whole).take(MOST_UNPACKED))
    } else if zstd {
        Box::new(frames::Frames::new(io::BufReader::new(whole)).take(MOST_UNPACKED))
    } else {
        Box::new(whole)
    });
    #[cfg(not(feature = "packed"))]
    if gzip || zstd {
        Err(io::Error::other("it is packed by gzip or zstd; unpack it first"))
    } else {
        Ok(Box::new(whole))
    }
}

/// True for the first bytes of a zstd frame or of a skippable frame (RFC 8878, section 3.1).
fn is_zstd(first: &[u8]) -> bool {
    first == [0x28, 0xb5, 0x2f, 0xfd] || matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18])
}

#[cfg(feature = "packed")]
mod frames {
    use std::io::{self, BufRead, Read};

    use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
    use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

    /// All frames of a zstd file in sequence, as `zstd -d` unpacks them. pzstd writes several frames, and `cat` joins
    /// files.
    pub struct Frames<R> {
        from: R,
        decoder: FrameDecoder,
    }

    impl<R: BufRead> Frames<R> {
        pub fn new(from: R) -> Self {
            Self { from, decoder: FrameDecoder::new() }
        }

        /// Begins the next frame. False at the end of the file.
        fn next(&mut self) -> io::Result<bool> {
            while !self.from.fill_buf()?.is_empty() {
                match self.decoder.init(&mut self.from) {
                    Ok(()) => return Ok(true),
                    Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                        length, ..
                    })) => {
                        let length = u64::from(length);
                        if io::copy(&mut self.from.by_ref().take(length), &mut io::sink())? < length {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                    }
                    Err(error) => return Err(io::Error::other(error)),
                }
            }
            Ok(false)
        }
    }

    impl<R: BufRead> Read for Frames<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            loop {
                if self.decoder.can_collect() > 0 {
                    return self.decoder.read(buffer);
                }
                if !self.decoder.is_finished() {
                    let blocks = BlockDecodingStrategy::UptoBlocks(1);
                    self.decoder.decode_blocks(&mut self.from, blocks).map_err(io::Error::other)?;
                } else if !self.next()? {
                    return Ok(0);
                }
            }
        }
    }
}

/// Converts big-endian "modified" pcap to plain big-endian pcap with microseconds while it is read.
struct Modified<R> {
    from: R,
    /// True once the file's header has been read.
    began: bool,
    /// The converted header that is read next.
    header: Cursor<Vec<u8>>,
    /// Bytes of the current packet that are still to be copied unchanged.
    data: u64,
}

impl<R: Read> Modified<R> {
    fn new(from: R) -> Self {
        Self { from, began: false, header: Cursor::default(), data: 0 }
    }
}

impl<R: Read> Read for Modified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        /// Length of the file's header, and of each record's header (bytes). A record's header has 16 bytes as in plain
        /// pcap, then interface, protocol and packet type.
        const HEADER: u64 = 24;
        loop {
            let read = self.header.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            if self.data > 0 {
                let read = self.from.by_ref().take(self.data).read(buffer)?;
                self.data -= read as u64;
                return Ok(read);
            }
            let mut header = Vec::new();
            self.from.by_ref().take(HEADER).read_to_end(&mut header)?;
            match (&header[..], self.began) {
                ([], _) => return Ok(0),
                ([.., _], false) if header.len() as u64 == HEADER => {
                    header[..4].copy_from_slice(&[0xa1, 0xb2, 0xc3, 0xd4])
                }
                (&[_, _, _, _, _, _, _, _, a, b, c, d, ..], true) if header.len() as u64 == HEADER => {
                    self.data = u64::from(u32::from_be_bytes([a, b, c, d]));
                    header.truncate(16);
                }
                // The file is cut off: pass on a header that is too short, so that the parser reports it.
                _ => header.truncate(8),
            }
            (self.began, self.header) = (true, Cursor::new(header));
        }
    }
}

/// Files often mistaken for captures: first bytes, kind of file, remedy.
const OTHERS: &[(&[u8], &str, &str)] = &[
    (b"BZh", "packed by bzip2", "unpack it first: bunzip2 -k FILE"),
    (b"\xfd7zXZ\0", "packed by xz", "unpack it first: xz -dk FILE"),
    (b"\x04\x22\x4d\x18", "packed by lz4", "unpack it first: lz4 -dk FILE"),
    (b"LZIP", "packed by lzip", "unpack it first: lzip -dk FILE"),
    (b"\x1f\x9d", "packed by compress", "unpack it first: gunzip -k FILE"),
    (b"\x1f\x8b", "packed twice, by gzip", "unpack it once: gunzip -k FILE"),
    (b"\x28\xb5\x2f\xfd", "packed twice, by zstd", "unpack it once: zstd -dk FILE"),
    (b"PK\x03\x04", "a zip archive", "unpack it first: unzip FILE"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first: 7z x FILE"),
    (b"snoop\0\0\0", "Solaris snoop", CONVERT),
    (b"btsnoop\0", "Bluetooth's btsnoop", "captures of networks are read"),
    (b"GMBU", "Microsoft Network Monitor", CONVERT),
    (b"RTSS", "Microsoft Network Monitor", CONVERT),
    (b"TRSNIFF data    \x1a", "NetXray's Sniffer", CONVERT),
    (b"XCP\0", "NetXray", CONVERT),
    (b"\x7fver", "Savvius OmniPeek", CONVERT),
    (b"\xaa\xaa\xaa\xaa", "5View", CONVERT),
    (b"\xac\x01\x00\x1c", "Ixia's lcap", CONVERT),
    (b"\xab\x01\x00\x1c", "Ixia's lcap", CONVERT),
    (b"\x1c\x00\x01\xac", "Ixia's lcap", CONVERT),
    (b"\x1c\x00\x01\xab", "Ixia's lcap", CONVERT),
    (b"SQLite format 3", "an SQLite database", "expected a capture, such as `tcpdump -w FILE` writes"),
];
const CONVERT: &str = "convert it: editcap -F pcapng FILE NEW.pcapng";
const TEXT: &str = "write packets, not text: tcpdump -w FILE, tshark -w FILE";

/// Describes the kind of a file that is not a capture, by its first bytes, with the remedy.
pub(super) fn what_else(head: &[u8]) -> String {
    let none = "is neither pcap nor pcapng";
    if head.is_empty() {
        return "is empty: no packet was written to it".to_owned();
    }
    let begins = |bytes: &[u8]| head.starts_with(&bytes[..bytes.len().min(HEAD as usize)]);
    if let Some((_, what, then)) = OTHERS.iter().find(|(bytes, ..)| begins(bytes)) {
        return format!("{none} but {what}; {then}");
    }
    if is_erf(head) {
        return format!("{none} but probably ERF (Endace); {CONVERT}");
    }
    let text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    if head.iter().all(text) { format!("{none} but text; {TEXT}") } else { none.to_owned() }
}

/// True for an ERF record: time (8 bytes), type, flags, record length, loss counter, wire length.
fn is_erf(head: &[u8]) -> bool {
    let [.., kind, _, high, low, _, _, wire_high, wire_low] = head else { return false };
    let (record, wire) = (u16::from_be_bytes([*high, *low]), u16::from_be_bytes([*wire_high, *wire_low]));
    head.len() == HEAD as usize && (1..=27).contains(&(kind & 0x7f)) && (16..=wire.saturating_add(64)).contains(&record)
}
