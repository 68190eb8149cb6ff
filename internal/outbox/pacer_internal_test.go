package outbox

import (
	"testing"
	"time"
)

// TestWokenAfterADelivery: an item that is added while a look is due at once, after a delivery, is looked for again:
// its transaction may not be committed yet.
func TestWokenAfterADelivery(t *testing.T) {
	t.Parallel()
	for range 50 { // either of the two can come first
		p, wake := newPacer(time.Hour), make(chan struct{}, 1)
		p.next = 0
		wake <- struct{}{}
		if !p.wait(t.Context(), wake, 0) {
			t.Fatal("the wait has ended")
		}
		if len(wake) == 0 && p.next != 2*soon {
			t.Fatalf("the second look from now is due in %s, want %s", p.next, 2*soon)
		}
	}
}
