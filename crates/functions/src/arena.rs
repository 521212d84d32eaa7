//! Memory that returns to an earlier state: all that the JavaScript engine of one realm has allocated.
//!
//! Everything that a script can change is in the engine's memory. So each call of a function starts with a copy of the memory as it
//! was after the modules were evaluated ([`Image`]), at the same addresses. Nothing of a call is left for the next one, and a call
//! costs a copy of about a hundred kilobytes, a few microseconds, where a new context would cost 150.
//!
//! The rule that makes this sound: while a call runs, the engine keeps no memory outside of the arena, and nothing outside of the
//! arena is freed by it. `realm` creates native functions before the image only, holds each of them until its end, and copies bytes
//! into the arena.

#![expect(unsafe_code, reason = "the allocator of an engine that is written in C")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rquickjs::allocator::Allocator;

/// Of blocks and of what is in them. It is also the size of a block's header.
const ALIGN: usize = 16;
/// Blocks up to this size have a list of free blocks for each multiple of [`ALIGN`]; larger ones have four for each power of two.
const SMALL: usize = 1024;
const SMALL_CLASSES: usize = SMALL / ALIGN;
const CLASSES: usize = SMALL_CLASSES + 4 * 22;

/// The state of the allocator, at the begin of its own memory, so that an image contains it.
#[repr(C, align(16))]
struct State {
    /// Where the memory that was never used begins, in bytes from the begin.
    used: usize,
    /// For each class the first free block, as its distance from the begin, or 0.
    free: [usize; CLASSES],
}

/// Before each block.
#[repr(C, align(16))]
struct Header {
    /// The bytes of the block after this header.
    size: usize,
    /// The next free block of its class, while it is free.
    next: usize,
}

/// A region of memory at a fixed address. Pages that are never touched take no memory.
#[derive(Debug)]
pub(crate) struct Arena {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the region belongs to the arena alone. Whoever reads or writes it holds the realm, by a `&mut`.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// The allocator of an engine, over an arena.
pub(crate) struct ArenaAllocator(pub(crate) Arc<Arena>);

/// A copy of the used part of an arena.
#[derive(Debug)]
pub(crate) struct Image(Vec<u8>);

impl Arena {
    /// `None` if the system has no memory. `size` is in bytes.
    pub(crate) fn new(size: usize) -> Option<Self> {
        let size = size.max(1 << 16).next_multiple_of(4096);
        let layout = Layout::from_size_align(size, 4096).ok()?;
        // SAFETY: the layout has a size.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let arena = Self { base, layout };
        arena.state().used = size_of::<State>();
        Some(arena)
    }

    /// The bytes in use, with free blocks between them.
    pub(crate) fn used(&self) -> usize {
        self.state().used
    }

    /// A copy of the present state. No code of the engine may be running.
    pub(crate) fn image(&self) -> Image {
        // SAFETY: `used` bytes from the begin are initialized memory of this arena.
        Image(unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.used()) }.to_vec())
    }

    /// Returns to the state of the image, which must be one of this arena. No code of the engine may be running, and no value of it
    /// that was created after the image may be held.
    pub(crate) fn restore(&self, image: &Image) {
        // SAFETY: the image is not larger than the arena that it was copied from, and does not overlap it.
        unsafe { ptr::copy_nonoverlapping(image.0.as_ptr(), self.base.as_ptr(), image.0.len()) };
    }

    #[expect(clippy::mut_from_ref, reason = "the state is inside of the memory that the arena stands for")]
    fn state(&self) -> &mut State {
        // SAFETY: the begin of the region is aligned and holds the state since `new`; no reference to it outlives a function.
        unsafe { self.base.cast::<State>().as_mut() }
    }

    fn header(&self, at: usize) -> *mut Header {
        // SAFETY: callers pass distances of blocks, which are inside of the region.
        unsafe { self.base.as_ptr().add(at) }.cast()
    }

    fn take(&self, size: usize) -> *mut u8 {
        let Some(size) = size.max(1).checked_next_multiple_of(ALIGN) else { return ptr::null_mut() };
        let class = class_that_holds(size);
        let state = self.state();
        let free = state.free.get(class).copied().unwrap_or(0);
        if free != 0 {
            let header = self.header(free);
            // SAFETY: a distance in a list is that of a free block, which has a header.
            state.free[class] = unsafe { (*header).next };
            // SAFETY: a header is followed by its block.
            return unsafe { header.add(1) }.cast();
        }
        let size = size_of_class(class).max(size);
        let at = state.used;
        let Some(end) = at.checked_add(size_of::<Header>() + size) else { return ptr::null_mut() };
        if end > self.layout.size() {
            return ptr::null_mut();
        }
        state.used = end;
        let header = self.header(at);
        // SAFETY: the header and its block are inside of the region, and nobody else's.
        unsafe {
            header.write(Header { size, next: 0 });
            header.add(1).cast()
        }
    }

    /// # Safety
    /// `block` is one that `take` has returned and that is not free.
    unsafe fn give_back(&self, block: *mut u8) {
        let header = header_of(block);
        // SAFETY: the header is initialized since `take`.
        let class = class_within(unsafe { (*header).size });
        let state = self.state();
        // SAFETY: as above.
        unsafe { (*header).next = state.free[class] };
        state.free[class] = header.addr() - self.base.addr().get();
    }

    /// # Safety
    /// As of [`give_back`](Self::give_back).
    unsafe fn resize(&self, block: *mut u8, size: usize) -> *mut u8 {
        let header = header_of(block);
        // SAFETY: the header is initialized since `take`.
        let present = unsafe { (*header).size };
        if size <= present {
            return block;
        }
        let state = self.state();
        let at = header.addr() - self.base.addr().get();
        // The last block grows where it is: texts that are appended to.
        if at + size_of::<Header>() + present == state.used {
            let wanted = (size + size / 4).next_multiple_of(ALIGN);
            let end = at + size_of::<Header>() + wanted;
            if end <= self.layout.size() {
                state.used = end;
                // SAFETY: as above.
                unsafe { (*header).size = wanted };
                return block;
            }
        }
        let new = self.take(size);
        if !new.is_null() {
            // SAFETY: both blocks have at least `present` bytes and are different ones.
            unsafe {
                ptr::copy_nonoverlapping(block, new, present);
                self.give_back(block);
            }
        }
        new
    }
}

impl Image {
    /// In bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

// SAFETY: blocks are disjoint, aligned to 16 bytes, and at least as large as asked; null is returned where there is no room.
unsafe impl Allocator for ArenaAllocator {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.0.take(size)
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(size) = count.checked_mul(size) else { return ptr::null_mut() };
        let block = self.0.take(size);
        if !block.is_null() {
            // SAFETY: the block has at least `size` bytes.
            unsafe { block.write_bytes(0, size) };
        }
        block
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        // SAFETY: the engine frees what it has allocated here, once.
        unsafe { self.0.give_back(block) };
    }

    unsafe fn realloc(&mut self, block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() {
            return self.0.take(size);
        }
        // SAFETY: as above.
        unsafe { self.0.resize(block, size) }
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: each block has a header before it.
        unsafe { (*header_of(block)).size }
    }
}

/// The header before a block.
fn header_of(block: *mut u8) -> *mut Header {
    block.wrapping_sub(size_of::<Header>()).cast()
}

/// The smallest class whose blocks all hold `size` bytes.
fn class_that_holds(size: usize) -> usize {
    let class = class_within(size);
    if size_of_class(class) >= size { class } else { class + 1 }
}

/// The largest class whose size is at most `size`, a multiple of [`ALIGN`].
fn class_within(size: usize) -> usize {
    if size <= SMALL {
        return (size / ALIGN).saturating_sub(1);
    }
    let power = size.ilog2();
    let quarter = (size >> (power - 2)) & 3;
    let class = SMALL_CLASSES - 1 + 4 * (power - SMALL.ilog2()) as usize + quarter;
    class.min(CLASSES - 1)
}

fn size_of_class(class: usize) -> usize {
    if class < SMALL_CLASSES {
        return (class + 1) * ALIGN;
    }
    let above = class - (SMALL_CLASSES - 1);
    let (power, quarter) = (above / 4, above % 4);
    (SMALL << power) / 4 * (4 + quarter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Take(usize),
        Free(usize),
        Resize(usize, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let size = prop_oneof![1usize..200, 1usize..5000, 1usize..100_000];
        let step = prop_oneof![
            size.clone().prop_map(Step::Take),
            any::<usize>().prop_map(Step::Free),
            (any::<usize>(), size).prop_map(|(at, size)| Step::Resize(at, size)),
        ];
        prop::collection::vec(step, 1..200)
    }

    fn fill(block: *mut u8, size: usize, with: u8) {
        // SAFETY: the block has at least `size` bytes.
        unsafe { block.write_bytes(with, size) };
    }

    fn holds(block: *mut u8, size: usize, with: u8) -> bool {
        // SAFETY: the block has at least `size` bytes, all written.
        unsafe { std::slice::from_raw_parts(block, size) }.iter().all(|byte| *byte == with)
    }

    #[test]
    fn every_size_has_a_class_that_holds_it() {
        for size in (ALIGN..4 << 20).step_by(ALIGN) {
            let class = class_that_holds(size);
            assert!(class < CLASSES && size_of_class(class) >= size, "{size} {class}");
            assert!(size_of_class(class_within(size)) <= size, "{size}");
        }
    }

    proptest! {
        #[test]
        fn blocks_never_overlap_and_an_image_brings_them_back(before in steps(), after in steps()) {
            let arena = Arena::new(16 << 20).expect("memory");
            let mut blocks: Vec<(*mut u8, usize, u8)> = Vec::new();
            let mut next = 0u8;
            let mut image = None;
            let mut kept = Vec::new();
            for (round, steps) in [before, after].into_iter().enumerate() {
                if round == 1 {
                    image = Some(arena.image());
                    kept = blocks.clone();
                }
                for step in steps {
                    next = next.wrapping_add(1);
                    match step {
                        Step::Take(size) => {
                            let block = arena.take(size);
                            prop_assert!(!block.is_null() && block.addr().is_multiple_of(ALIGN));
                            fill(block, size, next);
                            blocks.push((block, size, next));
                        }
                        Step::Free(at) if !blocks.is_empty() => {
                            let (block, size, with) = blocks.swap_remove(at % blocks.len());
                            prop_assert!(holds(block, size, with));
                            // SAFETY: the block is in use.
                            unsafe { arena.give_back(block) };
                        }
                        Step::Resize(at, new) if !blocks.is_empty() => {
                            let at = at % blocks.len();
                            let (block, size, with) = blocks[at];
                            // SAFETY: the block is in use.
                            let block = unsafe { arena.resize(block, new) };
                            prop_assert!(!block.is_null() && holds(block, size.min(new), with));
                            fill(block, new, next);
                            blocks[at] = (block, new, next);
                        }
                        Step::Free(_) | Step::Resize(..) => {}
                    }
                }
                for (block, size, with) in &blocks {
                    prop_assert!(holds(*block, *size, *with));
                }
            }
            arena.restore(&image.expect("two rounds"));
            for (block, size, with) in kept {
                prop_assert!(holds(block, size, with));
            }
        }
    }

    #[test]
    fn memory_that_is_used_up_is_refused() {
        let arena = Arena::new(1 << 16).expect("memory");
        assert!(arena.take(1 << 17).is_null());
        assert!(arena.take(usize::MAX).is_null());
        let mut allocator = ArenaAllocator(Arc::new(arena));
        assert!(allocator.calloc(usize::MAX, 2).is_null());
        assert!(!allocator.alloc(100).is_null());
    }
}
