package notify

import "sync"

// kept is what the senders for tests were given.
type kept[T any] struct {
	mu   sync.Mutex // guards list
	list []T
}

func (k *kept[T]) keep(v T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = append(k.list, v)
}

// Take returns what was kept, and forgets it.
func (k *kept[T]) Take() []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.list
	k.list = nil
	return list
}
