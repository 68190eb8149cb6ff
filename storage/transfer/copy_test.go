package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

// pageBytes is the number of bytes that fill a page.
const pageBytes = 128 << 10

func memory(t *testing.T) storage.Store {
	t.Helper()
	s, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return s
}

// filled returns a store with records of three tables, some of which expire.
func filled(t *testing.T, start time.Time) storage.Store {
	t.Helper()
	s := memory(t)
	update := func(fn func(put func(key string, value []byte, at time.Time))) {
		err := s.Update(t.Context(), func(tx storage.Tx) (err error) {
			fn(func(key string, value []byte, at time.Time) { err = errors.Join(err, tx.Put([]byte(key), value, at)) })
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	update(func(put func(string, []byte, time.Time)) {
		for i := range 1200 {
			put(fmt.Sprintf("a/%04d", i), fmt.Appendf(nil, "value %d", i), time.Time{})
		}
		put("c/\x00\xff", nil, start.Add(24*time.Hour))
	})
	for i, size := range []int{storage.MaxValue, 0, 100, 1, pageBytes} {
		update(func(put func(string, []byte, time.Time)) {
			put(fmt.Sprintf("b/%d", i), make([]byte, size), start.Add(time.Hour+time.Duration(i)*time.Microsecond))
		})
	}
	return s
}

func list(t *testing.T, s storage.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := s.View(t.Context(), func(tx storage.Tx) error {
		clear(out)
		for rec, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			out[string(rec.Key)] = fmt.Sprintf("%x until %d", sha256.Sum256(rec.Value), rec.Expires.UnixMicro())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantSame(t *testing.T, from, to storage.Store) {
	t.Helper()
	want, got := list(t, from), list(t, to)
	for key, w := range want {
		if got[key] != w {
			t.Errorf("%q was copied as %.60q, want %.60q", key, got[key], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the target has %d records, want %d", len(got), len(want))
	}
}

func wantUsable(t *testing.T, s storage.Store, want bool) {
	t.Helper()
	if err := s.View(t.Context(), transfer.Complete); errors.Is(err, transfer.ErrUnfinished) == want {
		t.Errorf("Complete = %v, want that the store can be used: %t", err, want)
	}
}

func backupOf(t *testing.T, s storage.Store) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	if err := s.(storage.Backuper).Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

func TestCopy(t *testing.T) {
	t.Parallel()
	from := filled(t, time.Now())
	for name, source := range map[string]transfer.Source{"store": transfer.FromStore(from), "backup": transfer.FromBackup(backupOf(t, from))} {
		to := memory(t)
		told := map[string]string{}
		c := transfer.Copy{From: source, Name: name, To: to, Tell: func(step string, done, of int) { told[step] = fmt.Sprint(done, " of ", of) }}
		report, err := c.Run(t.Context())
		if err != nil {
			t.Fatalf("%s: Run = %v", name, err)
		}
		wantSame(t, from, to)
		wantUsable(t, to, true)
		if report.Records != 1206 || report.Resumed || report.Expired != 0 || len(report.Tables) != 3 || report.Tables[0].Records != 1200 ||
			len(report.Tables[0].SHA256) != 64 {
			t.Errorf("%s: report = %+v", name, report)
		}
		if told["reading"] != "1206 of 0" || told["copying"] != "1206 of 1206" {
			t.Errorf("%s: progress = %v", name, told)
		}
	}
}

// failing is a target that fails at its n-th write, before or after it has written.
type failing struct {
	storage.Store

	at   int
	kept bool
}

var errBroken = errors.New("the cable was pulled")

func (f *failing) Update(ctx context.Context, fn func(storage.Tx) error) error {
	f.at--
	if f.at == 0 && !f.kept {
		return errBroken
	}
	if err := f.Store.Update(ctx, fn); err != nil || f.at != 0 {
		return err
	}
	return errBroken
}

// TestCopyIsInterrupted: wherever a copy ends, the target is not used, and the same copy completes it.
func TestCopyIsInterrupted(t *testing.T) {
	t.Parallel()
	from := filled(t, time.Now())
	backup := backupOf(t, from)
	for _, kept := range []bool{false, true} {
		for at := 1; ; at++ {
			to := memory(t)
			source := transfer.FromStore(from)
			if at%2 == 0 {
				source = transfer.FromBackup(backup)
			}
			ended := 0
			run := func(s storage.Store) (*transfer.Report, error) {
				c := transfer.Copy{From: source, Name: "source", To: s, After: func(storage.Tx) error { ended++; return nil }}
				return c.Run(t.Context())
			}
			_, err := run(&failing{Store: to, at: at, kept: kept})
			if err == nil {
				if at < 5 {
					t.Errorf("the copy took %d transactions, too few for this test", at-1)
				}
				break
			}
			if !errors.Is(err, errBroken) {
				t.Fatalf("interrupted at %d: Run = %v, want %v", at, err, errBroken)
			}
			begun := len(list(t, to)) > 0
			finished := kept && ended > 0
			if begun && !finished {
				wantUsable(t, to, false)
				other := transfer.Copy{From: source, Name: "another", To: to}
				if _, err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "part of another copy, whose source is source") {
					t.Errorf("interrupted at %d: Run of another copy = %v", at, err)
				}
				onward := transfer.Copy{From: transfer.FromStore(to), Name: "onward", To: memory(t)}
				if _, err := onward.Run(t.Context()); !errors.Is(err, transfer.ErrUnfinished) {
					t.Errorf("interrupted at %d: Run from the half of a copy = %v, want %v", at, err, transfer.ErrUnfinished)
				}
			}
			if finished {
				if _, err := run(to); !errors.Is(err, transfer.ErrNotEmpty) {
					t.Errorf("Run after the end = %v, want %v", err, transfer.ErrNotEmpty)
				}
			} else if report, err := run(to); err != nil || report.Resumed != begun {
				t.Fatalf("interrupted at %d: Run again = %+v, %v, want it to be resumed: %t", at, report, err, begun)
			}
			wantSame(t, from, to)
			wantUsable(t, to, true)
		}
	}
}

func TestCopyRefuses(t *testing.T) {
	t.Parallel()
	from := filled(t, time.Now())
	full := memory(t)
	if err := full.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte("x/1"), nil, time.Time{}) }); err != nil {
		t.Fatal(err)
	}
	backup := backupOf(t, from)
	cut := make([]byte, backup.Size()-1)
	if _, err := backup.Read(cut); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		from transfer.Source
		to   storage.Store
		want string
	}{
		"a target with records": {transfer.FromStore(from), full, "the target holds records"},
		"an empty source":       {transfer.FromStore(memory(t)), memory(t), "the source holds no records"},
		"a cut backup":          {transfer.FromBackup(bytes.NewReader(cut)), memory(t), "cut short or damaged"},
		"no backup":             {transfer.FromBackup(strings.NewReader("hello")), memory(t), "this is not a backup"},
	} {
		before := len(list(t, tc.to))
		c := transfer.Copy{From: tc.from, Name: name, To: tc.to}
		if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Run = %v, want %q", name, err, tc.want)
		}
		if after := len(list(t, tc.to)); after != before {
			t.Errorf("%s: the target has %d records after the refusal, %d before", name, after, before)
		}
	}
}

// TestCopyOfAStoreInUse: what someone changes in the source meanwhile is found.
func TestCopyOfAStoreInUse(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(tx storage.Tx) error{
		"changed": func(tx storage.Tx) error { return tx.Put([]byte("a/0001"), []byte("other"), time.Time{}) },
		"expiry": func(tx storage.Tx) error {
			return tx.Put([]byte("a/0001"), []byte("value 1"), time.Now().Add(time.Hour))
		},
		"added":   func(tx storage.Tx) error { return tx.Put([]byte("a/0001x"), nil, time.Time{}) },
		"removed": func(tx storage.Tx) error { return tx.Delete([]byte("a/0001")) },
	} {
		from, to := filled(t, time.Now()), memory(t)
		once := false
		c := transfer.Copy{From: transfer.FromStore(from), Name: name, To: to, Tell: func(step string, done, of int) {
			if step == "copying" && done == of && !once {
				once = true
				if err := from.Update(t.Context(), change); err != nil {
					t.Error(err)
				}
			}
		}}
		if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "source and target differ in the table a") {
			t.Errorf("%s: Run = %v, want that they differ", name, err)
		}
		wantUsable(t, to, false)
	}
}

// TestCopyWhileRecordsExpire: records that an engine collects while the copy runs are no difference.
func TestCopyWhileRecordsExpire(t *testing.T) {
	t.Parallel()
	start := time.Now()
	from, to := filled(t, start), memory(t)
	now := start
	c := transfer.Copy{
		From: transfer.FromStore(from), Name: "source", To: to, Now: func() time.Time { return now },
		Tell: func(step string, done, of int) {
			if step != "copying" || done != of {
				return
			}
			now = start.Add(2 * time.Hour)
			err := from.Update(t.Context(), func(tx storage.Tx) error { return tx.Delete([]byte("b/1")) })
			err = errors.Join(err, to.Update(t.Context(), func(tx storage.Tx) error { return tx.Delete([]byte("b/2")) }))
			if err != nil {
				t.Error(err)
			}
		},
	}
	report, err := c.Run(t.Context())
	if err != nil || report.Expired != 2 || report.Records != 1204 {
		t.Errorf("Run = %+v, %v, want 1204 records and 2 expired", report, err)
	}
	wantUsable(t, to, true)
}

// TestTwoCopiesAtATime: of two copies into one target one goes on, and the target is complete.
func TestTwoCopiesAtATime(t *testing.T) {
	t.Parallel()
	from, to := filled(t, time.Now()), memory(t)
	begun := false
	second := transfer.Copy{From: transfer.FromStore(from), Name: "source", To: to}
	first := transfer.Copy{From: transfer.FromStore(from), Name: "source", To: to, Tell: func(step string, _, _ int) {
		if step == "copying" && !begun {
			begun = true
			if _, err := second.Run(t.Context()); err != nil {
				t.Errorf("Run of the second = %v", err)
			}
		}
	}}
	if _, err := first.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another copy writes into the target") {
		t.Errorf("Run of the first = %v, want that another copy writes", err)
	}
	wantSame(t, from, to)
	wantUsable(t, to, true)
}
