package pgstore

import (
	"fmt"
	"testing"
)

// TestForesightIsBounded: however many tokens are read, what is remembered of them takes up some MiB. It is keys, which
// have hashes of tokens.
func TestForesightIsBounded(t *testing.T) {
	t.Parallel()
	f := newForesight()
	for n := range 200_000 {
		first := fmt.Sprintf("token/%040d", n)
		f.next(first)
		f.learn(first, nil, [][]byte{[]byte("client/a"), []byte("epoch/a"), fmt.Appendf(nil, "grant/%040d", n)})
	}
	held := func(m map[string][][]byte) (n int) {
		for k, keys := range m {
			n += perForesight + len(k)
			for _, k := range keys {
				n += 24 + len(k)
			}
		}
		return n
	}
	if n := held(f.new) + held(f.old); n > 2*maxForesight || n < maxForesight/2 {
		t.Errorf("%d bytes are held, want at most %d", n, 2*maxForesight)
	}
	if keys := f.next(fmt.Sprintf("token/%040d", 199_999)); len(keys) != 3 {
		t.Errorf("of the last token %q is expected", keys)
	}
}

// TestForesightExpectsWhatIsAlwaysRead: what views read that differs from one to the next is not read along.
func TestForesightExpectsWhatIsAlwaysRead(t *testing.T) {
	t.Parallel()
	f := newForesight()
	for n := range 5 {
		f.learn("settings", f.next("settings"), [][]byte{[]byte("epoch"), fmt.Appendf(nil, "flow/%d", n)})
	}
	if got := fmt.Sprintf("%s", f.next("settings")); got != "[epoch]" {
		t.Errorf("expected %s, want [epoch]", got)
	}
}
