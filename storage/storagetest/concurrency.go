package storagetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage"
)

const goroutines = 20

// together runs fn in n goroutines that start at the same moment, and waits for them.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

func (s suite) snapshot(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	put(t, st, "b", "1")
	view(t, st, func(tx storage.Tx) error {
		var want []string // an engine may run this again, and then it begins with what the first run has written
		keys := []string{"a", "b", "c"}
		start, err := tx.GetMany([]byte("a"), []byte("b"), []byte("c"))
		if err != nil {
			return err
		}
		for i, v := range start {
			if v != nil {
				want = append(want, keys[i]+"="+string(v))
			}
		}
		put(t, st, "a", "2")
		put(t, st, "c", "2"+string(start[2]))
		update(t, st, func(tx storage.Tx) error { return tx.Delete([]byte("b")) })
		for i := range 50 { // enough to make an engine drop old versions
			put(t, st, "a", strconv.Itoa(i))
		}
		got, err := list(tx, storage.Range{})
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			t.Errorf("Scan = %q, want %q", got, want)
		}
		if v, err := tx.Get([]byte("a")); err != nil || string(v) != string(start[0]) {
			t.Errorf("Get(a) later in the view = %q, %v, want %q", v, err, start[0])
		}
		return nil
	})
	wantValue(t, st, "a", "49")
	wantValue(t, st, "b", "<none>")
}

func (s suite) twoWriters(t *testing.T) {
	st := s.open(t)
	put(t, st, "log", "")
	together(goroutines, func(i int) {
		err := st.Update(t.Context(), func(tx storage.Tx) error {
			v, err := tx.Get([]byte("log"))
			if err != nil {
				return err
			}
			return tx.Put([]byte("log"), fmt.Appendf(v, "<%d>", i), never)
		})
		if err != nil {
			t.Errorf("Update = %v", err)
		}
	})
	got := get(t, st, "log")
	for i := range goroutines {
		if n := strings.Count(got, fmt.Sprintf("<%d>", i)); n != 1 {
			t.Errorf("writer %d appears %d times in %q, want once", i, n, got)
		}
	}
}

func (s suite) counter(t *testing.T) {
	st := s.open(t)
	const rounds = 25
	together(goroutines, func(int) {
		for range rounds {
			err := st.Update(t.Context(), func(tx storage.Tx) error {
				n := uint64(0)
				v, err := tx.Get([]byte("n"))
				switch {
				case err == nil:
					n = binary.BigEndian.Uint64(v)
				case !errors.Is(err, storage.ErrNotFound):
					return err
				}
				return tx.Put([]byte("n"), binary.BigEndian.AppendUint64(nil, n+1), never)
			})
			if err != nil {
				t.Errorf("Update = %v", err)
			}
		}
	})
	if got, want := get(t, st, "n"), string(binary.BigEndian.AppendUint64(nil, goroutines*rounds)); got != want {
		t.Errorf("counter = %x, want %x", got, want)
	}
}

func (s suite) twoCreators(t *testing.T) {
	st := s.open(t)
	for round := range 20 {
		key := fmt.Appendf(nil, "name%d", round)
		var won atomic.Int32
		var winner atomic.Int32
		together(goroutines, func(i int) {
			err := st.Update(t.Context(), func(tx storage.Tx) error {
				return tx.Create(key, []byte(strconv.Itoa(i)), never)
			})
			switch {
			case err == nil:
				won.Add(1)
				winner.Store(int32(i))
			case !errors.Is(err, storage.ErrExists):
				t.Errorf("Update = %v, want nil or %v", err, storage.ErrExists)
			}
		})
		if won.Load() != 1 {
			t.Errorf("round %d: %d creators won, want 1", round, won.Load())
		}
		wantValue(t, st, string(key), strconv.Itoa(int(winner.Load())))
	}
}

// phantoms: at most five seats, counted by a scan. A transaction that counts four and takes a seat must be the fifth.
func (s suite) phantoms(t *testing.T) {
	st := s.open(t)
	const seats = 5
	full := errors.New("full")
	var seated atomic.Int32
	together(goroutines, func(i int) {
		err := st.Update(t.Context(), func(tx storage.Tx) error {
			n := 0
			for _, err := range tx.Scan(storage.Range{Prefix: []byte("seat/")}) {
				if err != nil {
					return err
				}
				n++
			}
			if n >= seats {
				return full
			}
			return tx.Create(fmt.Appendf(nil, "seat/%d", i), nil, never)
		})
		switch {
		case err == nil:
			seated.Add(1)
		case !errors.Is(err, full):
			t.Errorf("Update = %v, want nil or %v", err, full)
		}
	})
	if got := len(all(t, st)); got != seats || seated.Load() != seats {
		t.Errorf("%d seats are taken and %d updates succeeded, want %d", got, seated.Load(), seats)
	}
}

// transfers move amounts between accounts while views add them up: the sum never changes.
func (s suite) transfers(t *testing.T) {
	st := s.open(t)
	const accounts, start = 10, 100
	update(t, st, func(tx storage.Tx) error {
		for i := range accounts {
			if err := tx.Put(fmt.Appendf(nil, "acc%d", i), []byte{start}, never); err != nil {
				return err
			}
		}
		return nil
	})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				sum := 0
				for _, v := range all(t, st) {
					sum += int(v[0])
				}
				if sum != accounts*start {
					t.Errorf("sum = %d, want %d", sum, accounts*start)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	together(goroutines, func(i int) {
		for round := range 20 {
			from, to := fmt.Appendf(nil, "acc%d", i%accounts), fmt.Appendf(nil, "acc%d", (i+round+1)%accounts)
			err := st.Update(t.Context(), func(tx storage.Tx) error {
				a, err := tx.Get(from)
				if err != nil || a[0] == 0 {
					return err
				}
				if err := tx.Put(from, []byte{a[0] - 1}, never); err != nil {
					return err
				}
				b, err := tx.Get(to)
				if err != nil || b[0] == 255 {
					return errors.Join(err, errors.New("account is full"))
				}
				return tx.Put(to, []byte{b[0] + 1}, never)
			})
			if err != nil && err.Error() != "account is full" {
				t.Errorf("Update = %v", err)
			}
		}
	})
	close(done)
	readers.Wait()
}

// answersWait: a caller that gets ErrExists must find the record, even if its creator is still being written.
func (s suite) answersWait(t *testing.T) {
	st := s.open(t)
	for round := range 50 {
		key := fmt.Sprintf("name%d", round)
		together(4, func(i int) {
			err := st.Update(t.Context(), func(tx storage.Tx) error {
				if i%2 == 0 {
					return tx.Create([]byte(key), []byte("v"), never)
				}
				_, err := tx.Get([]byte(key)) // wrote nothing itself
				return err
			})
			known := err == nil || errors.Is(err, storage.ErrExists)
			if known && get(t, st, key) != "v" {
				t.Errorf("round %d: Update = %v, but the record is not there", round, err)
			}
		})
	}
}

func (s suite) panics(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	type custom struct{ n int }
	together(goroutines, func(i int) {
		if i%2 == 0 {
			put(t, st, fmt.Sprintf("k%d", i), "v")
			return
		}
		defer func() {
			if got := recover(); got != (custom{i}) {
				t.Errorf("recovered %v, want %v", got, custom{i})
			}
		}()
		_ = st.Update(t.Context(), func(tx storage.Tx) error {
			if err := tx.Put([]byte("a"), []byte("2"), never); err != nil {
				return err
			}
			panic(custom{i})
		})
		t.Error("Update returned, want a panic")
	})
	wantValue(t, st, "a", "1")
	if got, want := len(all(t, st)), 1+goroutines/2; got != want {
		t.Errorf("%d records, want %d", got, want)
	}
	func() {
		defer func() { _ = recover() }()
		_ = st.View(t.Context(), func(storage.Tx) error { panic("in a view") })
	}()
	put(t, st, "a", "3")
	wantValue(t, st, "a", "3")
}

// goexit: a closure that ends its goroutine, as t.FailNow does, ends its caller's goroutine and nothing else.
func (s suite) goexit(t *testing.T) {
	st := s.open(t)
	together(goroutines, func(i int) {
		if i%2 == 0 {
			put(t, st, fmt.Sprintf("k%d", i), "v")
			return
		}
		_ = st.Update(t.Context(), func(tx storage.Tx) error {
			if err := tx.Put([]byte("a"), []byte("2"), never); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
		t.Error("Update returned, want the end of the goroutine")
	})
	wantValue(t, st, "a", "<none>")
	put(t, st, "a", "3")
	wantValue(t, st, "a", "3")
}

func (s suite) cancelled(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "Update", st.Update(ctx, func(tx storage.Tx) error {
		t.Error("the function of a cancelled Update ran")
		return tx.Put([]byte("a"), []byte("2"), never)
	}), context.Canceled)
	wantErr(t, "View", st.View(ctx, func(storage.Tx) error {
		t.Error("the function of a cancelled View ran")
		return nil
	}), context.Canceled)
	wantValue(t, st, "a", "1")

	// Cancelled at any moment: nil means that the record exists.
	together(goroutines, func(i int) {
		for round := range 20 {
			key := fmt.Sprintf("k%d.%d", i, round)
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			err := st.Update(ctx, func(tx storage.Tx) error { return tx.Put([]byte(key), []byte("v"), never) })
			switch {
			case err == nil:
				wantValue(t, st, key, "v")
			case !errors.Is(err, context.Canceled):
				t.Errorf("Update = %v, want %v", err, context.Canceled)
			}
			cancel()
		}
	})
}

func (s suite) closed(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	if err := st.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	wantErr(t, "Update", st.Update(t.Context(), func(storage.Tx) error { return nil }), storage.ErrUnavailable)
	wantErr(t, "View", st.View(t.Context(), func(storage.Tx) error { return nil }), storage.ErrUnavailable)
	if err := st.Close(); err != nil {
		t.Errorf("second Close = %v, want nil", err)
	}
}

// closeWaits: transactions under way when the store closes succeed or are refused, and views keep their snapshot.
func (s suite) closeWaits(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	inside, closing := make(chan struct{}), make(chan struct{})
	enter := sync.OnceFunc(func() { close(inside) }) // an engine may run this again
	var wg sync.WaitGroup
	wg.Go(func() {
		err := st.View(t.Context(), func(tx storage.Tx) error {
			enter()
			<-closing
			for range 100 {
				if _, err := tx.Get([]byte("a")); err != nil {
					return err
				}
				runtime.Gosched()
			}
			return nil
		})
		if err != nil {
			t.Errorf("View = %v, want nil", err)
		}
	})
	<-inside
	wg.Go(func() {
		together(goroutines, func(i int) {
			err := st.Update(t.Context(), func(tx storage.Tx) error {
				return tx.Put(fmt.Appendf(nil, "k%d", i), nil, never)
			})
			if err != nil && !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("Update = %v, want nil or %v", err, storage.ErrUnavailable)
			}
		})
	})
	close(closing)
	if err := st.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	wg.Wait()
}
