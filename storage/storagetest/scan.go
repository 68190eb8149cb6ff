package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// rangeKeys are the records of the tests of ranges, in order.
var rangeKeys = []string{
	"", "\x00", "a", "a\x00", "a\x00\x00", "a\x01", "aa", "ab", "a\xfe", "a\xff", "a\xff\x00", "a\xff\xff", "a\xff\xff\xff",
	"b", "b\x00", "ba", "c", "\xfe\xff", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff",
}

// expect returns what a scan of sorted keys must yield, in the simplest possible code.
func expect(sorted []string, r storage.Range) []string {
	keys := slices.Clone(sorted)
	if r.Descending {
		slices.Reverse(keys)
	}
	keys = slices.DeleteFunc(keys, func(k string) bool {
		return !bytes.HasPrefix([]byte(k), r.Prefix) ||
			r.After != nil && !r.Descending && k <= string(r.After) ||
			r.After != nil && r.Descending && k >= string(r.After)
	})
	if r.Limit > 0 && len(keys) > r.Limit {
		keys = keys[:r.Limit]
	}
	return keys
}

func scanKeys(t *testing.T, tx storage.Tx, r storage.Range) []string {
	t.Helper()
	keys := []string{}
	for rec, err := range tx.Scan(r) {
		if err != nil {
			t.Fatalf("Scan(%+v) = %v", r, err)
		}
		if want := "value of " + string(rec.Key); string(rec.Value) != want {
			t.Errorf("Scan(%+v) yields %q for %q, want %q", r, rec.Value, rec.Key, want)
		}
		keys = append(keys, string(rec.Key))
	}
	return keys
}

func (s suite) order(t *testing.T) {
	st := s.open(t)
	for i := range rangeKeys { // in another order than the keys sort
		k := rangeKeys[(i*7)%len(rangeKeys)]
		put(t, st, k, "value of "+k)
	}
	view(t, st, func(tx storage.Tx) error {
		if got := scanKeys(t, tx, storage.Range{}); !slices.Equal(got, rangeKeys) {
			t.Errorf("keys = %q, want %q", got, rangeKeys)
		}
		return nil
	})
}

// ranges compares every kind of range with the simplest implementation: on durable records, on the transaction's own
// writes, and on both mixed.
func (s suite) ranges(t *testing.T) {
	var ranges []storage.Range
	afters := [][]byte{nil}
	for _, k := range rangeKeys {
		afters = append(afters, []byte(k))
	}
	afters = append(afters, []byte("between"), []byte("a\x00\x00\x00"), []byte("zz"))
	for _, prefix := range []string{"", "a", "a\xff", "b", "\xff", "\xff\xff", "\xff\xff\xff\xff", "none", "\x00"} {
		for _, after := range afters {
			for _, limit := range []int{0, 1, 3} {
				ranges = append(ranges, storage.Range{Prefix: []byte(prefix), After: after, Limit: limit},
					storage.Range{Prefix: []byte(prefix), After: after, Limit: limit, Descending: true})
			}
		}
	}
	mine := errors.New("mine")
	for name, durable := range map[string]func(i int) bool{
		"durable":   func(int) bool { return true },
		"unwritten": func(int) bool { return false },
		"mixed":     func(i int) bool { return i%2 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := s.open(t)
			for i, k := range rangeKeys {
				switch {
				case durable(i):
					put(t, st, k, "value of "+k)
				case i%3 == 0:
					put(t, st, k, "to be replaced")
				}
			}
			put(t, st, "aaa", "to be deleted")
			err := st.Update(t.Context(), func(tx storage.Tx) error {
				for i, k := range rangeKeys {
					if !durable(i) {
						if err := tx.Put([]byte(k), []byte("value of "+k), never); err != nil {
							return err
						}
					}
				}
				if err := tx.Delete([]byte("aaa")); err != nil {
					return err
				}
				for _, r := range ranges {
					if got, want := scanKeys(t, tx, r), expect(rangeKeys, r); !slices.Equal(got, want) {
						t.Errorf("Scan(prefix %q, after %q, nil %t, limit %d, descending %t) = %q, want %q",
							r.Prefix, r.After, r.After == nil, r.Limit, r.Descending, got, want)
					}
				}
				return mine
			})
			wantErr(t, "Update", err, mine)
		})
	}
}

func (s suite) scanIsStable(t *testing.T) {
	st := s.open(t)
	for _, k := range []string{"a", "b", "c", "d"} {
		put(t, st, k, "old")
	}
	update(t, st, func(tx storage.Tx) error {
		if err := tx.Put([]byte("bb"), []byte("mine"), never); err != nil {
			return err
		}
		for _, down := range []bool{false, true} {
			var got []string
			for rec, err := range tx.Scan(storage.Range{Descending: down}) {
				if err != nil {
					return err
				}
				got = append(got, fmt.Sprintf("%s=%s", rec.Key, rec.Value))
				// Everything that the scan has not reached yet is changed.
				if err := errors.Join(
					tx.Put([]byte("b"), []byte("new"), never), tx.Delete([]byte("c")), tx.Delete([]byte("bb")),
					tx.Put([]byte("bbb"), []byte("new"), never), tx.Put([]byte("aa"), []byte("new"), never),
				); err != nil {
					return err
				}
				if v, err := tx.Get([]byte("b")); err != nil || string(v) != "new" {
					t.Errorf("Get(b) while ranging = %q, %v, want new", v, err)
				}
			}
			want := []string{"a=old", "b=old", "bb=mine", "c=old", "d=old"}
			if down {
				want = []string{"d=old", "c=old", "bb=mine", "b=old", "a=old"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("Scan(descending %t) = %q, want %q", down, got, want)
			}
			if err := errors.Join(
				tx.Put([]byte("b"), []byte("old"), never), tx.Put([]byte("c"), []byte("old"), never), tx.Put([]byte("bb"), []byte("mine"), never),
				tx.Delete([]byte("bbb")), tx.Delete([]byte("aa")),
			); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s suite) scanLeftEarly(t *testing.T) {
	st := s.open(t)
	for i := range 300 {
		put(t, st, fmt.Sprintf("k%03d", i), "v")
	}
	var pulled func() (storage.Record, error, bool)
	read := func(tx storage.Tx) error {
		for rec, err := range tx.Scan(storage.Range{Prefix: []byte("k")}) {
			if err != nil || string(rec.Key) == "k005" {
				break
			}
		}
		// A scan that is pulled and never stopped must not hold up the end of the transaction.
		next, stop := iter.Pull2(tx.Scan(storage.Range{Prefix: []byte("k"), Descending: true}))
		t.Cleanup(stop)
		rec, err, ok := next()
		if err != nil || !ok || string(rec.Key) != "k299" {
			t.Errorf("first pulled = %q, %v, %t, want k299", rec.Key, err, ok)
		}
		pulled = next
		return nil
	}
	view(t, st, read)
	if _, err, ok := pulled(); ok && err == nil {
		t.Error("a scan continues after its transaction, want an error or its end")
	}
	update(t, st, read)
	if _, err, ok := pulled(); ok && err == nil {
		t.Error("a scan continues after its transaction, want an error or its end")
	}
}

func (s suite) nestedScans(t *testing.T) {
	st := s.open(t)
	for i := range 5 {
		put(t, st, fmt.Sprintf("k%d", i), "v")
	}
	pairs := 0
	read := func(tx storage.Tx) error {
		pairs = 0
		seq := tx.Scan(storage.Range{Prefix: []byte("k")})
		for _, err := range seq {
			if err != nil {
				return err
			}
			for _, err := range seq { // a Seq2 may be ranged over again
				if err != nil {
					return err
				}
				pairs++
			}
		}
		return nil
	}
	view(t, st, read)
	if pairs != 25 {
		t.Errorf("View: pairs = %d, want 25", pairs)
	}
	update(t, st, read)
	if pairs != 25 {
		t.Errorf("Update: pairs = %d, want 25", pairs)
	}
}

// expiriesTold: a copy of a store needs to know until when each record is kept, also of what was written a moment ago.
func (s suite) expiriesTold(t *testing.T) {
	st := s.open(t)
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	want := map[string]time.Time{
		"never": {}, "soon": at, "late": at.Add(100 * 365 * 24 * time.Hour), "odd": at.Add(123456 * time.Microsecond),
		"replaced": at.Add(time.Minute), "kept": {},
	}
	check := func(tx storage.Tx) error {
		n := 0
		for _, descending := range []bool{false, true} {
			for rec, err := range tx.Scan(storage.Range{Descending: descending}) {
				if err != nil {
					return err
				}
				n++
				if w, there := want[string(rec.Key)]; !there || !rec.Expires.Equal(w) || rec.Expires.IsZero() != w.IsZero() {
					t.Errorf("Scan yields %q until %v, want %v", rec.Key, rec.Expires, w)
				}
			}
		}
		if n != 2*len(want) {
			t.Errorf("two scans yield %d records, want %d", n, 2*len(want))
		}
		return nil
	}
	update(t, st, func(tx storage.Tx) error {
		return errors.Join(tx.Put([]byte("replaced"), nil, never), tx.Put([]byte("kept"), nil, at))
	})
	update(t, st, func(tx storage.Tx) error {
		for key, expires := range want {
			if err := tx.Put([]byte(key), []byte("v"), expires); err != nil {
				return err
			}
		}
		return check(tx)
	})
	view(t, st, check)
}
