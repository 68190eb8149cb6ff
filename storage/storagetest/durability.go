package storagetest

import (
	"bytes"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

func (s suite) reopens(t *testing.T) {
	st := s.open(t)
	want := map[string]string{}
	for round := range 3 {
		for i := range 50 {
			k, v := fmt.Sprintf("k%d", i*(round+1)), fmt.Sprintf("%d.%d", round, i)
			put(t, st, k, v)
			want[k] = v
		}
		gone := fmt.Sprintf("k%d", round)
		update(t, st, func(tx storage.Tx) error { return tx.Delete([]byte(gone)) })
		delete(want, gone)
		st = s.reopen(t, st)
		if got := all(t, st); !maps.Equal(got, want) {
			t.Fatalf("after reopening %d: %d records, want %d; %v", round, len(got), len(want), got)
		}
	}
}

// backup fills a store and returns its backup and its records.
func (s suite) backup(t *testing.T) (stream []byte, want map[string]string) {
	st := s.open(t)
	for i := range 100 {
		put(t, st, fmt.Sprintf("k%d", i), fmt.Sprint(i))
	}
	for _, k := range oddKeys {
		put(t, st, k, "odd")
	}
	put(t, st, "large", string(make([]byte, storage.MaxValue)))
	update(t, st, func(tx storage.Tx) error { return tx.Delete([]byte("k7")) })
	want = all(t, st)
	var b bytes.Buffer
	if err := st.(storage.Backuper).Backup(t.Context(), &b); err != nil {
		t.Fatalf("Backup = %v", err)
	}
	return b.Bytes(), want
}

func (s suite) backups(t *testing.T) {
	stream, want := s.backup(t)
	st, err := s.restore(t, bytes.NewReader(stream))
	if err != nil {
		t.Fatalf("restore = %v", err)
	}
	if got := all(t, st); !maps.Equal(got, want) {
		t.Errorf("restored %d records, want %d", len(got), len(want))
	}
	put(t, st, "a", "1")
	wantValue(t, st, "a", "1")

	empty := s.open(t)
	var b bytes.Buffer
	if err := empty.(storage.Backuper).Backup(t.Context(), &b); err != nil {
		t.Fatalf("Backup of an empty store = %v", err)
	}
	if st, err = s.restore(t, &b); err != nil {
		t.Fatalf("restore of an empty store = %v", err)
	}
	if got := all(t, st); len(got) != 0 {
		t.Errorf("restored %d records of an empty store", len(got))
	}
}

func (s suite) damagedBackups(t *testing.T) {
	stream, _ := s.backup(t)
	for _, n := range []int{0, 1, 10, len(stream) / 3, len(stream) - 100, len(stream) - 33, len(stream) - 1} {
		if _, err := s.restore(t, bytes.NewReader(stream[:n])); err == nil {
			t.Errorf("restore of the first %d of %d bytes = nil, want an error", n, len(stream))
		}
	}
	for _, at := range []int{3, 25, 40, len(stream) / 2, len(stream) - 35, len(stream) - 2} {
		bad := bytes.Clone(stream)
		bad[at] ^= 0x10
		if _, err := s.restore(t, bytes.NewReader(bad)); err == nil {
			t.Errorf("restore with a flipped bit in byte %d of %d = nil, want an error", at, len(stream))
		}
	}
	if _, err := s.restore(t, bytes.NewReader(append(bytes.Clone(stream), stream...))); err == nil {
		t.Error("restore of two backups in one stream = nil, want an error")
	}
}

// backupUnderLoad: the two records of a pair are written together, so a backup holds both or neither.
func (s suite) backupUnderLoad(t *testing.T) {
	st := s.open(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			err := st.Update(t.Context(), func(tx storage.Tx) error {
				v := []byte(fmt.Sprint(i))
				if err := tx.Put(fmt.Appendf(nil, "a%d", i%500), v, never); err != nil {
					return err
				}
				return tx.Put(fmt.Appendf(nil, "z%d", i%500), v, never)
			})
			if err != nil {
				t.Errorf("Update = %v", err)
				return
			}
		}
	}()
	var stream bytes.Buffer
	for range 5 {
		stream.Reset()
		if err := st.(storage.Backuper).Backup(t.Context(), &stream); err != nil {
			t.Errorf("Backup = %v", err)
		}
	}
	close(stop)
	<-stopped
	restored, err := s.restore(t, &stream)
	if err != nil {
		t.Fatalf("restore = %v", err)
	}
	got := all(t, restored)
	for k, v := range got {
		if k[0] == 'a' && got["z"+k[1:]] != v {
			t.Errorf("%s = %s, but %s = %s", k, v, "z"+k[1:], got["z"+k[1:]])
		}
	}
}

// The expiry tests use times near the machine's own clock, because an engine may look at that too.
func (s suite) expiry(t *testing.T) {
	st := s.open(t)
	start := time.Now().Truncate(time.Second)
	expires := map[string]time.Time{
		"never": never, "second": start.Add(time.Second), "hour": start.Add(time.Hour), "year": start.AddDate(1, 0, 0),
		"far": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "half": start.Add(1500 * time.Millisecond),
	}
	update(t, st, func(tx storage.Tx) error {
		for k, at := range expires {
			if err := tx.Put([]byte(k), []byte("v"), at); err != nil {
				return err
			}
		}
		return nil
	})
	for _, after := range []time.Duration{
		0, time.Second, 1500 * time.Millisecond, 2 * time.Second, time.Hour,
		2 * time.Hour, 400 * 24 * time.Hour,
	} {
		now := start.Add(after)
		s.collect(t, st, now)
		got := all(t, st)
		for k, at := range expires {
			_, there := got[k]
			switch {
			case !there && (at.IsZero() || !at.Before(now)):
				t.Errorf("%s after the start: %q is gone, %s before its expiry", after, k, at.Sub(now))
			case there && !at.IsZero() && at.Before(now):
				t.Errorf("%s after the start: %q was not collected, %s after its expiry", after, k, now.Sub(at))
			}
		}
	}
}

func (s suite) expiryReplaced(t *testing.T) {
	st := s.open(t)
	start := time.Now()
	soon, later := start.Add(time.Second), start.Add(time.Hour)
	write := func(k string, at time.Time) {
		update(t, st, func(tx storage.Tx) error { return tx.Put([]byte(k), []byte("v"), at) })
	}
	write("later", soon)
	write("later", later)
	write("never", soon)
	write("never", never)
	write("sooner", later)
	write("sooner", soon)
	write("created", soon)
	update(t, st, func(tx storage.Tx) error {
		if err := tx.Delete([]byte("created")); err != nil {
			return err
		}
		return tx.Create([]byte("created"), []byte("v"), later)
	})
	s.collect(t, st, start.Add(time.Minute))
	for k, want := range map[string]string{"later": "v", "never": "v", "sooner": "<none>", "created": "v"} {
		wantValue(t, st, k, want)
	}
}
