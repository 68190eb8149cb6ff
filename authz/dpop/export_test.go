package dpop

// Bound makes a memory hold this many uses.
func (m *Memory) Bound(uses int) { m.most = uses }

// Kept returns how many uses are in memory.
func (m *Memory) Kept() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept
}
