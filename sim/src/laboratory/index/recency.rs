//! Lists of numbered places by how recently they were used, in constant time.

const NONE: u32 = u32::MAX;

/// Places 0 to n − 1, each in one list or in none, in the order of their last use.
#[derive(Debug)]
pub struct Recency {
    /// The neighbours of each place towards the newest and the oldest of its list; both are itself if it is in none.
    newer: Vec<u32>,
    older: Vec<u32>,
    /// The list that each place is in; empty if there is one list.
    list_of: Vec<u8>,
    /// The newest and the oldest of each list.
    ends: Vec<(u32, u32)>,
}

impl Recency {
    /// Makes an empty list for `places` places.
    #[must_use]
    pub fn new(places: u32) -> Self {
        Self::of_lists(places, 1)
    }

    /// Makes several empty lists for `places` places.
    #[must_use]
    pub fn of_lists(places: u32, lists: u8) -> Self {
        let itself: Vec<u32> = (0..places).collect();
        let list_of = if lists > 1 { vec![0; places as usize] } else { Vec::new() };
        Self { newer: itself.clone(), older: itself, list_of, ends: vec![(NONE, NONE); usize::from(lists)] }
    }

    fn list_of(&self, place: u32) -> usize {
        self.list_of.get(place as usize).map_or(0, |&list| usize::from(list))
    }

    /// Makes a place the newest of the only list.
    pub fn touch(&mut self, place: u32) {
        self.touch_in(place, 0);
    }

    /// Makes a place the newest of a list, whichever it was in.
    pub fn touch_in(&mut self, place: u32, list: u8) {
        self.remove(place);
        if let Some(list_of) = self.list_of.get_mut(place as usize) {
            *list_of = list;
        }
        let ends = &mut self.ends[usize::from(list)];
        self.newer[place as usize] = NONE;
        self.older[place as usize] = ends.0;
        match ends.0 {
            NONE => ends.1 = place,
            newest => self.newer[newest as usize] = place,
        }
        ends.0 = place;
    }

    /// Takes a place out of its list, if it is in one.
    pub fn remove(&mut self, place: u32) {
        let (newer, older) = (self.newer[place as usize], self.older[place as usize]);
        if newer == place {
            return;
        }
        let list = self.list_of(place);
        match newer {
            NONE => self.ends[list].0 = older,
            newer => self.older[newer as usize] = older,
        }
        match older {
            NONE => self.ends[list].1 = newer,
            older => self.newer[older as usize] = newer,
        }
        (self.newer[place as usize], self.older[place as usize]) = (place, place);
    }

    /// Takes out the oldest of the first list that is not empty.
    pub fn pop(&mut self) -> Option<u32> {
        let oldest = self.ends.iter().map(|ends| ends.1).find(|&oldest| oldest != NONE)?;
        self.remove(oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_comes_first() {
        let mut list = Recency::new(4);
        [0, 1, 2, 3, 1, 3, 3].into_iter().for_each(|place| list.touch(place));
        list.remove(2);
        list.remove(2);
        list.touch(2);
        assert_eq!(std::iter::from_fn(|| list.pop()).collect::<Vec<_>>(), [0, 1, 3, 2]);
        list.touch(2);
        assert_eq!((list.pop(), list.pop()), (Some(2), None));
    }

    #[test]
    fn the_lower_list_comes_first() {
        let mut lists = Recency::of_lists(4, 3);
        [(0, 2), (1, 1), (2, 1), (3, 0), (1, 2), (3, 1)].into_iter().for_each(|(place, list)| lists.touch_in(place, list));
        assert_eq!(std::iter::from_fn(|| lists.pop()).collect::<Vec<_>>(), [2, 3, 0, 1]);
    }
}
