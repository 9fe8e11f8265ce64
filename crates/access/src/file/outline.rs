//! A recording's outline, as it is kept in the file.
//!
//! All numbers are seven bits a byte, as in steps. How many tasks, intervals and pages there are. Of each page that is
//! touched, ascending: what is added to the page before, and the task that touches it first. Of each interval its
//! accesses and instructions; its features, as the bits of floats; of each task what is added to its accesses, the instructions and the
//! sleep (ns) since the last of them, and how many pages it touches; of each of these what is added to the page before,
//! the lines that it does not touch, a bit a line, and 0 where it writes none of the others, 1 where it writes all, else
//! 2 and the lines that it writes.

use super::RecordingFile;
use crate::Recording;
use crate::coding::{Bytes, put_number};
use crate::outline::{FEATURES, Interval, Outline, Place, Touched};
use cohabit_model::{Error, Result};

/// The member of the file that has it.
pub(super) const OUTLINE: &str = "outline";
/// Of addresses of 64 bits.
const MOST_PAGES: u64 = 1 << 52;

/// An outline as it is kept.
pub(super) fn coded(outline: &Outline) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |number: u64| put_number(&mut bytes, number);
    let tasks = outline.intervals.first().map_or(0, |interval| interval.end.len());
    let mut pages = outline.first_touch.clone();
    pages.sort_unstable();
    [tasks, outline.intervals.len(), pages.len()].into_iter().for_each(|count| put(count as u64));
    let mut before = 0;
    for (page, task) in pages {
        put(page - before);
        put(task.into());
        before = page;
    }
    let mut positions = vec![0; tasks];
    for interval in &outline.intervals {
        put(interval.accesses);
        put(interval.instructions);
        interval.features.iter().for_each(|feature| put(feature.to_bits().into()));
        for ((place, touched), position) in interval.end.iter().zip(&interval.touched).zip(&mut positions) {
            [place.position - *position, place.instructions, place.idle_ns].into_iter().for_each(&mut put);
            *position = place.position;
            put(touched.len() as u64);
            let mut before = 0;
            for one in touched {
                put(one.page - before);
                before = one.page;
                put(!one.lines);
                match one.written {
                    0 => put(0),
                    written if written == one.lines => put(1),
                    written => [2, written].into_iter().for_each(&mut put),
                }
            }
        }
    }
    bytes
}

/// The outline of a recording; none where it has none.
pub(super) fn read(file: &RecordingFile) -> Result<Option<Outline>> {
    if !file.has(OUTLINE) {
        return Ok(None);
    }
    let most: Vec<u64> = file.tasks().iter().map(|task| task.accesses.unwrap_or(0)).collect();
    decoded(file.read(OUTLINE)?, &most).map(Some)
}

/// An outline of tasks that make so many accesses.
fn decoded(bytes: Vec<u8>, accesses: &[u64]) -> Result<Outline> {
    let mut bytes = Bytes::new(bytes);
    let mut number = || bytes.number_or_end()?.ok_or_else(|| damaged("it ends too early"));
    let (tasks, intervals, pages) = (number()?, number()?, number()?);
    if tasks != accesses.len() as u64 {
        return Err(damaged("it is of other tasks"));
    }
    let mut outline = Outline::default();
    let mut page = 0;
    for _ in 0..pages {
        page = next_page(page, number()?)?;
        let task = u32::try_from(number()?).ok().filter(|&task| (task as usize) < accesses.len());
        outline.first_touch.push((page, task.ok_or_else(|| damaged("a page is touched by a task that it has not"))?));
    }
    let mut positions = vec![0u64; accesses.len()];
    for _ in 0..intervals {
        let (all, instructions) = (number()?, number()?);
        let mut features = [0.0; FEATURES];
        for feature in &mut features {
            let bits = u32::try_from(number()?).map_err(|_| damaged("a feature is no number"))?;
            *feature = Some(f32::from_bits(bits))
                .filter(|one| one.is_finite())
                .ok_or_else(|| damaged("a feature is no number"))?;
        }
        let (mut end, mut touched) = (Vec::new(), Vec::new());
        for (position, &most) in positions.iter_mut().zip(accesses) {
            *position = position
                .checked_add(number()?)
                .filter(|&position| position <= most)
                .ok_or_else(|| damaged("a task makes more accesses than it makes"))?;
            end.push(Place { position: *position, instructions: number()?, idle_ns: number()? });
            let count = number()?;
            let mut of_task = Vec::new();
            let mut page = 0;
            for _ in 0..count {
                page = next_page(page, number()?)?;
                let lines = !number()?;
                let written = match number()? {
                    0 => 0,
                    1 => lines,
                    2 => number()?,
                    _ => return Err(damaged("what is written is not said")),
                };
                if lines == 0 || written & !lines != 0 {
                    return Err(damaged("no line of a page is touched"));
                }
                of_task.push(Touched { page, lines, written });
            }
            touched.push(of_task);
        }
        outline.intervals.push(Interval { end, accesses: all, instructions, features, touched });
    }
    match bytes.number_or_end()? {
        None => Ok(outline),
        Some(_) => Err(damaged("it goes on behind its end")),
    }
}

fn next_page(before: u64, more: u64) -> Result<u64> {
    before.checked_add(more).filter(|&page| page < MOST_PAGES).ok_or_else(|| damaged("a page behind all addresses"))
}

fn damaged(what: &str) -> Error {
    Error::new(format!("damaged: in the outline: {what}")).remedy("record it again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn outline() -> (Outline, Vec<u64>) {
        let recording = synthetic::parse("ring:4:16:40").unwrap();
        let mut outline = Outline::of(&recording, 8).unwrap();
        outline.first_touch.sort_unstable();
        let ends = outline.intervals.last().unwrap().end.iter().map(|place| place.position).collect();
        (outline, ends)
    }

    #[test]
    fn an_outline_is_read_as_it_was_written() {
        let (outline, accesses) = outline();
        assert!(outline.intervals.len() >= 8 && outline.first_touch.len() > 8);
        assert_eq!(decoded(coded(&outline), &accesses).unwrap(), outline);
    }

    /// What is cut or changed is refused, or is an outline all the same; never more than that.
    #[test]
    fn what_is_damaged_is_refused() {
        let (outline, accesses) = outline();
        let bytes = coded(&outline);
        for length in (0..bytes.len()).step_by(7) {
            assert!(decoded(bytes[..length].to_vec(), &accesses).is_err(), "{length} of {}", bytes.len());
        }
        assert!(decoded(bytes.clone(), &accesses[1..]).is_err());
        assert!(decoded([&bytes[..], &[0]].concat(), &accesses).is_err());
        let fewer: Vec<u64> = accesses.iter().map(|most| most - 1).collect();
        assert!(decoded(bytes.clone(), &fewer).is_err());
        for at in (0..bytes.len()).step_by(3) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x41;
            if let Ok(read) = decoded(changed, &accesses) {
                let ends = |task: usize| read.intervals.iter().map(move |interval| interval.end[task].position);
                assert!((0..4).all(|task| ends(task).is_sorted() && ends(task).all(|end| end <= accesses[task])));
            }
        }
    }
}
