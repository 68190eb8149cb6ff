package remote

import (
	"strings"
	"testing"
)

func TestNestedTooDeep(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{maxDepth: true, maxDepth + 2: false} {
		raw := strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)
		if _, err := ReadObject([]byte(raw)); (err == nil) != want {
			t.Errorf("ReadObject of %d objects in each other = %v, want taken: %t", n, err, want)
		}
	}
}
