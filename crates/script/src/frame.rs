//! Frames between parent and child: four bytes of length, little-endian, then that many bytes.
//!
//! Both sides refuse a frame longer than [`FRAME_BYTES_MAX`], and neither reserves memory a frame only announces.

use std::io::{self, Read, Write};

/// Bytes of one frame; eight pages of the service, so that no honest message comes near it.
pub(crate) const FRAME_BYTES_MAX: usize = 8 * orrery_model::limits::PAGE_BYTES;

/// Writes one frame whole; the caller has checked its size with [`fits`].
pub(crate) fn write_frame(to: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len())
        .ok()
        .filter(|_| fits(payload.len()))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "frame too large"))?;
    if payload.len() <= 4096 {
        // One system call for the frames that are many.
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

/// Whether a payload of so many bytes may be a frame.
pub(crate) fn fits(bytes: usize) -> bool {
    bytes <= FRAME_BYTES_MAX
}

/// Reads one frame; `None` if the other side closed the pipe between frames.
pub(crate) fn read_frame(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0u8; 4];
    let mut have = 0;
    while have < length.len() {
        match from.read(&mut length[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => have += n,
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
    fn a_frame_cut_short_is_an_error() {
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
