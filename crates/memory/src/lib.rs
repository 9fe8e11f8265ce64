//! A machine that is not at hand: caches, coherence, TLBs and NUMA memory, driven by a recording.
