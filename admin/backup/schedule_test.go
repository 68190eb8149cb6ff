package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// newScheduled is a service on a Wednesday, 12:00.
func newScheduled(t *testing.T, write func(context.Context, io.Writer) error) (*backup.Service, *clocktest.Clock) {
	t.Helper()
	s, c := newService(t, write), clocktest.New(time.Date(2035, 11, 21, 12, 0, 0, 0, time.UTC))
	s.Recorder.Now = c.Now
	t.Cleanup(func() { _ = s.Close() })
	return s, c
}

// due lets the worker look once, and waits for what it has begun.
func due(t *testing.T, s *backup.Service) {
	t.Helper()
	if err := s.Due(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Wait()
}

// plan returns the schedule.
func plan(t *testing.T, s *backup.Service) (p backup.Planned) {
	t.Helper()
	err := s.Store.View(t.Context(), func(tx storage.Tx) (err error) {
		p, err = s.Plan(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSchedule: backups are made at their hour, the oldest of the schedule are removed, and those of people stay.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s, c := newScheduled(t, nil)
	due(t, s)
	if got := list(t, s, 0); len(got) > 0 {
		t.Fatalf("without a schedule there are backups: %+v", got)
	}
	for name, p := range map[string]backup.Schedule{
		"an unknown word": {Every: "hourly", Keep: 2}, "no such hour": {Every: backup.Daily, Hour: 24, Keep: 2},
		"no such day": {Every: backup.Weekly, Weekday: 7, Keep: 2},
		"none kept":   {Every: backup.Daily}, "too many kept": {Every: backup.Daily, Keep: backup.MostKept + 1},
	} {
		if err := s.SetPlan(t.Context(), p, by); !errors.Is(err, backup.ErrSchedule) {
			t.Errorf("%s: %v, want %v", name, err, backup.ErrSchedule)
		}
	}
	if err := s.SetPlan(t.Context(), backup.Schedule{Every: backup.Daily, Hour: 2, Keep: 2}, by); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	s.Wait()
	if got := plan(t, s); !got.Next.Equal(time.Date(2035, 11, 22, 2, 0, 0, 0, time.UTC)) || !got.Last.IsZero() {
		t.Errorf("plan = %+v, want the next one at 2 tomorrow", got)
	}
	c.Advance(14*time.Hour - time.Second)
	due(t, s)
	if got := list(t, s, 0); len(got) != 1 {
		t.Errorf("before its time: %+v", got)
	}
	c.Advance(time.Second)
	for range 4 {
		due(t, s)
		due(t, s) // once
		c.Advance(24 * time.Hour)
	}
	due(t, s)
	due(t, s)
	got := list(t, s, 0)
	if len(got) != 3 || got[0].By != "schedule" || got[0].State != backup.Done || got[2].By != "Ann" || len(files(t, s)) != 3 {
		t.Errorf("after 5 nights there are %+v and the files %q, want two of the schedule and Ann's", got, files(t, s))
	}
	c.Advance(40 * 24 * time.Hour) // no one was there
	due(t, s)
	due(t, s)
	if got := plan(t, s); !got.Next.After(c.Now()) || !got.Last.Equal(c.Now()) || got.Problem != "" {
		t.Errorf("plan = %+v, want one that was made up for", got)
	}
	s.Room = func() bool { return false }
	c.Advance(24 * time.Hour)
	due(t, s)
	if got := plan(t, s); !strings.Contains(got.Problem, "room") {
		t.Errorf("plan = %+v, want the problem", got)
	}
	s.Room = nil
	if err := s.SetPlan(t.Context(), backup.Schedule{Every: backup.Weekly, Weekday: time.Wednesday, Hour: 12, Keep: 1}, by); err != nil {
		t.Fatal(err)
	}
	if got := plan(t, s); got.Next.Weekday() != time.Wednesday || got.Next.Hour() != 12 ||
		got.Next.Sub(c.Now()) > 7*24*time.Hour || got.Problem != "" {
		t.Errorf("weekly plan = %+v at %s", got, c.Now())
	}
	if err := s.SetPlan(t.Context(), backup.Schedule{}, by); err != nil {
		t.Fatal(err)
	}
	n := len(list(t, s, 0))
	c.Advance(30 * 24 * time.Hour)
	due(t, s)
	if got := list(t, s, 0); len(got) != n {
		t.Errorf("a schedule that is off has made %+v", got)
	}
}

// TestScheduleOfSeveral: of several servers that look at once, one makes the backup.
func TestScheduleOfSeveral(t *testing.T) {
	t.Parallel()
	s, c := newScheduled(t, nil)
	if err := s.SetPlan(t.Context(), backup.Schedule{Every: backup.Daily, Hour: 2, Keep: 2}, by); err != nil {
		t.Fatal(err)
	}
	c.Advance(24 * time.Hour)
	all := []*backup.Service{s}
	for range 3 {
		all = append(all, &backup.Service{Store: s.Store, Recorder: s.Recorder, Dir: s.Dir, Host: "another", Log: s.Log})
	}
	var done sync.WaitGroup
	for _, one := range all {
		done.Go(func() {
			if err := one.Due(t.Context()); err != nil {
				t.Error(err)
			}
			one.Wait()
		})
	}
	done.Wait()
	if got := list(t, s, 0); len(got) != 1 || got[0].State != backup.Done {
		t.Errorf("backups = %+v, want one", got)
	}
}

// TestFilesOfTheScheduleAreFound: the files of earlier nights are removed in their turn, although the server has
// another name, or their records are gone or were never finished. Those that people have made stay.
func TestFilesOfTheScheduleAreFound(t *testing.T) {
	t.Parallel()
	const nights, keep = backup.MostFiles + 5, 3
	for name, tt := range map[string]struct {
		due   func(t *testing.T, s *backup.Service)
		after func(t *testing.T, night int, s *backup.Service) *backup.Service // a night; nil: the server goes on
	}{
		"a container has another name after each upgrade": {due, func(_ *testing.T, night int, s *backup.Service) *backup.Service {
			return &backup.Service{Store: s.Store, Recorder: s.Recorder, Dir: s.Dir, Host: fmt.Sprint("container-", night), Log: s.Log}
		}},
		"a backup is restored that knows of no other": {due, func(t *testing.T, _ int, s *backup.Service) *backup.Service {
			next := newService(t, nil)
			next.Recorder, next.Dir = s.Recorder, s.Dir
			return next
		}},
		"the outcome cannot be recorded": {due: func(t *testing.T, s *backup.Service) {
			e, begun := s.Store.(*engine), make(chan struct{})
			whole := e.write
			e.write = func(ctx context.Context, w io.Writer) error {
				<-begun
				return whole(ctx, w)
			}
			err := s.Due(t.Context())
			e.readOnly.Store(true)
			close(begun)
			s.Wait()
			e.readOnly.Store(false)
			if e.write = whole; err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := newScheduled(t, nil)
			if err := s.Start(t.Context(), by); err != nil {
				t.Fatal(err)
			}
			s.Wait()
			made := files(t, s)[0]
			for night := range nights {
				if err := s.SetPlan(t.Context(), backup.Schedule{Every: backup.Daily, Hour: 2, Keep: keep}, by); err != nil {
					t.Fatal(err)
				}
				c.Advance(24 * time.Hour)
				tt.due(t, s)
				if got := plan(t, s); got.Problem != "" || !got.Last.Equal(c.Now()) {
					t.Fatalf("night %d: plan = %+v, want a backup that began", night, got)
				}
				if tt.after != nil {
					s = tt.after(t, night, s)
				}
			}
			if err := s.SetPlan(t.Context(), backup.Schedule{Every: backup.Daily, Hour: 2, Keep: keep}, by); err != nil {
				t.Fatal(err)
			}
			c.Advance(time.Hour)
			due(t, s)
			if got := files(t, s); len(got) != 1+keep || !slices.Contains(got, made) {
				t.Errorf("after %d nights there are the files %q, want %d of the schedule and Ann's %s", nights, got, keep, made)
			}
		})
	}
}

// TestCompleteBackupsAreKept: what is not known to be complete is removed before anything that is.
func TestCompleteBackupsAreKept(t *testing.T) {
	t.Parallel()
	s, c := newScheduled(t, nil)
	if err := s.SetPlan(t.Context(), backup.Schedule{Every: backup.Daily, Hour: 2, Keep: 2}, by); err != nil {
		t.Fatal(err)
	}
	night := func() {
		t.Helper()
		c.Advance(24 * time.Hour)
		due(t, s)
	}
	night()
	night()
	good := files(t, s)
	s.Store.(*engine).write = func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "no backup at all")
		return err
	}
	for range 3 {
		night()
	}
	due(t, s)
	if got := files(t, s); !slices.Equal(got, good) {
		t.Errorf("after three backups that failed there are the files %q, want the complete ones %q", got, good)
	}
}

// TestTrial: the newest backup is restored into a directory that is gone afterwards, and what was wrong with it is
// said.
func TestTrial(t *testing.T) {
	t.Parallel()
	s, _ := newScheduled(t, nil)
	last := func() (got backup.Trial) {
		t.Helper()
		s.Wait()
		err := s.Store.View(t.Context(), func(tx storage.Tx) (err error) {
			got, err = s.LastTrial(tx, s.Recorder.Now())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if err := s.Try(t.Context(), by); !errors.Is(err, backup.ErrUnsupported) {
		t.Errorf("without an engine: %v", err)
	}
	s.Restore = func(ctx context.Context, dir string, r io.Reader, after func(storage.Tx) error) error {
		return badgerstore.Restore(ctx, badgerstore.Options{Dir: dir, FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }}, r, after)
	}
	if err := s.Try(t.Context(), by); !errors.Is(err, backup.ErrNone) {
		t.Errorf("without a backup: %v", err)
	}
	if err := s.Start(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	s.Wait()
	if err := s.Try(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	if got := last(); got.State != backup.Done || got.Records == 0 || got.By != "Ann" || got.Problem != "" || len(files(t, s)) != 1 {
		t.Errorf("trial = %+v, and there are %q", got, files(t, s))
	}
	renamed := &backup.Service{Store: s.Store, Recorder: s.Recorder, Dir: s.Dir, Host: "node-2", Restore: s.Restore, Log: s.Log}
	if err := renamed.Try(t.Context(), by); err != nil {
		t.Errorf("on the same machine with another name: %v", err)
	}
	renamed.Wait()
	elsewhere := &backup.Service{
		Store: s.Store, Recorder: s.Recorder, Dir: filepath.Join(t.TempDir(), "backups"), Host: "node-1", Restore: s.Restore, Log: s.Log,
	}
	if err := elsewhere.Try(t.Context(), by); !errors.Is(err, backup.ErrNone) {
		t.Errorf("on a machine that has no file: %v, want %v", err, backup.ErrNone)
	}
	file := last().File
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw[:len(raw)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Try(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	if got := last(); got.State != backup.Failed || got.Problem == "" || len(files(t, s)) != 1 {
		t.Errorf("trial of half a file = %+v, and there are %q", got, files(t, s))
	}
}
