package pgstore

// Waiting returns how many updates wait for the writer.
func (s *Store) Waiting() int {
	return s.writer.queue.Len()
}
