//! The sequence of frames in a trial: size and stream of the frame at each position.

use std::sync::Arc;

use super::frame::{FCS_BYTES, Profile};
use netcliff_packets::replay::Replay;

/// The sequence of frames. Each combination of size and stream has a template.
#[derive(Debug)]
pub(super) enum FrameOrder {
    /// The sizes in turn. The stream advances after each round of the sizes, so that all streams have all sizes.
    Turns {
        /// Frame lengths in bytes, without FCS.
        lengths: Vec<usize>,
        /// Number of streams.
        streams: usize,
    },
    /// The sizes and flows of a capture. A stream is a source port; a template is a kind of its frames.
    Replay(Arc<Replay>),
}

impl FrameOrder {
    pub(super) fn of(profile: &Profile) -> Self {
        match &profile.replay {
            Some(replay) => Self::Replay(Arc::clone(replay)),
            None => Self::Turns {
                lengths: profile.sizes.iter().map(|bytes| bytes - FCS_BYTES).collect(),
                streams: profile.sweep.streams() as usize,
            },
        }
    }

    /// For each template: frame bytes without FCS, and the stream.
    pub(super) fn templates(&self) -> Vec<(usize, u32)> {
        match self {
            Self::Turns { lengths, streams } => {
                let of = |length: &usize| {
                    let length = *length;
                    (0..*streams).map(move |stream| (length, stream as u32))
                };
                lengths.iter().flat_map(of).collect()
            }
            Self::Replay(replay) => {
                replay.kinds().iter().map(|kind| (kind.frame_bytes - FCS_BYTES, u32::from(kind.flow))).collect()
            }
        }
    }

    pub(super) fn streams(&self) -> usize {
        match self {
            Self::Turns { streams, .. } => *streams,
            Self::Replay(replay) => replay.flows() as usize,
        }
    }

    pub(super) fn replay(&self) -> Option<&Arc<Replay>> {
        match self {
            Self::Turns { .. } => None,
            Self::Replay(replay) => Some(replay),
        }
    }

    /// Frame bytes without FCS of the frame with this sequence number.
    #[inline]
    pub(super) fn length(&self, sequence: u64) -> usize {
        match self {
            Self::Turns { lengths, .. } => lengths[(sequence % lengths.len() as u64) as usize],
            Self::Replay(replay) => replay.kinds()[replay.kind_at(sequence)].frame_bytes - FCS_BYTES,
        }
    }

    /// Stream of the frame with this sequence number.
    #[inline]
    pub(super) fn stream(&self, sequence: u64) -> u16 {
        match self {
            Self::Turns { lengths, streams } => ((sequence / lengths.len() as u64) % *streams as u64) as u16,
            Self::Replay(replay) => replay.kinds()[replay.kind_at(sequence)].flow,
        }
    }

    /// Index of the template of the frame with this sequence number, which belongs to `stream`.
    #[inline]
    pub(super) fn template(&self, sequence: u64, stream: u16) -> usize {
        match self {
            Self::Turns { lengths, streams } => {
                (sequence % lengths.len() as u64) as usize * streams + usize::from(stream)
            }
            Self::Replay(replay) => replay.kind_at(sequence),
        }
    }
}
