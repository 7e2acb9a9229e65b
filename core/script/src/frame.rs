//! Frames between parent and child: four bytes of length, little-endian, then that many bytes.
//!
//! Both sides refuse a frame longer than [`FRAME_BYTES_MAX`], and neither reserves memory for bytes
//! that a frame announces and does not bring.

use std::io::{self, Read, Write};

/// The most bytes of one frame: eight pages of the service, far more than any well-formed message
/// needs.
pub(crate) const FRAME_BYTES_MAX: usize = 8 * orrery_model::limits::PAGE_BYTES;

/// Bytes up to which a frame is written with one system call.
const SMALL_FRAME_BYTES: usize = 4096;

/// Writes one frame. The caller has checked its size with [`fits`].
pub(crate) fn write_frame(to: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    let length = match u32::try_from(payload.len()) {
        Ok(length) if fits(payload.len()) => length,
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "frame too large",
            ));
        }
    };
    if payload.len() <= SMALL_FRAME_BYTES {
        // Small frames are frequent: one copy is cheaper than a second system call.
        let mut whole = Vec::with_capacity(4 + payload.len());
        whole.extend_from_slice(&length.to_le_bytes());
        whole.extend_from_slice(payload);
        to.write_all(&whole)?;
    } else {
        to.write_all(&length.to_le_bytes())?;
        to.write_all(payload)?;
    }
    to.flush()
}

/// Returns true if a payload of so many bytes fits into a frame.
pub(crate) fn fits(bytes: usize) -> bool {
    bytes <= FRAME_BYTES_MAX
}

/// Reads one frame. Returns `None` if the other side closed the pipe between two frames.
pub(crate) fn read_frame(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0u8; 4];
    let mut filled = 0;
    // `read_exact` would not tell a pipe closed between frames from one closed inside a frame.
    while filled < length.len() {
        match from.read(&mut length[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let length = u32::from_le_bytes(length) as usize;
    if !fits(length) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "frame too large",
        ));
    }
    // The announced length is not trusted with more memory than this.
    let mut payload = Vec::with_capacity(length.min(64 * 1024));
    from.take(length as u64).read_to_end(&mut payload)?;
    if payload.len() == length {
        Ok(Some(payload))
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were_written() {
        for size in [0, 1, 4096, 4097, 100_000] {
            let payload = vec![7u8; size];
            let mut pipe = Vec::new();
            write_frame(&mut pipe, &payload).unwrap();
            let mut from = pipe.as_slice();
            assert_eq!(read_frame(&mut from).unwrap(), Some(payload));
            assert_eq!(read_frame(&mut from).unwrap(), None);
        }
    }

    #[test]
    fn a_frame_that_announces_too_much_is_refused() {
        let mut from: &[u8] = &[0xff; 16];
        assert_eq!(
            read_frame(&mut from).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }

    #[test]
    fn a_truncated_frame_is_an_error() {
        for cut in 1..8 {
            let mut pipe = Vec::new();
            write_frame(&mut pipe, b"four").unwrap();
            assert_eq!(
                read_frame(&mut &pipe[..cut]).unwrap_err().kind(),
                io::ErrorKind::UnexpectedEof
            );
        }
    }
}
