//! The flash as a device: commands with their times in, and the times at which they are done out.

use super::counts::{FlashCounts, Wear};
use super::plane::Plane;
use super::shape::Shape;
use std::ops::Range;

/// A flash that does one command after another on each plane. Times are nanoseconds since an arbitrary moment and never decrease.
#[derive(Clone, Debug)]
pub struct Flash {
    shape: Shape,
    planes: Vec<Plane>,
    /// The time at which each plane becomes free.
    free_ns: Vec<u64>,
    writes_done_ns: u64,
    counts: FlashCounts,
}

impl Flash {
    /// Makes a flash that holds nothing.
    ///
    /// # Errors
    /// Fails if there can be no flash of this shape.
    pub fn new(shape: Shape) -> Result<Self, String> {
        shape.check()?;
        let planes: Vec<Plane> = (0..shape.planes).map(|_| Plane::new(&shape)).collect();
        Ok(Self { shape, free_ns: vec![0; planes.len()], planes, writes_done_ns: 0, counts: FlashCounts::default() })
    }

    /// Returns its shape.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the counts so far.
    #[must_use]
    pub const fn counts(&self) -> FlashCounts {
        self.counts
    }

    /// Returns the wear so far.
    #[must_use]
    pub fn wear(&self) -> Wear {
        Wear::of(&self.planes.iter().flat_map(Plane::erases).collect::<Vec<_>>())
    }

    /// Returns the logical pages that hold something, in order.
    #[must_use]
    pub fn held_pages(&self) -> Vec<u64> {
        let holds = |page: &u64| {
            let (plane, local) = self.place(*page);
            self.planes[plane].holds(local)
        };
        (0..self.shape.pages()).filter(holds).collect()
    }

    /// Becomes as full and as fragmented as another flash, and goes on counting.
    pub fn become_like(&mut self, other: &Self) {
        *self = Self { counts: self.counts, ..other.clone() };
    }

    /// Sets counts, wear and time back to nothing; all pages stay where they are.
    pub fn forget_the_past(&mut self) {
        self.planes.iter_mut().for_each(Plane::forget_wear);
        self.free_ns.fill(0);
        (self.writes_done_ns, self.counts) = (0, FlashCounts::default());
    }

    /// Returns the time at which a read that is issued now is done. A page that holds nothing is answered without the cells.
    ///
    /// # Errors
    /// Fails if it is beyond the end.
    pub fn read(&mut self, now_ns: u64, at: u64, bytes: u64) -> Result<u64, String> {
        let mut done = now_ns;
        for page in self.pages_touched(at, bytes)? {
            let (plane, local) = self.place(page);
            let mut cost = self.transfer_ns(page, at, bytes);
            if self.planes[plane].holds(local) {
                cost += self.shape.latencies.read_ns;
                self.counts.read_pages += 1;
            }
            done = done.max(self.occupy(plane, now_ns, cost));
        }
        Ok(done)
    }

    /// Returns the time at which a write that is issued now is in the cells, after the cleaning that it needs. The rest of a page that it
    /// touches in part is read first.
    ///
    /// # Errors
    /// Fails if it is beyond the end.
    pub fn write(&mut self, now_ns: u64, at: u64, bytes: u64) -> Result<u64, String> {
        let times = self.shape.latencies;
        let mut done = now_ns;
        for page in self.pages_touched(at, bytes)? {
            let (plane, local) = self.place(page);
            let mut cost = self.transfer_ns(page, at, bytes) + times.program_ns;
            if self.bytes_in(page, at, bytes) < self.shape.page_bytes && self.planes[plane].holds(local) {
                cost += times.read_ns;
                self.counts.partial_pages += 1;
            }
            let work = self.planes[plane].write(local);
            // A moved page goes through the register of its plane, not over the channel: Agrawal et al. call it copy-back.
            cost += work.moved_pages * (times.read_ns + times.program_ns) + work.erases * times.erase_ns;
            self.counts.host_pages += 1;
            self.counts.moved_pages += work.moved_pages;
            self.counts.collections += work.erases;
            done = done.max(self.occupy(plane, now_ns, cost));
        }
        self.writes_done_ns = self.writes_done_ns.max(done);
        Ok(done)
    }

    /// Returns the time at which a flush that is issued now is done: the flash has no write cache, so it only waits for earlier writes.
    #[must_use]
    pub fn flush(&self, now_ns: u64) -> u64 {
        self.writes_done_ns.max(now_ns)
    }

    /// Trims the pages that lie wholly within a range. It takes no time: only the map changes.
    ///
    /// # Errors
    /// Fails if it is beyond the end.
    pub fn trim(&mut self, now_ns: u64, at: u64, bytes: u64) -> Result<u64, String> {
        self.pages_touched(at, bytes)?;
        for page in at.div_ceil(self.shape.page_bytes)..(at + bytes) / self.shape.page_bytes {
            let (plane, local) = self.place(page);
            self.counts.trimmed_pages += u64::from(self.planes[plane].trim(local));
        }
        Ok(now_ns)
    }

    fn pages_touched(&self, at: u64, bytes: u64) -> Result<Range<u64>, String> {
        let pages = at / self.shape.page_bytes..(at + bytes).div_ceil(self.shape.page_bytes);
        if pages.end > self.shape.pages() {
            return Err(format!("{bytes} bytes at {at} are beyond the end of a flash of {} bytes", self.shape.bytes));
        }
        Ok(pages)
    }

    /// Returns the plane of a logical page, and its number there.
    fn place(&self, page: u64) -> (usize, u32) {
        let (plane, local) = (page % self.shape.planes, page / self.shape.planes);
        (usize::try_from(plane).expect("planes are few"), u32::try_from(local).expect("the shape was checked"))
    }

    /// Returns the bytes of a page that a command touches.
    fn bytes_in(&self, page: u64, at: u64, bytes: u64) -> u64 {
        let first = page * self.shape.page_bytes;
        (at + bytes).min(first + self.shape.page_bytes) - at.max(first)
    }

    fn transfer_ns(&self, page: u64, at: u64, bytes: u64) -> u64 {
        self.bytes_in(page, at, bytes) * self.shape.latencies.transfer_ns_per_byte
    }

    fn occupy(&mut self, plane: usize, now_ns: u64, cost_ns: u64) -> u64 {
        let free = &mut self.free_ns[plane];
        *free = now_ns.max(*free) + cost_ns;
        *free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;
    /// Bytes of a page over the channel, the read of one, and its program.
    const MOVE: u64 = 4096 * 25;
    const READ: u64 = 25_000;
    const PROGRAM: u64 = 200_000;

    fn flash(planes: u64, pages: u64) -> Flash {
        Flash::new(Shape { planes, block_pages: 8, ..Shape::new(pages * PAGE) }).expect("it can be")
    }

    #[test]
    fn a_command_takes_the_time_of_its_busiest_plane() {
        let mut flash = flash(4, 400);
        assert_eq!(flash.write(0, 0, 4 * PAGE), Ok(MOVE + PROGRAM), "four planes at once");
        assert_eq!(flash.write(0, 4 * PAGE, PAGE), Ok(2 * (MOVE + PROGRAM)), "the first plane is busy");
        let free = 10_000_000;
        assert_eq!(flash.read(free, 0, 5 * PAGE), Ok(free + 2 * (MOVE + READ)), "two pages are on the first plane");
        assert_eq!(flash.read(2 * free, 100 * PAGE, PAGE), Ok(2 * free + MOVE), "it holds nothing");
        assert_eq!(flash.counts(), FlashCounts { host_pages: 5, read_pages: 5, ..FlashCounts::default() });
        assert_eq!((flash.flush(0), flash.flush(free)), (2 * (MOVE + PROGRAM), free));
    }

    #[test]
    fn the_rest_of_a_page_that_is_written_in_part_is_read_first() {
        let mut flash = flash(1, 400);
        assert_eq!(flash.write(0, 512, 512), Ok(512 * 25 + PROGRAM), "it held nothing");
        let at = 1_000_000;
        assert_eq!(flash.write(at, 512, 512), Ok(at + 512 * 25 + READ + PROGRAM));
        assert_eq!((flash.counts().host_pages, flash.counts().partial_pages), (2, 1));
    }

    #[test]
    fn a_write_waits_for_the_cleaning_that_it_needs() {
        let mut flash = flash(1, 400);
        let mut now = 0;
        let waits: Vec<(u64, FlashCounts)> = (0..2000)
            .map(|n| {
                let (began, before) = (now, flash.counts());
                now = flash.write(now, n * 7 % 400 * PAGE, PAGE).expect("it is within");
                (now - began, flash.counts().since(&before))
            })
            .collect();
        for (wait, did) in &waits {
            assert_eq!(*wait, MOVE + PROGRAM + did.moved_pages * (READ + PROGRAM) + did.collections * 1_500_000);
        }
        assert!(waits.iter().any(|(_, did)| did.collections > 0) && waits.iter().any(|(_, did)| did.collections == 0));
        let wear = flash.wear();
        assert_eq!((wear.erases, wear.blocks), (flash.counts().collections, 57));
    }

    #[test]
    fn a_trim_takes_whole_pages_and_no_time() {
        let mut flash = flash(2, 400);
        flash.write(0, 0, 8 * PAGE).expect("it is within");
        assert_eq!(flash.trim(5, 512, 3 * PAGE), Ok(5));
        assert_eq!(flash.counts().trimmed_pages, 2, "the first and the last page stay");
        assert_eq!(flash.read(1 << 40, PAGE, PAGE), Ok((1 << 40) + MOVE));
        assert_eq!(flash.held_pages(), [0, 3, 4, 5, 6, 7]);
        assert_eq!(flash.trim(5, 0, 400 * PAGE), Ok(5));
        assert_eq!(flash.counts().trimmed_pages, 8);
        assert!(flash.trim(5, 0, 401 * PAGE).unwrap_err().contains("beyond the end"));
        assert!(flash.write(5, 400 * PAGE, 1).is_err() && flash.read(5, 400 * PAGE, 1).is_err());
    }

    #[test]
    fn a_flash_that_becomes_like_another_one_goes_on_counting() {
        let (mut full, mut other) = (flash(2, 400), flash(2, 400));
        full.write(0, 0, 400 * PAGE).expect("it is within");
        full.forget_the_past();
        assert_eq!((full.counts(), full.flush(0)), (FlashCounts::default(), 0));
        other.write(0, 0, PAGE).expect("it is within");
        other.become_like(&full);
        assert_eq!(other.counts().host_pages, 1);
        other.trim(0, 0, 400 * PAGE).expect("it is within");
        assert_eq!(other.counts().trimmed_pages, 400);
    }
}
