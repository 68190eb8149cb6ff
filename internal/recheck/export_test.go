package recheck

// Idle reports whether nothing is being asked, nor about to be.
func (l *List[K, A]) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.workers == 0 && !l.ticking
}
