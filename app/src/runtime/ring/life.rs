//! The life of a journal: a server makes it or takes it over, and the last one removes it.

use super::{BYTES_MIN, ContentPlace, Durable, IDENTITY_BYTES, Identity, Owner, PAGE, Replay, ReplayError, Ring, settle};
use memmap2::MmapMut;
use onefold_engine::units::{BLOCK_BYTES, Epoch, count};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{Ordering, compiler_fence};

impl Ring {
    /// Makes an empty journal with `bytes` for records (rounded to pages, [`BYTES_MIN`] at least), and room for this many contents, for
    /// the server that begins the incarnation after `incarnation`. It replaces any file at `path`, which must be on a tmpfs; until this
    /// returns, the old file is there. All memory is taken now.
    ///
    /// # Errors
    /// When the file cannot be made, or the tmpfs has no room; then none is left.
    pub fn create(path: &Path, bytes: u64, contents: u32, volume: [u8; 16], incarnation: u64) -> io::Result<Self> {
        let bytes = bytes.max(BYTES_MIN).next_multiple_of(count(PAGE));
        let identity = Identity { volume, made_in: incarnation, bytes, contents: contents.into() };
        let owner = Owner { incarnation, is_changing: true };
        whole(path, file_bytes(&identity), |map| {
            let mut ring = Self {
                map,
                path: path.to_path_buf(),
                identity,
                seed: identity.seed(),
                head: bytes,
                durable: Durable { tail: bytes, owner, ..Durable::default() },
                own_epoch: Epoch::default(),
                free: places(contents),
            };
            ring.map[..IDENTITY_BYTES].copy_from_slice(&identity.encode());
            ring.write_durable();
            ring
        })
    }

    /// Takes over the journal at `path`, which its server has left forever, for the server that begins the incarnation after `incarnation`.
    /// Returns the records in it, too: they stay until [`Self::replayed`].
    ///
    /// # Errors
    /// When there is none of this volume in this incarnation.
    pub fn take_over(path: &Path, volume: [u8; 16], incarnation: u64) -> Result<(Self, Replay), ReplayError> {
        let replay = Self::replay(path, volume)?;
        if !replay.owner().is(incarnation) {
            return Err(ReplayError::Outdated);
        }
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let identity = replay.identity;
        let mut ring = Self {
            map: map(&file)?,
            path: path.to_path_buf(),
            identity,
            seed: identity.seed(),
            head: settle(replay.end, identity.bytes),
            durable: replay.durable,
            own_epoch: Epoch::default(),
            free: Vec::new(),
        };
        ring.durable.owner = Owner { incarnation, is_changing: true };
        ring.durable.has_lost = replay.has_lost();
        ring.write_durable();
        Ok((ring, replay))
    }

    /// Notes that the records that were found are durable, and that the volume is of the next incarnation: from now on there are those of
    /// this server. What is lost stays known until [`Self::loss_told`].
    pub fn replayed(&mut self) {
        if !self.durable.owner.is_changing {
            return;
        }
        // Nothing valid is there, but where a record is damaged.
        self.store(self.place(self.head), 0);
        let owner = Owner { incarnation: self.durable.owner.incarnation + 1, is_changing: false };
        self.durable = Durable { tail: self.head, epoch: self.own_epoch, owner, ..self.durable };
        self.write_durable();
        self.free = places(u32::try_from(self.identity.contents).unwrap_or(u32::MAX));
    }

    /// Notes that somebody has heard of the loss, or that nobody has to.
    pub fn loss_told(&mut self) {
        if std::mem::take(&mut self.durable.has_lost) {
            self.write_durable();
        }
    }

    /// Notes that acknowledged writes are lost, whatever the records say, which are dropped.
    pub fn lose(&mut self) {
        self.store(self.place(self.head), 0);
        self.durable = Durable { tail: self.head, has_lost: true, ..self.durable };
        self.write_durable();
    }

    /// Makes the file again, with all that is in it, if somebody has removed it.
    ///
    /// # Errors
    /// When it cannot be made; then the ring is as it was.
    pub fn make_again(&mut self) -> io::Result<()> {
        if self.path.exists() {
            return Ok(());
        }
        self.map = whole(&self.path, file_bytes(&self.identity), |mut map| {
            map.copy_from_slice(&self.map);
            map
        })?;
        Ok(())
    }

    /// Removes the file, in which nothing is needed any more. The ring goes on without it.
    pub fn remove(&self) {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %self.path.display(), "cannot remove the acknowledgement journal");
            }
            _ => {}
        }
    }
}

/// Makes a file of this many bytes, which gets its name once `fill` has filled it.
fn whole<T>(path: &Path, bytes: u64, fill: impl FnOnce(MmapMut) -> T) -> io::Result<T> {
    let fresh = path.with_extension("new-ring");
    match std::fs::remove_file(&fresh) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let make = || {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&fresh)?;
        // The file is not sparse: a store into a page that the tmpfs cannot give would be a SIGBUS.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
        let filled = fill(map(&file)?);
        compiler_fence(Ordering::SeqCst);
        std::fs::rename(&fresh, path)?;
        Ok(filled)
    };
    make().inspect_err(|_: &io::Error| {
        let _ = std::fs::remove_file(&fresh);
    })
}

/// Returns the bytes of a journal's file.
fn file_bytes(identity: &Identity) -> u64 {
    count(PAGE) + identity.bytes + identity.contents * BLOCK_BYTES
}

/// Returns all places of a journal.
fn places(contents: u32) -> Vec<ContentPlace> {
    (0..contents).rev().map(ContentPlace).collect()
}

#[allow(unsafe_code)]
fn map(file: &File) -> io::Result<MmapMut> {
    // SAFETY: the file is private to its owner and kept at its length; only this process maps it, and the ones after its death.
    unsafe { MmapMut::map_mut(file) }
}
